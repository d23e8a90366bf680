// Rows that are spread over ranks, each of which holds some columns.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/parents.hpp"
#include "specdec/ranks/communicator.hpp"
#include "specdec/ranks/exchange.hpp"
#include "specdec/ranks/looked_up.hpp"
#include "specdec/ranks/rank_columns.hpp"
#include "specdec/ranks/rank_draws.hpp"
#include "specdec/ranks/rank_masses.hpp"
#include "specdec/ranks/rank_part.hpp"
#include "specdec/ranks/sharded_rows.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/sample/row_errors.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// A matrix of distributions of which this rank has the columns from `first` on: probabilities, or logits (specdec::Logits)
/// that are normalised over all ranks. All ranks hold some, in the order of their numbers, none twice, and some may hold
/// none. What they do with it they do together: every rank makes the same calls with the same arguments, and gets the same
/// answers, to the bit.
///
///   specdec::Shards target{specdec::Logits(mine), first, vocab_size, ranks, tokens};    // 1 exchange
///   target.draw_ahead(2, [&] { return specdec::uniform01(rng); });                      // 1 more
///   specdec::Verdict v = specdec::BlockVerifier{}(target.rows(), draft, tokens, rng);   // none, nearly always
///
/// The exchanges ask for all that a verification will surely ask: the normalisers, the probabilities of the drafted
/// tokens, and a few draws from each row with theirs. The rule then runs on every rank on these numbers, with chance of
/// equal seeds. What it asks beyond them takes more exchanges: a draw one, of three numbers; a sum over a row and over what
/// a rule subtracts from it (a residual mass, an overlap) one, of one number, as each rank sums its own columns; a draw from
/// such a residual two, of three numbers together. So whatever a rule does is O(1) numbers a question. Only what hands rows
/// out in segments (copies, entropies) moves them.
/// A draft that is spread over ranks, too, is to be so in the same columns. One that is not is the same on every rank.
/// Source: what has to cross a wire is O(γ·k) numbers, whatever the vocabulary; an all-gather of the rows would be (2γ + 1)·V.
/// Throws, on all ranks alike: std::invalid_argument where their columns do not make up the vocabulary; std::logic_error
/// where they do not do the same (numbers of rows, tokens, parents or generators that differ); InvalidDistribution where a
/// rank's numbers make no distribution, and where a row sums to more than rounding makes of 1 (PrefixSampler says how much),
/// which a whole row tells when it is drawn from; std::runtime_error where a rank could not tell its numbers. A rank that
/// has no memory for an exchange throws std::bad_alloc, and the others throw what their communicator throws where ranks give
/// different counts. Before its first exchange a rank that has no memory (for more than 64 rows) leaves the others waiting.
/// After a failure of one rank alone the generators of the ranks may differ, which the next exchange tells: go on with equal
/// ones.
/// Cost: numbers of an exchange: 5 + 2·rows for each rank, then 1 + 2·rows·draws. A few vectors of that size.
template <DistributionMatrix M, Communicator C>
class Shards {
 public:
  /// tokens[i], if there is one, is looked up in row i. The communicator, and what the matrix is a view of, must outlive this.
  template <Probabilities Rows>
  Shards(const Rows& mine, Index first, Index vocab_size, C& ranks, TokenIds tokens = {})
      : mine_(distributions(mine), first), exchange_(ranks), vocab_size_(vocab_size) {
    begin(tokens, [](Index k) { return k; }, {});
  }
  /// The rows of a tree, where row 0 stands after the context and row k + 1 after tokens[k]: tokens[k] is looked up in row
  /// parents[k] + 1, if there is one. With `row_by_row` what is thrown about a row, here and in draw_ahead(), is thrown where
  /// that row is asked for: it is the failure of one of many texts.
  template <Probabilities Rows>
  Shards(const Rows& mine, Index first, Index vocab_size, C& ranks, TokenIds tokens, TokenIds parents,
         bool row_by_row = false)
      : mine_(distributions(mine), first),
        exchange_(ranks),
        vocab_size_(vocab_size),
        row_by_row_(row_by_row) {
    begin(
        tokens, [&](Index k) { return k < parents.size() ? static_cast<Index>(parents[k]) + 1 : size(); },
        parents);
    detail::check_parent_count(parents.size(), tokens.size());
  }
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;

