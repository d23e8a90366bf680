// A transformer that is split by vocabulary: the columns of all parts together are the whole model's logits, to the bit.
// SPDX-License-Identifier: MIT
#include "transformer/columns.hpp"

#include <Eigen/Core>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#include "small_transformer.hpp"
#include "support/catch.hpp"

namespace test_examples_columns {

using support::RandomModel;
using support::TemporaryFile;
using transformer::Columns;
using transformer::Index;
using transformer::Shape;
using transformer::Token;
using transformer::tokens_of_rank;
using transformer::Transformer;
using transformer::Weights;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

TEST_CASE("ranks share the tokens of a vocabulary out by whole panels") {
  for (const Index vocab_size : {1, 15, 16, 17, 37, 160, 1000})
    for (const Index ranks : {1, 2, 3, 5, 70}) {
      Index next = 0;
      for (Index rank = 0; rank < ranks; ++rank) {
        const auto [first, count] = tokens_of_rank(vocab_size, rank, ranks);
        CHECK(first == next);
        CHECK((first % transformer::lanes == 0 || count == 0));
        CHECK(count <= (vocab_size / ranks / transformer::lanes + 2) * transformer::lanes);
        next = first + count;
      }
      CHECK(next == vocab_size);
    }
}

TEMPLATE_TEST_CASE("pieces of a transformer make up its logits", "", float, Eigen::half) {
  for (const bool shared : {true, false})
    for (const Index ranks : {1, 3, 4}) {  // there are three panels, so one rank may have none
      const TemporaryFile file(
          RandomModel(Shape{12, 20, 2, 2, 1, 37, 80, shared}, 5).template versioned<float>());
      const auto weights = Weights<TestType>::read(file.path());
      Transformer<TestType> whole(file.path());
      std::vector<Columns<TestType>> pieces;
      for (Index rank = 0; rank < ranks; ++rank)
        pieces.emplace_back(weights, tokens_of_rank(37, rank, ranks));

      const auto check = [&](const RowMajor& expected, auto&& forward) {
        for (auto& piece : pieces) {
          CHECK(piece.vocab_size() == 37);
          const auto columns = forward(piece);
          RowMajor mine(columns.rows(), columns.cols());
          for (Index i = 0; i < mine.rows(); ++i) columns.row(i).read(0, mine.cols(), mine.row(i).data());
          REQUIRE(mine.rows() == expected.rows());
          CHECK(mine == expected.middleCols(columns.first(), mine.cols()));
        }
      };
      const std::vector<Token> line{3, 36, 0, 20}, tree{4, 5, 6};
      const std::vector<Index> parents{-1, -1, 0}, path{0, 2};
      check(whole.forward(line, 3), [&](auto& piece) { return piece.forward(line, 3); });
      check(whole.forward(tree, parents, 3), [&](auto& piece) { return piece.forward(tree, parents, 3); });
      whole.keep(path);
      for (auto& piece : pieces) piece.keep(path);
      check(whole.forward(line, 1), [&](auto& piece) { return piece.forward(line, 1); });
      whole.truncate(2);
      for (auto& piece : pieces) piece.truncate(2);
      check(whole.forward(line, 4), [&](auto& piece) { return piece.forward(line, 4); });
    }
}

}  // namespace test_examples_columns
