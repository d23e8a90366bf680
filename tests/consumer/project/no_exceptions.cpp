// A program without exceptions and RTTI: it generates text, and then makes the mistake that its first argument names. With a
// second argument it handles the error itself.
// SPDX-License-Identifier: MIT
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#define SPECDEC_C_IMPLEMENTATION
#include <specdec/more/analysis.hpp>
#include <specdec/more/audits/text_audit.hpp>
#include <specdec/more/c/specdec.hpp>
#include <specdec/more/drafters/cascade_drafter.hpp>
#include <specdec/specdec.hpp>

// A model whose rows are flat, but for one bad number.
struct Flat {
  float bad = 0.5F;

  specdec::Index vocab_size() const { return 2; }
  Eigen::MatrixXf forward(std::span<const specdec::Token>, specdec::Index rows) {
    Eigen::MatrixXf out = Eigen::MatrixXf::Constant(rows, 2, 0.5F);
    out(rows - 1, 1) = bad;
    return out;
  }
  void truncate(specdec::Index) {}
};

// Its coin is NaN.
struct NoCoin {
  specdec::Verdict judge(const auto& drafted, auto& chance) const {
    return {chance.coin(drafted.p(0) * std::numeric_limits<double>::quiet_NaN()) ? 1 : 0, 0};
  }
};

specdec::Index generate(Flat target, auto drafter, auto rule) {
  specdec::SpecDec decoder{target, std::move(drafter), rule};
  std::mt19937_64 rng{1};
  const auto result =
      decoder.generate(std::vector<specdec::Token>{0}, {.max_new_tokens = 20, .gamma = 3}, rng);
  return std::ssize(result.tokens);
}

void make_mistake(std::string_view mistake) {
  const specdec::ModelDrafter drafter{Flat{}};
  const specdec::BlockVerifier block;
  if (mistake == "argument") generate({}, specdec::ModelDrafter{Flat{}}, specdec::LenientVerifier{-1.0});
  if (mistake == "target") generate({.bad = -1}, drafter, block);
  if (mistake == "rule") generate({}, drafter, NoCoin{});
  if (mistake == "cascade")
    generate({}, specdec::CascadeDrafter{Flat{.bad = -1}, specdec::ModelDrafter{Flat{}}}, block);
}

// An engine may have the audit of its text in it.
bool audit_says_nothing() {
  specdec::testing::TextAudit audit;
  const Eigen::RowVectorXf row = Eigen::RowVectorXf::Constant(2, 0.5F);
  audit.add(row, 1);
  audit.add(row, 0, row);
  return audit.tokens() == 2 && !audit.convicts(1e-6);
}

int main(int count, char** arguments) {
  if (!audit_says_nothing()) return 1;
  if (generate({}, specdec::ModelDrafter{Flat{}}, specdec::BlockVerifier{}) != 20) return 1;
  if (count > 2)
    specdec::set_error_handler([](const specdec::Error& error) {
      std::printf("handled: %s\n", error.what());
      std::fflush(stdout);
      std::_Exit(3);
    });
  if (count > 1) make_mistake(arguments[1]);
  return 0;
}
