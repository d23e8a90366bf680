// Rows over a draft vocabulary, seen as rows over the target's vocabulary.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/rows/row_adaptor.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// A one-to-one map between the tokens of a draft vocabulary and of the target's vocabulary, for look-ups in both directions.
///
///   const TokenMap map{std::vector<Token>{0, 5, TokenMap::none, 7}, 32000};    // draft token 1 is the target's 5
///
/// Copies share their content, which never changes.
/// Cost: memory for O(V) numbers of both vocabularies, once; a look-up is one read.
class TokenMap {
 public:
  /// A token without a partner is mapped to this.
  static constexpr Token none = -1;

  /// `targets[d]` is the target's token for draft token d, or `none`. `vocab_size` is the size of the target's vocabulary.
  /// Throws: InvalidArgument if a token lies outside the target's vocabulary, or if two draft tokens have one target.
  TokenMap(std::span<const Token> targets, Index vocab_size)
      : content_(new const Content(targets, vocab_size)) {}

  /// The sizes of the draft vocabulary and of the target's vocabulary.
  Index draft_vocab_size() const { return std::ssize(content_->to); }
  Index vocab_size() const { return std::ssize(content_->from); }
  /// How many tokens have a partner.
  Index size() const { return content_->size; }

  /// to(d) is the target's token for draft token d. from(x) is the draft token for target token x. `none` if there is no
  /// such token, and for ids outside the vocabulary.
  Token to(Token d) const { return at(content_->to, d); }
  Token from(Token x) const { return at(content_->from, x); }

  /// For each draft token 1 if it has a partner, else 0. The list lives as long as any copy of the map.
  std::span<const std::uint8_t> mapped() const { return detail::view_of(content_->mapped); }

 private:
  template <Distribution R>
  friend class MappedRow;

  struct Content {
    Content(std::span<const Token> targets, Index vocab_size)
        : to(targets.begin(), targets.end()), mapped(targets.size()) {
      if (vocab_size < 0) detail::invalid_argument("vocab_size = ", vocab_size, " is negative");
      detail::assign(from, vocab_size, none);
      for (std::size_t d = 0; d < to.size(); ++d)
        if (to[d] != none) add(d, vocab_size);
    }

    void add(std::size_t d, Index vocab_size) {
      if (to[d] < 0 || to[d] >= vocab_size)
        detail::invalid_argument("targets[", d, "] = ", to[d], " is outside the target's vocabulary 0..",
                                 vocab_size - 1);
      Token& partner = detail::at(from, to[d]);
      if (partner != none)
        detail::invalid_argument("targets[", partner, "] and targets[", d, "] are both ", to[d],
                                 ": two draft tokens cannot stand for one");
      partner = static_cast<Token>(d);
      mapped[d] = 1;
      ++size;
    }

    std::vector<Token> to, from;
    std::vector<std::uint8_t> mapped;
    Index size = 0;
  };

  static Token at(const std::vector<Token>& tokens, Token x) {
    return x >= 0 && x < std::ssize(tokens) ? detail::at(tokens, x) : none;
  }

  std::shared_ptr<const Content> content_;
};

/// A row over a draft vocabulary, read with the target's ids. A target token has the probability of its draft token; 0 if it
/// has none. A draw draws a draft token, and returns its target token. The map, or a copy of it, must outlive the row.
/// Pre: only mapped tokens have mass. If the map leaves tokens out, PartOfRow(row, OnlyTokens{map.mapped()}) is such a row.
/// Throws: InvalidDistribution if a token without a target token is drawn.
/// Cost: a look-up takes one read more than the row's own. The target's ids are in another order: so segments and sums take
/// one look-up per token, and there are no lists.
template <Distribution R>
class MappedRow : public detail::RowAdaptor<MappedRow<R>, detail::Keeps::numbers, R> {
  using Segment = detail::GatheredSegment<R>;

 public:
  MappedRow(const R& row, const TokenMap& map) : row_(row), map_(map.content_.get()) {}
  MappedRow(const R& row, TokenMap&& map) = delete;

