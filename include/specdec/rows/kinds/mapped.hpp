// Rows over one vocabulary, seen as rows over another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Which token of the target's vocabulary each token of a draft vocabulary is, and the other way round. No two are one.
///
///   const TokenMap map{std::vector<Token>{0, 5, TokenMap::none, 7}, 32000};    // draft token 1 is the target's 5
///
/// Copies share their content, which never changes. Cost: O(V) numbers of both vocabularies, once; a look-up is one read.
class TokenMap {
 public:
  /// What a token without a partner is mapped to.
  static constexpr Token none = -1;

  /// `targets[d]` is the target's token that draft token d stands for, or `none`; `vocab_size` the number of tokens of the
  /// target. Throws: std::invalid_argument on a token outside the target's vocabulary, and where two draft tokens are
  /// mapped to one.
  TokenMap(std::span<const Token> targets, Index vocab_size)
      : content_(std::make_shared<const Content>(targets, vocab_size)) {}

  /// How many tokens the draft vocabulary has, and the target's.
  Index draft_vocab_size() const { return std::ssize(content_->to); }
  Index vocab_size() const { return std::ssize(content_->from); }
  /// How many tokens have a partner.
  Index size() const { return content_->size; }

  /// The target's token for draft token d, the draft's for the target's x; `none` where there is none, and for ids that no
  /// token has.
  Token to(Token d) const { return at(content_->to, d); }
  Token from(Token x) const { return at(content_->from, x); }

  /// For each draft token whether it has a partner, as 1 or 0. Lives as long as any copy of the map.
  std::span<const std::uint8_t> mapped() const { return {content_->mapped.data(), content_->mapped.size()}; }

 private:
  template <Distribution R>
  friend class MappedRow;

  struct Content {
    Content(std::span<const Token> targets, Index vocab_size)
        : to(targets.begin(), targets.end()), mapped(targets.size()) {
      if (vocab_size < 0) detail::invalid_argument("vocab_size = ", vocab_size, " is negative");
      from.assign(static_cast<std::size_t>(vocab_size), none);
      for (std::size_t d = 0; d < to.size(); ++d)
        if (to[d] != none) add(d, vocab_size);
    }

    void add(std::size_t d, Index vocab_size) {
      if (to[d] < 0 || to[d] >= vocab_size)
        detail::invalid_argument("targets[", d, "] = ", to[d], " is outside the target's vocabulary 0..",
                                 vocab_size - 1);
      Token& partner = from[static_cast<std::size_t>(to[d])];
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
    const auto i = static_cast<std::size_t>(x);
    return i < tokens.size() ? tokens[i] : none;
  }

  std::shared_ptr<const Content> content_;
};

/// A row over a draft vocabulary, by the target's ids: the probability of x is that of the draft token that stands for it,
/// 0 where there is none, and a draw is what the drawn token is mapped to. The map, or a copy of it, must outlive the row.
///
/// The row may have mass only on tokens that are mapped: PartOfRow(row, OnlyTokens{map.mapped()}) sees to that where the map leaves
/// some out. Throws: InvalidDistribution where a token is drawn that is not mapped.
/// Cost: a look-up takes one read more than the row's. What the row lists, or has side by side, is in another order by the
/// target's ids: segments and sums are gathered look-up by look-up, and lists are not offered.
template <Distribution R>
class MappedRow {
  using Segment = detail::Segment<>;

 public:
  MappedRow(const R& row, const TokenMap& map) : row_(row), map_(map.content_.get()) {}
  MappedRow(const R& row, TokenMap&& map) = delete;

  static constexpr bool constant_time_probability = specdec::constant_time_probability<R>;

  /// By the draft's ids.
  const R& row() const { return row_; }

  /// A copy of the row, by the target's ids.
  template <Distribution Copy>
  MappedRow<Copy> of_copy(const Copy& copy) const {
    return {copy, map_};
  }

  Index vocab_size() const { return std::ssize(map_->from); }

  double probability(Token x) const {
    const Token d = TokenMap::at(map_->from, x);
    return d == TokenMap::none ? 0.0 : specdec::probability(row_, d);
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

  auto sampler() const {
    return [map = map_, draw = row_.sampler()](double u) mutable {
      const Token d = draw(u), x = TokenMap::at(map->to, d);
      if (x == TokenMap::none)
        throw InvalidDistribution(
            detail::message("token ", d, " has mass, but stands for no token of the target"));
      return x;
    };
  }

 private:
  template <Distribution>
  friend class MappedRow;

  MappedRow(const R& row, const TokenMap::Content* map) : row_(row), map_(map) {}

  R row_;
  const TokenMap::Content* map_;
};

/// A matrix of rows over a draft vocabulary as one over the target's: what a reduced draft head returns, say. Any verifier
/// takes it.
///
///   verifier(target, MappedRows{distributions(draft), map}, tokens, rng)    // tokens by the target's ids
template <DistributionMatrix M>
class MappedRows {
 public:
  MappedRows(const M& rows, TokenMap map) : rows_(rows), map_(std::move(map)) {}

  Index rows() const { return rows_.rows(); }
  Index vocab_size() const { return map_.vocab_size(); }
  auto row(Index i) const { return MappedRow<RowOf<M>>(rows_.row(i), map_); }

 private:
  M rows_;
  TokenMap map_;
};

}  // namespace specdec