  Index size() const { return mine_.rows(); }
  Index vocab_size() const { return vocab_size_; }

  /// The whole as a matrix for verifiers. A view of this.
  ShardedRows<M, C> rows() & { return ShardedRows<M, C>(*this); }
  void rows() && = delete;

  /// Draws so many tokens from every row, by numbers of [0, 1), row after row: the first ones that its sampler returns. One
  /// exchange. uniform(i), if it can be called so, is a number for row i.
  /// Each of them is used once, no matter which sampler of the row asks; when all are used, a draw takes an exchange.
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
      drawing_.clear();
      drawing_.reserve(draws);
      used_.reserve(static_cast<std::size_t>(size()));
      looked_up_.make_room(draws);
    });
    draws_.draw(us_, count, [&](Index i, const auto& told) {
      drawing_.push_back(0);
      about(i, [&] { drawing_.back() = learn(i, told()); });
    });
    used_.assign(static_cast<std::size_t>(size()), 0);
    drawn_.swap(drawing_);
    ahead_ = count;
  }

  /// What the k-th draw ahead from row i was.
  Token drawn(Index i, Index k) const { return drawn_[static_cast<std::size_t>(i * ahead_ + k)]; }

  /// Looks up tokens[k] in row rows[k], for all k in one exchange. What was looked up, or drawn, is not asked for again.
  void look_up(std::span<const Index> rows, std::span<const Token> tokens) {
    exchange_.prepare([&] { looked_up_.make_room(tokens.size()); });
    exchange_(tokens.size(), [&](auto& out) {
      for (std::size_t k = 0; k < tokens.size(); ++k) out.push_back(own(rows[k], tokens[k]));
    });
    for (std::size_t k = 0; k < tokens.size(); ++k) looked_up_.add(rows[k], tokens[k], exchange_.sum(k));
  }

  /// How often the ranks have exchanged numbers, and how many each has given.
  Index exchanges() const { return exchange_.exchanges(); }
  Index numbers_given() const { return exchange_.numbers_given(); }

 private:
  friend class RankSpread<M, C>;
  friend class ShardedRow<M, C>;
  friend class ShardedRows<M, C>;

  // ---- The first exchange: who has what, how much, and the tokens' own numbers

  // row_of(k) is the row that tokens[k] is looked up in.
  template <class RowOfToken>
  void begin(TokenIds tokens, const RowOfToken& row_of, TokenIds parents) {
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
      errors_.begin(row_by_row_ ? size() : 0);
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

  // f(), which is about row i.
  template <class F>
  void about(Index i, F&& f) {
    if (!row_by_row_) f();
    else if (!has_failed(i)) errors_.about(i, 1, f);
  }
  bool has_failed(Index i) const { return row_by_row_ && errors_.all()[static_cast<std::size_t>(i)]; }
  void check(Index i) const { detail::rethrow_error_of(errors_.all(), i); }

  // Of row i, from the k-th number of each rank.
  void take_masses(Index i, std::size_t k) {
    try {
      masses_.take(
          i, mine_.kind_of_weight(i), [&](Index r) { return exchange_.from(r, k); },
          detail::most_mass<RowOf<M>>(vocab_size_));
    } catch (const InvalidDistribution& error) {
      throw error.in("sharded", i);
    }
  }

  // All ranks find the same fault.
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

  // Of tokens and their parents: equal ones give one number, others another, nearly surely; exact in a double.
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

  // ---- What this rank knows by itself

  bool has_mass(Index i) const { return masses_.of(i, exchange_.rank()) > 0; }
  double share(Index i) const { return masses_.share(i, exchange_.rank()); }
  double own(Index i, Token x) const {
    return has_mass(i) ? detail::attempt([&] { return share(i) * mine_.probability(i, x); }) : 0.0;
  }

  // ---- What rows ask for

  double probability(Index i, Token x) {
    check(i);
    if (x < 0 || x >= vocab_size_) return 0;
    if (const auto known = looked_up_.find(i, x)) return *known;
    const Token tokens[] = {x};
    const Index rows[] = {i};
    look_up(rows, tokens);
    return *looked_up_.find(i, x);
  }

  double sum(Index i, Index start, Index count) {
    exchange_.one([&] { return has_mass(i) ? share(i) * mine_.sum(i, start, count) : 0.0; });
    return exchange_.sum(0);
  }

  template <class Segment>
  Segment segment(Index i, Index start, Index count) {
    exchange_(static_cast<std::size_t>(count), [&](auto& out) {
      for (Index x = start; x < start + count; ++x)
        out.push_back(has_mass(i) ? share(i) * mine_.probability(i, static_cast<Token>(x)) : 0.0);
    });
    Segment segment(count);
    for (Index k = 0; k < count; ++k) segment[k] = exchange_.sum(static_cast<std::size_t>(k));
    return segment;
  }

  // The lowest id among equals: that is on the first of the ranks that have one.
  Token argmax(Index i) {
    exchange_(2, [&](auto& out) {
      out.assign({0.0, -1.0});
      if (!has_mass(i)) return;
      const Token x = mine_.row(i).argmax();
      out.assign({mine_.height(i, x), static_cast<double>(mine_.first() + x)});
    });
    Index best = -1;
    for (Index r = 0; r < exchange_.ranks(); ++r) {
      if (!(masses_.of(i, r) > 0)) continue;
      if (!(exchange_.from(r, 0) > mine_.least_height))  // nor a NaN is
        throw InvalidDistribution(
            detail::message("rank ", r, " could not tell the likeliest token of its part of row ", i));
      if (best < 0 || exchange_.from(r, 0) > exchange_.from(best, 0)) best = r;
    }
    return static_cast<Token>(exchange_.from(best, 1));
  }

  // What was drawn ahead, while there is some.
  Token next_draw(Index i, double u) {
    if (ahead_ == 0) return draw(i, u);
    Index& used = used_[static_cast<std::size_t>(i)];
    return used < ahead_ ? drawn(i, used++) : draw(i, u);
  }
  Token draw(Index i, double u) {
    exchange_.prepare([&] { looked_up_.make_room(1); });
    return learn(i, draws_.draw(i, u));
  }
  Token learn(Index i, const detail::ToldDraw& told) {
    if (!looked_up_.find(i, told.token)) looked_up_.add(i, told.token, told.p);
    return told.token;
  }

  // ---- Sums over all columns of rows that are made of these, and draws from such rows

  ColumnRange columns() const { return {mine_.first(), mine_.count()}; }

  auto part(Index i, ColumnRange columns) const {
    if (columns != this->columns())
      throw std::logic_error(
          "specdec: rows of which the ranks have different columns are not summed together");
    return detail::PartOfRow(mine_.row(i), ColumnRange{0, mine_.count()}, has_mass(i) ? share(i) : 0.0);
  }

  template <class F>
  double sum_of(const F& f) {
    exchange_.one([&] { return detail::attempt(f); });
    return exchange_.sum(0);
  }

  template <class Part>
  Token draw_of(double u, const Part& part) {
    return draws_.draw_of(u, part);
  }

  // Of equals that of the first rank, which has the lowest ids. A rank without mass has none, and no say.
  template <class F>
  Token first_to_arrive(const F& f) {
    exchange_(2, [&](auto& out) {
      const auto mine = f();
      out.assign({mine.time, static_cast<double>(mine.token)});
    });
    Index first = -1;
    for (Index r = 0; r < exchange_.ranks(); ++r) {
      if (std::isnan(exchange_.from(r, 0)))
        throw InvalidDistribution(detail::message("rank ", r, " could not draw from its part of a row"));
      if (exchange_.from(r, 1) >= 0 && (first < 0 || exchange_.from(r, 0) < exchange_.from(first, 0)))
        first = r;
    }
    if (first < 0) throw InvalidDistribution("no token has positive probability");
    return static_cast<Token>(exchange_.from(first, 1));
  }

  detail::RankColumns<M> mine_;
  detail::Exchange<C> exchange_;
  detail::RankMasses masses_;
  detail::RankDraws<M, C> draws_{mine_, masses_, exchange_};
  Index vocab_size_, ahead_ = 0;
  bool row_by_row_ = false;
  detail::RowErrors<true> errors_;
  detail::LookedUp looked_up_;
  std::vector<double> us_;
  std::vector<Token> drawn_, drawing_;
  std::vector<Index> used_;  // how many of a row's
};

template <Probabilities Rows, class C, class... Tokens>
Shards(const Rows&, Index, Index, C&, Tokens...)
    -> Shards<decltype(distributions(std::declval<const Rows&>())), C>;

}  // namespace specdec
