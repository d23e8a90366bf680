// Rows that are spread over ranks, each of which holds some columns.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/communicator.hpp"
#include "specdec/error.hpp"
#include "specdec/rows/dense.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/row_cache.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec {

template <DistributionMatrix M, Communicator C>
class ShardedRow;
template <DistributionMatrix M, Communicator C>
class ShardedRows;

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
/// equal seeds. What it asks beyond them (one more draw, a sum where a race has gone on for too long) is one more
/// exchange each, a segment one number a token.
/// Source: what has to cross a wire is O(γ·k) numbers, whatever the vocabulary; an all-gather of the rows would be (2γ + 1)·V.
/// Throws, on all ranks alike: std::invalid_argument where their columns do not make up the vocabulary, or their rows are
/// not as many; std::logic_error where they do not do the same (tokens or generators that differ);
/// InvalidDistribution where a rank's numbers make none.
/// Cost: numbers of an exchange: 5 + 2·rows for each rank, then 1 + 2·rows·draws. No allocation in steady state but the
/// communicator's.
template <DistributionMatrix M, Communicator C>
class Shards {
 public:
  /// tokens[i], if there is one, is looked up in row i. The communicator, and what the matrix is a view of, must outlive this.
  template <Probabilities Rows>
  Shards(const Rows& mine, Index first, Index vocab_size, C& ranks, TokenIds tokens = {})
      : mine_(distributions(mine)), ranks_(&ranks), first_(first), vocab_size_(vocab_size) {
    begin(tokens);
  }
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;

  Index size() const { return mine_.matrix().rows(); }
  Index vocab_size() const { return vocab_size_; }

  /// The whole as a matrix for verifiers. A view of this.
  ShardedRows<M, C> rows() & { return ShardedRows<M, C>(*this); }
  void rows() && = delete;

  /// Draws so many tokens from every row, by numbers of [0, 1), row after row: the first ones that its sampler returns. One
  /// exchange.
  /// They serve one verification: a token used twice is no independent draw.
  template <std::invocable Uniform>
  void draw_ahead(Index count, Uniform&& uniform) {
    if (count < 0) detail::invalid_argument("count = ", count, " is negative");
    us_.clear();
    for (Index k = 0; k < size() * count; ++k) us_.push_back(uniform());
    drawn_.clear();
    draw(us_, count);
    ahead_ = count;
  }

  /// What the k-th draw ahead from row i was.
  Token drawn(Index i, Index k) const { return drawn_[static_cast<std::size_t>(i * ahead_ + k)]; }

  /// Looks up tokens[k] in row rows[k], for all k in one exchange. What was looked up, or drawn, is not asked for again.
  void look_up(std::span<const Index> rows, std::span<const Token> tokens) {
    give([&](auto& out) {
      for (std::size_t k = 0; k < tokens.size(); ++k) out.push_back(own(rows[k], tokens[k]));
    });
    for (std::size_t k = 0; k < tokens.size(); ++k) learn(rows[k], tokens[k], sum_of(k));
  }

  /// How often the ranks have exchanged numbers, and how many each has given.
  Index exchanges() const { return exchanges_; }
  Index numbers_given() const { return given_; }

 private:
  friend class ShardedRow<M, C>;
  friend class ShardedRows<M, C>;
  using LocalRow = RowOf<M>;
  static constexpr bool normalises_itself = requires(const LocalRow& row) { row.log_sum_exp(); };

  struct Known {
    Index row;
    Token token;
    double p;
  };

  static constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

  // ---- Exchanges

  // Every rank gives what `fill` enters. A rank that fails gives NaN, as the others wait for it.
  template <class Fill>
  void give(const Fill& fill, std::size_t count = 0) {
    out_.clear();
    try {
      fill(out_);
    } catch (const std::exception&) {
      if (count == 0) throw;
      out_.assign(count, nothing);
    }
    all_.resize(out_.size() * static_cast<std::size_t>(Index{ranks_->size()}));
    ranks_->all_gather(std::span<const double>(out_), std::span<double>(all_));
    ++exchanges_;
    given_ += std::ssize(out_);
  }
  // The k-th number of a rank.
  double from(Index rank, std::size_t k) const {
    return all_[static_cast<std::size_t>(rank) * out_.size() + k];
  }
  double sum_of(std::size_t k) const {
    double sum = 0;
    for (Index r = 0; r < ranks_->size(); ++r) sum += from(r, k);
    return sum;
  }
  void check_alike(std::size_t k, const char* what) const {
    for (Index r = 1; r < ranks_->size(); ++r)
      if (from(r, k) != from(0, k))
        throw std::logic_error(detail::message("specdec: the ranks differ in ", what, ": rank 0 has ",
                                               from(0, k), ", rank ", r, " has ", from(r, k)));
  }

