// Rows that are spread over ranks: each rank holds some columns.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/more/ranks/communicator.hpp"
#include "specdec/more/ranks/exchange.hpp"
#include "specdec/more/ranks/rank_columns.hpp"
#include "specdec/more/ranks/sharded_rows.hpp"
#include "specdec/parents.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/sample/row_errors.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// A cache for the probabilities of a few tokens, in rows that are slow to ask. The search is linear.
class LookedUp {
 public:
  /// Makes room for this many more: add() then does not allocate.
  void make_room(std::size_t more) {
    const std::size_t needed = all_.size() + more;
    if (needed > all_.capacity()) all_.reserve(std::max(needed, 2 * all_.capacity()));
  }
  void add(Index row, Token token, double p) { all_.push_back({row, token, p}); }

  std::optional<double> find(Index row, Token token) const {
    for (const Probability& each : all_)
      if (each.row == row && each.token == token) return each.p;
    return {};
  }

 private:
  struct Probability {
    Index row;
    Token token;
    double p;
  };

  std::vector<Probability> all_;
};

}  // namespace detail

/// A matrix of distributions that is spread over ranks: this rank has the columns from `first` on. The columns are
/// probabilities, or logits (specdec::Logits), which are normalised over all ranks. The ranks' columns follow each other in
/// the order of the ranks, without gap or overlap; a rank may have none. Every rank must make the same calls with the same
/// arguments, and gets bit-identical answers.
///
///   specdec::Shards target{specdec::Logits(mine), first, vocab_size, ranks, tokens};    // 1 exchange
///   target.draw_ahead(2, [&] { return specdec::uniform01(rng); });                      // 1 more
///   specdec::Verdict v = specdec::BlockVerifier{}(target.rows(), draft, tokens, rng);   // none, nearly always
///
/// These exchanges fetch what every verification needs: the normalisers, the probabilities of the drafted tokens, and a few draws
/// from each row with their probabilities. The rule then runs on every rank with these numbers, and with generators of equal
/// seeds. Further questions take further exchanges. A draw takes one exchange, of three numbers. A sum over a row or a residual
/// (a residual mass, an overlap) takes one, of one number: each rank sums its own columns. A draw from a residual takes two, with
/// three numbers in all. So each question moves O(1) numbers. Only copies and entropies, which read whole rows in segments, move
/// the rows. A draft's rows may be spread, too, in the target's columns. Else every rank holds the whole draft; all copies are
/// equal. γ tokens and k draws need O(γ·k) numbers for any vocabulary; an all-gather of the rows would need (2γ + 1)·V.
/// Throws, on all ranks: InvalidArgument if the columns do not make up the vocabulary; InvalidCall if the ranks
/// differ in their rows, tokens, parents or generators; ExternalFailure if a rank could not give its numbers.
/// InvalidDistribution if the numbers make no distribution, if a row without mass is drawn from, or if a row sums to more than
/// 1 beyond rounding (the limit is PrefixSampler's; a row that is not spread is checked when it is drawn from). A rank without
/// memory for an exchange throws std::bad_alloc; the other ranks throw their communicator's error for different counts. If a
/// rank has no memory (for more than 64 rows) before its first exchange, the others wait forever. After a failure of one rank
/// alone, the generators may differ; the next exchange detects this. Go on with equal generators.
/// Cost: each rank gives 5 + 2·rows numbers at the start, and 1 + 2·rows·draws to draw ahead. A few vectors of that size.
template <DistributionMatrix M, class C>
class Shards {
  static_assert(Communicator<C>, "the communicator is no specdec::Communicator");

 public:
  /// Looks up tokens[i], if there is one, in row i.
  /// Pre: the communicator, and the data that `mine` views, outlive the object.
  template <Probabilities Rows>
  Shards(const Rows& mine, Index first, Index vocab_size, C& ranks, TokenIds tokens = {})
      : mine_(distributions(mine), first), exchange_(ranks), vocab_size_(vocab_size) {
    begin(
        tokens, [](Index k) { return k; }, {}, false);
  }
  /// The rows of a tree: row 0 stands after the context, row k + 1 after tokens[k]. Looks up tokens[k] in row
  /// parents[k] + 1, if there is such a row. With `row_by_row`, an error about a row here or in draw_ahead() is thrown when
  /// that row is asked for: only one of many texts fails.
  template <Probabilities Rows>
  Shards(const Rows& mine, Index first, Index vocab_size, C& ranks, TokenIds tokens, TokenIds parents,
         bool row_by_row = false)
      : mine_(distributions(mine), first), exchange_(ranks), vocab_size_(vocab_size) {
    begin(
        tokens, [&](Index k) { return k < parents.size() ? detail::as_type<Index>(parents[k]) + 1 : size(); },
        parents, row_by_row);
    detail::check_parent_count(parents.size(), tokens.size());
  }
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;

  Index size() const { return mine_.rows(); }
  Index vocab_size() const { return vocab_size_; }

  /// The whole matrix, for verifiers. A view of the Shards.
  ShardedRows<M, C> rows() & { return ShardedRows<M, C>(*this); }
  void rows() && = delete;

