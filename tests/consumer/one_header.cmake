# SPDX-License-Identifier: MIT
# The one header that examples/one_header makes of the whole library, of verify/ alone, and of the C interface, compiles without
# any other.
cmake_minimum_required(VERSION 3.25)

function(check name program)
  file(REMOVE_RECURSE ${BUILD}/${name})
  file(MAKE_DIRECTORY ${BUILD}/${name})
  execute_process(COMMAND ${SOURCE}/examples/one_header ${ARGN} OUTPUT_FILE ${BUILD}/${name}/one.hpp
    COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE ${BUILD}/${name}/main.cpp "#define SPECDEC_C_IMPLEMENTATION\n#include \"one.hpp\"\n${program}")
  list(TRANSFORM EIGEN PREPEND -isystem)
  execute_process(COMMAND ${COMPILER} -std=c++20 -O0 -Wall -Wextra -Werror ${EIGEN} main.cpp -o program
    WORKING_DIRECTORY ${BUILD}/${name} COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${BUILD}/${name}/program COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(verify "
int main() {
  const Eigen::MatrixXd target = Eigen::RowVector2d(0, 1).replicate(3, 1), draft = target.topRows(2);
  const int tokens[] = {1, 1};
  specdec::SplitMix64 rng{1};
  return specdec::BlockVerifier{}(target, draft, tokens, rng).accepted == 2 ? 0 : 1;
}
")
check(verify "${verify}" verify)
check(all "#include <random>\n#include <vector>\n
struct Flat {
  Eigen::MatrixXd rows;
  specdec::Index vocab_size() const { return 2; }
  const Eigen::MatrixXd& forward(std::span<const specdec::Token>, specdec::Index count) {
    return rows = Eigen::MatrixXd::Constant(count, 2, 0.5);
  }
  void truncate(specdec::Index) {}
};
int main() {
  specdec::SpecDec decoder{Flat{}, specdec::ModelDrafter{Flat{}}};
  std::mt19937_64 rng{1};
  return decoder.generate(std::vector<specdec::Token>{0}, {.max_new_tokens = 10}, rng).tokens.size() == 10 ? 0 : 1;
}
")
check(c "
int main() {
  specdec_verdict verdict;
  return specdec_c_version() == SPECDEC_C_VERSION &&
    specdec_verify(SPECDEC_BLOCK, nullptr, nullptr, nullptr, 0, nullptr, &verdict, nullptr, 0) == SPECDEC_INVALID_ARGUMENT ? 0 : 1;
}
" more/c)