  /// The row over the draft vocabulary.
  const R& row() const { return row_; }
  // For RowAdaptor.
  auto ask(const auto& f) const { return f(row_); }

  /// A copy of the row, read with the target's ids.
  template <Distribution Copy>
  MappedRow<Copy> of_copy(const Copy& copy) const {
    return {copy, map_};
  }

  /// The row before temperature, cuts and hooks, read with the target's ids.
  auto unprocessed() const
    requires detail::KnowsUnprocessed<R>
  {
    return of_copy(row_.unprocessed());
  }

  Index vocab_size() const { return std::ssize(map_->from); }

  double probability(Token x) const {
    const Token d = TokenMap::at(map_->from, x);
    return d == TokenMap::none ? 0.0 : specdec::probability(row_, d);
  }

  double log_probability(Token x) const {
    const Token d = TokenMap::at(map_->from, x);
    return d == TokenMap::none ? -std::numeric_limits<double>::infinity() : specdec::log_probability(row_, d);
  }

  bool possible(Token x) const {
    const Token d = TokenMap::at(map_->from, x);
    return d != TokenMap::none && specdec::possible(row_, d);
  }

  void prefetch(Token x) const {
    if (const Token d = TokenMap::at(map_->from, x); d != TokenMap::none) specdec::prefetch(row_, d);
  }

  Segment segment(Index start, Index count) const {
    Segment segment(count);
    for (Index i = 0; i < count; ++i) segment[i] = probability(static_cast<Token>(start + i));
    return segment;
  }

  double sum(Index start, Index count) const {
    double sum = 0;
    for (Index x = start; x < start + count; ++x) sum += probability(static_cast<Token>(x));
    return sum;
  }

  /// The most probable token, the lowest id among equals.
  /// Throws: InvalidDistribution on NaN, if no token has positive probability, and if the most probable one stands for no token
  /// of the target.
  /// Cost: the row's argmax, and look-ups of all lower ids.
  Token argmax() const
    requires ArgmaxRow<R>
  {
    const Token d = row_.argmax(), x = target_of(*map_, d);
    const double most = specdec::probability(row_, d);
    Token first = 0;
    while (first < x && probability(first) != most) ++first;
    return first;
  }

  auto sampler() const {
    return [map = map_, draw = row_.sampler()](double u) mutable { return target_of(*map, draw(u)); };
  }

 private:
  template <Distribution>
  friend class MappedRow;

  MappedRow(const R& row, const TokenMap::Content* map) : row_(row), map_(map) {}

  static Token target_of(const TokenMap::Content& map, Token d) {
    const Token x = TokenMap::at(map.to, d);
    if (x == TokenMap::none)
      detail::invalid_distribution("token ", d, " has mass, but stands for no token of the target");
    return x;
  }

  R row_;
  const TokenMap::Content* map_;
};

/// A matrix of rows over a draft vocabulary, as a matrix over the target's vocabulary, for any verifier. For example, the
/// rows of a reduced draft head.
///
///   verifier(target, MappedRows{draft, map}, tokens, rng)    // tokens: ids of the target's vocabulary
///
/// The rows must outlive it; a temporary matrix that owns them is refused.
template <DistributionMatrix M>
class MappedRows {
 public:
  template <Probabilities Rows>
    requires(!detail::OwningTemporary<Rows>)
  MappedRows(Rows&& rows, TokenMap map)
      : rows_(distributions(std::forward<Rows>(rows))), map_(std::move(map)) {}

  Index rows() const { return rows_.rows(); }
  Index vocab_size() const { return map_.vocab_size(); }
  auto row(Index i) const { return MappedRow<RowOf<M>>(rows_.row(i), map_); }

 private:
  M rows_;
  TokenMap map_;
};

template <Probabilities Rows>
MappedRows(Rows&&, TokenMap) -> MappedRows<decltype(distributions(std::declval<Rows>()))>;

}  // namespace specdec