  /// Draws `count` tokens from every row, row after row. The row's samplers return these tokens first. Each token is used
  /// once, by any sampler of the row. When all are used, a draw takes an exchange.
  /// Random: uniform(), or uniform(i) for row i, returns a number in [0, 1) for each draw.
  /// Cost: one exchange.
  template <class Uniform>
    requires std::invocable<Uniform&> || std::invocable<Uniform&, Index>
  void draw_ahead(Index count, Uniform&& uniform) {
    if (count < 0) detail::invalid_argument("count = ", count, " is negative");
    exchange_.prepare([&] {
      const auto draws = static_cast<std::size_t>(size() * count);
      us_.resize(draws);
      for (std::size_t k = 0; k < draws; ++k) {
        if constexpr (std::invocable<Uniform&>) us_[k] = uniform();
        else us_[k] = uniform(static_cast<Index>(k) / count);
      }
      drawing_.count = count;
      detail::assign(drawing_.tokens, size() * count, 0);
      detail::assign(drawing_.used, size(), 0);
      looked_up_.make_room(draws);
    });
    exchange_draws(us_, [&](std::size_t k) { return static_cast<Index>(k) / count; });
    for (Index k = 0; k < size() * count; ++k) {
      const Index i = k / count;
      if (is_dead_end(i)) continue;  // an error only where the row is drawn from
      about(i, [&] { detail::at(drawing_.tokens, k) = learn(i, told(1 + 2 * static_cast<std::size_t>(k))); });
    }
    std::swap(ahead_, drawing_);
  }

  /// The k-th token drawn ahead from row i.
  Token drawn(Index i, Index k) const { return detail::at(ahead_.tokens, i * ahead_.count + k); }

  /// How many exchanges there were, and how many numbers each rank has given.
  Index exchanges() const { return exchange_.exchanges(); }
  Index numbers_given() const { return exchange_.numbers_given(); }

 private:
  friend class RankSpread<M, C>;
  friend class ShardedRow<M, C>;
  friend class ShardedRows<M, C>;

  // ---- The first exchange: each rank's columns, its mass in each row, and the tokens' probabilities

  // tokens[k] is looked up in row row_of(k).
  template <class RowOfToken>
  void begin(TokenIds tokens, const RowOfToken& row_of, TokenIds parents, bool row_by_row) {
    const auto weight_at = [](Index i) { return header + static_cast<std::size_t>(i); };
    const auto each_look_up = [&](auto&& visit) {
      for (Index k = 0; k < tokens.size(); ++k)
        if (const Index i = row_of(k); i >= 0 && i < size()) visit(i, static_cast<Token>(tokens[k]));
    };
    std::size_t count = weight_at(size());
    each_look_up([&](Index, Token) { ++count; });
    exchange_.prepare([&] {
      masses_.resize(size(), exchange_.ranks());
      looked_up_.make_room(static_cast<std::size_t>(tokens.size()));
      errors_.begin(row_by_row ? size() : 0);
    });
    exchange_(count, [&](auto& out) {
      out.assign({static_cast<double>(size()), static_cast<double>(vocab_size_), fingerprint(tokens, parents),
                  static_cast<double>(mine_.first()), static_cast<double>(mine_.count())});
      for (Index i = 0; i < size(); ++i) out.push_back(detail::attempt([&] { return mine_.weight(i); }));
      each_look_up(
          [&](Index i, Token x) { out.push_back(detail::attempt([&] { return mine_.probability(i, x); })); });
    });
    check_columns();
    exchange_.check_alike(2, "the tokens that were drafted (by a number made of them)");
    for (Index i = 0; i < size(); ++i) {
      about(i, [&] { take_masses(i, weight_at(i)); });
      if (has_failed(i)) masses_.clear(i);
    }
    std::size_t at = weight_at(size());
    each_look_up([&](Index i, Token x) {
      double p = 0;
      for (Index r = 0; r < exchange_.ranks(); ++r)
        if (masses_.of(i, r) > 0)  // a part without mass has no probabilities
          p += masses_.share(i, r) * exchange_.from(r, at);
      looked_up_.add(i, x, p);
      ++at;
    });
  }
  static constexpr std::size_t header = 5;

  // Calls f(). If errors are told row by row, keeps its error for row i.
  template <class F>
  void about(Index i, F&& f) {
    if (errors_.all().empty()) f();
    else if (!has_failed(i)) errors_.about(i, 1, f);
  }
  bool has_failed(Index i) const { return !errors_.all().empty() && detail::at(errors_.all(), i); }
  void check_row(Index i) const { detail::rethrow_error_of(errors_.all(), i); }

  // Sets the masses of row i, from the k-th number of each rank.
  void take_masses(Index i, std::size_t k) {
    detail::in_row("sharded", i, [&] {
      masses_.take(
          i, mine_.kind_of_weight(i), [&](Index r) { return exchange_.from(r, k); },
          detail::most_mass<RowOf<M>>(vocab_size_));
    });
  }

