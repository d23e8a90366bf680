// The input of one verification, checked once: shapes, token ids, q > 0; every number that a decision reads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "specdec/core/dense.hpp"
#include "specdec/core/distribution.hpp"
#include "specdec/core/error.hpp"
#include "specdec/core/named_row.hpp"

namespace specdec::detail {

/// Target rows, draft rows and tokens of one verify call.
template <SizedDistributionMatrix Target, DistributionMatrix Draft>
class DraftedBlock {
 public:
  DraftedBlock(Target target, Draft draft, std::span<const Token> tokens)
      : target_(std::move(target)), draft_(std::move(draft)), tokens_(tokens) {
    check_shapes();
    check_tokens("tokens", tokens_, target_.vocab_size());
  }

  Index gamma() const { return static_cast<Index>(tokens_.size()); }
  Token token(Index i) const { return tokens_[static_cast<std::size_t>(i)]; }

  auto p(Index i) const { return NamedRow(target_.row(i), "target", i); }
  auto q(Index i) const { return NamedRow(draft_.row(i), "draft", i); }

  /// A drafted token cannot have been drawn from a row that gives it no probability. To accept it, or to
  /// guess a q for it, would bias the output: it is an error, found before anything is decided.
  void check_drawn() const {
    for (Index i = 0; i < gamma(); ++i)
      if (q(i).probability(token(i)) == 0)
        invalid_argument("tokens[", i, "] = ", token(i), " has probability 0 in draft row ", i,
                         ", so it was not drawn from it");
  }

 private:
  void check_shapes() const {
    if (target_.vocab_size() < 1) invalid_argument("target has an empty vocabulary");
    if (draft_.rows() != gamma())
      invalid_argument("draft has ", draft_.rows(), " rows, expected gamma = ", gamma(), ", one per token");
    if (target_.rows() != gamma() + 1)
      invalid_argument("target has ", target_.rows(), " rows, expected gamma + 1 = ", gamma() + 1);
    if constexpr (SizedDistributionMatrix<Draft>)
      if (gamma() > 0 && draft_.vocab_size() != target_.vocab_size())
        invalid_argument("draft has a vocabulary of ", draft_.vocab_size(), ", target of ",
                         target_.vocab_size());
  }

  Target target_;
  Draft draft_;
  std::span<const Token> tokens_;
};

/// Checks shapes and tokens; see DraftedBlock.
template <Probabilities Target, Probabilities Draft>
auto drafted_block(const Target& target, const Draft& draft, std::span<const Token> tokens) {
  static_assert(SizedDistributionMatrix<decltype(distributions(target))>,
                "a target matrix needs vocab_size(): see SizedDistributionMatrix");
  return DraftedBlock(distributions(target), distributions(draft), tokens);
}

/// The same, and checks that every token can have been drawn from its draft row.
template <Probabilities Target, Probabilities Draft>
auto drawn_block(const Target& target, const Draft& draft, std::span<const Token> tokens) {
  auto block = drafted_block(target, draft, tokens);
  block.check_drawn();
  return block;
}

/// Weights and ratios are kept below this, so that products with them stay finite even where q is subnormal.
inline constexpr double largest_weight = 1e300;

inline double bounded(double weight) { return std::min(weight, largest_weight); }

/// p(x)/q(x), kept finite.
template <Distribution P, Distribution Q>
double ratio(const P& p, const Q& q, Token x) {
  return bounded(p.probability(x) / q.probability(x));
}

/// The race at position i of a block: against q_i for i < γ, against nothing for the bonus row γ.
template <class Chance, class Block>
std::optional<Token> race_at(Chance& chance, double w, const Block& block, Index i) {
  if (i == block.gamma()) return chance.race(w, block.p(i));
  return chance.race(w, block.p(i), block.q(i));
}

}  // namespace specdec::detail