  // ---- The first exchange: who has what, how much, and the tokens' own numbers

  void begin(TokenIds tokens) {
    const auto rows = static_cast<std::size_t>(size());
    const std::size_t looked_up = std::min(rows, static_cast<std::size_t>(tokens.size()));
    give([&](auto& out) {
      out.assign({static_cast<double>(size()), static_cast<double>(vocab_size_), fingerprint(tokens),
                  static_cast<double>(first_), static_cast<double>(columns())});
      for (Index i = 0; i < size(); ++i) out.push_back(attempt([&] { return weight(mine_[i]); }));
      for (std::size_t i = 0; i < looked_up; ++i)
        out.push_back(attempt([&] {
          return own_alone(static_cast<Index>(i), static_cast<Token>(tokens[static_cast<Index>(i)]));
        }));
    });
    check_columns();
    check_alike(2, "the tokens that were drafted (by a number made of them)");
    share_out();
    for (std::size_t i = 0; i < looked_up; ++i) {
      double p = 0;
      for (Index r = 0; r < ranks_->size(); ++r)
        if (mass(static_cast<Index>(i), r) > 0)  // a part without mass has no probabilities
          p += share(static_cast<Index>(i), r) * from(r, header + rows + i);
      learn(static_cast<Index>(i), static_cast<Token>(tokens[static_cast<Index>(i)]), p);
    }
  }
  static constexpr std::size_t header = 5;

  Index columns() const { return size() > 0 ? mine_[0].vocab_size() : 0; }

  // All ranks find the same fault.
  void check_columns() const {
    check_alike(0, "how many rows they have");
    check_alike(1, "the size of the vocabulary");
    Index next = 0;
    for (Index r = 0; r < ranks_->size(); ++r) {
      const auto first = static_cast<Index>(from(r, 3)), count = static_cast<Index>(from(r, 4));
      if (first != next)
        detail::invalid_argument("rank ", r, " has columns from ", first, " on, expected ", next,
                                 ", where those of the ranks before it end");
      next = first + count;
    }
    if (size() > 0 && next != vocab_size_)
      detail::invalid_argument("the ranks have ", next,
                               " columns together, expected vocab_size = ", vocab_size_);
  }

  // Of tokens: equal ones give one number, others another, nearly surely; exact in a double.
  static double fingerprint(TokenIds tokens) {
    std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, of ids in place of bytes
    for (Index i = 0; i < tokens.size(); ++i)
      hash = (hash ^ static_cast<std::uint64_t>(tokens[i])) * 0x100000001b3u;
    return static_cast<double>(hash >> 11);
  }

  template <class F>
  static double attempt(F&& f) {
    try {
      return f();
    } catch (const std::exception&) {
      return nothing;
    }
  }

  // What this rank's part of a row weighs: its mass, or, of a row that normalises itself, the logarithm of that.
  static double weight(const LocalRow& row) {
    if constexpr (!normalises_itself)
      return row.vocab_size() == 0 ? 0.0 : static_cast<double>(row.sum(0, row.vocab_size()));
    else return is_empty(row) ? -infinity : static_cast<double>(row.log_sum_exp().value);
  }
  // Whether no token of it can be drawn, as may well be of a part.
  static bool is_empty(const LocalRow& row) {
    for (Token x = 0; x < row.vocab_size(); ++x)
      if (possible(row, x)) return false;
    return true;
  }
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  // Masses, and by what each rank's own numbers are to be multiplied.
  void share_out() {
    const auto ranks = static_cast<std::size_t>(Index{ranks_->size()});
    masses_.assign(ranks * static_cast<std::size_t>(size()), 0.0);
    for (Index i = 0; i < size(); ++i) {
      double largest = -infinity, all = 0;
      for (Index r = 0; r < ranks_->size(); ++r)
        largest = std::max(largest, from(r, header + static_cast<std::size_t>(i)));
      for (Index r = 0; r < ranks_->size(); ++r) {
        const double w = from(r, header + static_cast<std::size_t>(i));
        all += mass(i, r) = normalises_itself ? std::exp(w - largest) : w;
      }
      if (!(all > 0) || !(all <= std::numeric_limits<double>::max()))
        throw InvalidDistribution(detail::message("the ranks' parts of row ", i, " sum to ", all));
      if (normalises_itself)
        for (Index r = 0; r < ranks_->size(); ++r) mass(i, r) /= all;
    }
  }
  double& mass(Index i, Index r) { return masses_[static_cast<std::size_t>(i * ranks_->size() + r)]; }
  double mass(Index i, Index r) const { return masses_[static_cast<std::size_t>(i * ranks_->size() + r)]; }
  double share(Index i, Index r) const { return normalises_itself ? mass(i, r) : 1.0; }
  double my_share(Index i) const { return share(i, ranks_->rank()); }