  // Compares what all ranks have told, so that all ranks throw alike.
  void check_columns() const {
    exchange_.check_alike(0, "how many rows they have");
    exchange_.check_alike(1, "the size of the vocabulary");
    if (size() == 0) return;
    Index next = 0;
    for (Index r = 0; r < exchange_.ranks(); ++r) {
      const auto first = static_cast<Index>(exchange_.from(r, 3)),
                 count = static_cast<Index>(exchange_.from(r, 4));
      if (first != next)
        detail::invalid_argument("rank ", r, " has columns from ", first, " on, expected ", next,
                                 ", where those of the ranks before it end");
      next = first + count;
    }
    if (next != vocab_size_)
      detail::invalid_argument("the ranks have ", next,
                               " columns together, expected vocab_size = ", vocab_size_);
  }

  // A hash of tokens and parents that is exact in a double.
  static double fingerprint(TokenIds tokens, TokenIds parents) {
    std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, of ids in place of bytes
    const auto add = [&](TokenIds ids) {
      for (Index i = 0; i < ids.size(); ++i)
        hash = (hash ^ static_cast<std::uint64_t>(ids[i])) * 0x100000001b3u;
    };
    add(tokens);
    add(parents);
    return static_cast<double>(hash >> 11);
  }

  // ---- What needs no exchange

  detail::RankPart part() const { return {mine_.first(), mine_.count()}; }
  bool has_mass(Index i) const { return masses_.of(i, exchange_.rank()) > 0; }
  double share(Index i) const { return masses_.share(i, exchange_.rank()); }
  double own(Index i, Token x) const {
    return has_mass(i) ? detail::attempt([&] { return share(i) * mine_.probability(i, x); }) : 0.0;
  }

  bool is_dead_end(Index i) const { return !has_failed(i) && masses_.is_dead_end(i); }

  // ---- Draws. A number u falls into one rank's part of the row; this rank draws the token, and tells it to the others.

  // A token, and its probability in the whole row.
  struct ToldDraw {
    Token token;
    double p;
  };
  // The draws ahead from each row, row after row, and how many of each row were used.
  struct DrawsAhead {
    Index count = 0;
    std::vector<Token> tokens = {};
    std::vector<Index> used = {};
  };

  // Draws by the number us[k] from row row_of(k). told(1 + 2·k) is the draw.
  template <class RowOfDraw>
  void exchange_draws(std::span<const double> us, const RowOfDraw& row_of) {
    exchange_(1 + 2 * us.size(), [&](auto& out) {
      out.push_back(us.empty() ? 0.0 : us.front());
      for (std::size_t k = 0; k < us.size(); ++k) give(out, row_of(k), us[k]);
    });
    exchange_.check_alike(0, "what their generators give");
  }
  // Gives a token and its probability if u falls into this rank's part of the row; else −1 and 0.
  void give(std::vector<double>& out, Index i, double u) const {
    double token = -1, p = 0;
    if (const Index rank = exchange_.rank(); masses_.owner(i, u) == rank) {
      p = detail::attempt([&] {
        const auto& row = mine_.row(i);
        const Token x = row.sampler()(masses_.inside(i, rank, u));
        token = static_cast<double>(mine_.first() + x);
        return share(i) * static_cast<double>(row.probability(x));
      });
    }
    out.insert(out.end(), {token, p});
  }
  // Reads the numbers of the rank that has drawn.
  ToldDraw told(std::size_t at) const {
    Index owner = 0;
    for (Index r = 0; r < exchange_.ranks(); ++r)
      if (exchange_.from(r, at) >= 0 || std::isnan(exchange_.from(r, at + 1))) owner = r;
    const double token = exchange_.from(owner, at), p = exchange_.from(owner, at + 1);
    if (!(token >= 0) || !(p > 0))
      detail::invalid_distribution("rank ", owner, " could not draw from its part of the row");
    return {static_cast<Token>(token), p};
  }
  Token learn(Index i, const ToldDraw& told) {
    if (!looked_up_.find(i, told.token)) looked_up_.add(i, told.token, told.p);
    return told.token;
  }

  // A token drawn ahead, while there are any; else one that u draws.
  Token next_draw(Index i, double u) {
    if (is_dead_end(i)) detail::invalid_distribution("no token has positive probability");
    if (ahead_.count > 0)
      if (Index& used = detail::at(ahead_.used, i); used < ahead_.count) return drawn(i, used++);
    exchange_.prepare([&] { looked_up_.make_room(1); });
    exchange_draws(std::span(&u, 1), [i](std::size_t) { return i; });
    return learn(i, told(1));
  }

  detail::RankColumns<M> mine_;
  detail::Exchange<C> exchange_;
  detail::RankMasses masses_;
  Index vocab_size_;
  detail::RowErrors<true> errors_;
  detail::LookedUp looked_up_;
  std::vector<double> us_;
  DrawsAhead ahead_, drawing_;
};

template <Probabilities Rows, class C, class... Tokens>
Shards(const Rows&, Index, Index, C&, Tokens...)
    -> Shards<decltype(distributions(std::declval<const Rows&>())), C>;

}  // namespace specdec
