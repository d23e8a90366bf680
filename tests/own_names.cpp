// A program may have types with the names that are shortest in the library, and use the library beside them.
// SPDX-License-Identifier: MIT
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"

namespace test_own_names {

// Names that a parser, an editor or a server has, too. After the directive they are still the program's own.
using namespace specdec;
struct Line {
  int number = 1;
};
struct Tree {
  std::vector<Line> lines;
};
struct Chain {
  Tree* next = nullptr;
};
struct Error {
  Line where;
};
struct Options {
  Index answer_length = 3;
};
struct Result {
  std::vector<Token> text;
};

namespace {

// A model that always says 1.
struct Ones {
  Index vocab_size() const { return 2; }
  Eigen::MatrixXf forward(std::span<const Token>, Index rows) const {
    Eigen::MatrixXf out = Eigen::MatrixXf::Zero(rows, 2);
    out.col(1).setOnes();
    return out;
  }
  void truncate(Index) {}
};

Result answer(const Options& options) {
  std::mt19937_64 rng{1};
  SpecDec decoder{Ones{}, ModelDrafter{Ones{}, specdec::Line{}}, BlockVerifier{}};
  const specdec::Result found =
      decoder.generate(std::vector<Token>{0}, {.max_new_tokens = options.answer_length, .gamma = 2}, rng);
  return {found.tokens};
}

}  // namespace

TEST_CASE("a program's own Tree, Line, Chain, Options, Result and Error stand beside the library's") {
  STATIC_REQUIRE_FALSE(std::is_same_v<Tree, specdec::Tree<specdec::WithoutReplacement>>);
  Tree tree{{Line{}, Line{2}}};
  CHECK(Chain{&tree}.next->lines[1].number == 2);
  CHECK(Error{}.where.number == 1);
  CHECK(answer(Options{}).text == std::vector<Token>{1, 1, 1});
}

}  // namespace test_own_names