  // ---- What this rank knows by itself

  bool is_mine(Token x) const { return x >= first_ && x < first_ + columns(); }
  double own_alone(Index i, Token x) const {
    return is_mine(x) ? static_cast<double>(mine_[i].probability(static_cast<Token>(x - first_))) : 0.0;
  }
  bool has_mass(Index i) const { return mass(i, ranks_->rank()) > 0; }
  double own(Index i, Token x) const {
    if (!has_mass(i)) return 0;
    return attempt([&] { return my_share(i) * own_alone(i, x); });
  }

  void learn(Index i, Token x, double p) { known_.push_back({i, x, p}); }
  const Known* find(Index i, Token x) const {
    for (const Known& known : known_)
      if (known.row == i && known.token == x) return &known;
    return nullptr;
  }

  // ---- What rows ask for

  double probability(Index i, Token x) {
    if (x < 0 || x >= vocab_size_) return 0;
    if (const Known* known = find(i, x)) return known->p;
    const Token tokens[] = {x};
    const Index rows[] = {i};
    look_up(rows, tokens);
    return known_.back().p;
  }

  double sum(Index i, Index start, Index count) {
    const Index from = std::clamp<Index>(start - first_, 0, columns()),
                to = std::clamp<Index>(start + count - first_, 0, columns());
    give([&](auto& out) {
      out.push_back(attempt([&] {
        return from < to && has_mass(i) ? my_share(i) * static_cast<double>(mine_[i].sum(from, to - from))
                                        : 0.0;
      }));
    });
    return sum_of(0);
  }

  template <class Segment>
  Segment segment(Index i, Index start, Index count) {
    give(
        [&](auto& out) {
          const auto& row = mine_[i];
          for (Index x = start; x < start + count; ++x)
            out.push_back(has_mass(i) && is_mine(static_cast<Token>(x))
                              ? my_share(i) *
                                    static_cast<double>(row.probability(static_cast<Token>(x - first_)))
                              : 0.0);
        },
        static_cast<std::size_t>(count));
    Segment segment(count);
    for (Index k = 0; k < count; ++k) segment[k] = sum_of(static_cast<std::size_t>(k));
    return segment;
  }

  Token argmax(Index i) {
    give(
        [&](auto& out) {
          out.assign({-1.0, -1.0});
          if (!has_mass(i)) return;
          const auto& row = mine_[i];
          const Token x = row.argmax();
          out.assign(
              {my_share(i) * static_cast<double>(row.probability(x)), static_cast<double>(first_ + x)});
        },
        2);
    Index best = 0;
    for (Index r = 0; r < ranks_->size(); ++r)
      if (!(from(r, 0) <= from(best, 0))) best = r;  // a NaN wins, and is found out
    if (!(from(best, 0) > 0)) throw InvalidDistribution("no token has positive probability");
    return static_cast<Token>(from(best, 1));
  }

  // `count` draws from each of some rows, by us[row·count + k]: whose masses they fall into finds them.
  void draw(std::span<const double> us, Index count) {
    give([&](auto& out) {
      out.push_back(us.empty() ? 0.0 : us.front());
      for (Index i = 0; i < size(); ++i)
        for (Index k = 0; k < count; ++k) draw_mine(out, i, us[static_cast<std::size_t>(i * count + k)]);
    });
    check_alike(0, "what their generators give");
    for (std::size_t k = 0; k < us.size(); ++k)
      drawn_.push_back(take_drawn(static_cast<Index>(k) / count, 1 + 2 * k));
  }

  Token draw(Index i, double u) {
    give([&](auto& out) {
      out.push_back(u);
      draw_mine(out, i, u);
    });
    check_alike(0, "what their generators give");
    return take_drawn(i, 1);
  }

  // A token and its probability, where u falls into this rank's part of the row; else nothing.
  void draw_mine(std::vector<double>& out, Index i, double u) const {
    double token = -1, p = 0;
    if (const Index owner = owner_of(i, u); owner == ranks_->rank()) {
      p = attempt([&] {
        const auto& row = mine_[i];
        const Token x = row.sampler()(inside(i, owner, u));
        token = static_cast<double>(first_ + x);
        return my_share(i) * static_cast<double>(row.probability(x));
      });
    }
    out.insert(out.end(), {token, p});
  }

  Token take_drawn(Index i, std::size_t at) {
    Index owner = 0;
    for (Index r = 0; r < ranks_->size(); ++r)
      if (from(r, at) >= 0 || std::isnan(from(r, at + 1))) owner = r;
    const auto token = static_cast<Token>(from(owner, at));
    if (token < 0 || !(from(owner, at + 1) > 0))
      throw InvalidDistribution(detail::message("rank ", owner, " could not draw from its part of the row"));
    if (find(i, token) == nullptr) learn(i, token, from(owner, at + 1));
    return token;
  }

  // The last rank with mass, where rounding has u beyond all of them.
  Index owner_of(Index i, double u) const {
    Index owner = -1;
    for (Index r = 0; r < ranks_->size(); ++r) {
      if (mass(i, r) > 0) owner = r;
      u -= mass(i, r);
      if (u < 0 && owner == r) break;
    }
    return owner;
  }

  // u as the owner's sampler takes it.
  double inside(Index i, Index owner, double u) const {
    for (Index r = 0; r < owner; ++r) u -= mass(i, r);
    const double most = mass(i, owner) * (1 - 0x1p-52);
    u = std::clamp(u, 0.0, most);
    return normalises_itself ? u / mass(i, owner) : u;
  }

  detail::RowCache<M> mine_;
  C* ranks_;
  Index first_, vocab_size_, ahead_ = 0;
  std::vector<double> masses_;  // of each row on each rank
  std::vector<Known> known_;
  std::vector<double> us_;
  std::vector<Token> drawn_;
  std::vector<double> out_, all_;  // of the last exchange
  Index exchanges_ = 0, given_ = 0;
};

template <Probabilities Rows, class C, class... Tokens>
Shards(const Rows&, Index, Index, C&, Tokens...)
    -> Shards<decltype(distributions(std::declval<const Rows&>())), C>;

/// A row of Shards. What it does not know yet it asks the ranks for, all of which have to be asking.
template <DistributionMatrix M, Communicator C>
class ShardedRow {
  using Segment = Eigen::Array<double, Eigen::Dynamic, 1, Eigen::ColMajor, max_segment_size>;

 public:
  ShardedRow(Shards<M, C>& shards, Index i) : shards_(&shards), i_(i) {}

  Index vocab_size() const { return shards_->vocab_size(); }
  double probability(Token x) const { return shards_->probability(i_, x); }
  double sum(Index start, Index count) const { return shards_->sum(i_, start, count); }
  Segment segment(Index start, Index count) const {
    return shards_->template segment<Segment>(i_, start, count);
  }
  Token argmax() const { return shards_->argmax(i_); }

  /// First what was drawn ahead, whatever u is.
  auto sampler() const {
    return [shards = shards_, i = i_, k = Index{0}](double u) mutable {
      return k < shards->ahead_ ? shards->drawn(i, k++) : shards->draw(i, u);
    };
  }

 private:
  Shards<M, C>* shards_;
  Index i_;
};

/// The rows of Shards as a matrix.
template <DistributionMatrix M, Communicator C>
class ShardedRows {
 public:
  explicit ShardedRows(Shards<M, C>& shards) : shards_(&shards) {}

  Index rows() const { return shards_->size(); }
  Index vocab_size() const { return shards_->vocab_size(); }
  ShardedRow<M, C> row(Index i) const { return {*shards_, i}; }

  /// tokens[i] in row i, together: no exchange for those that were told when the Shards were made.
  void probabilities(TokenIds tokens, std::span<double> out) const {
    for (Index i = 0; i < tokens.size(); ++i)
      out[static_cast<std::size_t>(i)] = shards_->probability(i, static_cast<Token>(tokens[i]));
  }

 private:
  Shards<M, C>* shards_;
};

}  // namespace specdec
