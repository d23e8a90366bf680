// What the rejection of elder siblings leaves of a node's target row.
//
// A rule for trees judges the children of a node in turn, and each rejection turns the target into a residual:
// t ← (w·t − q)+/S. Since (max(a, 0) − b)+ = (a − b)+ for b >= 0, any number of them is one row,
//
//     t = (p − Σ_k b_k·q_k)+ / M,        b_k = M/w and then M ← Σ (p − ...)+ at the rejection of child k,
//
// so nothing is rewritten: a coefficient for each rejected token is kept, and one mass for each node. Of a child that
// was chosen (q = 1) the rejection leaves all but that token, M ← M·(1 − t(x)), which takes no pass. Where that leaves
// little, the difference is mostly rounding, and could be some mass where no token has any: M is then summed anew.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/spread_row.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/read/prefix_sampler.hpp"
#include "specdec/rows/read/walk.hpp"
#include "specdec/rows/scratch.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/drafted.hpp"

namespace specdec::detail {

/// Where less than this is left of a row, it is summed, and drawn from, by a pass.
inline constexpr double little_left = 1.0 / 64;

/// The coefficient of a chosen token: nothing of it is left.
inline constexpr double all_of_it = std::numeric_limits<double>::infinity();

/// All columns of the rows that a residual is made of.
struct AllColumns {
  static constexpr Index first = 0;
  template <Distribution R>
  R of(const R& row) const {
    return row;
  }
};

/// Those that are here: see spread_row.hpp.
struct ColumnsHere : ColumnRange {
  auto of(const auto& row) const { return part_of(row, *this); }
};

/// The row t of a node whose children up to `last` have all been rejected. Refers to all that it is made of.
///
/// Draws: by rejection from p while that is cheap, 1/M tries; else, and where a caller has one number only, by a pass.
template <class D, class Columns = AllColumns>
class SiblingResidual {
  using P =
      std::remove_cvref_t<decltype(std::declval<const Columns&>().of(std::declval<const D&>().target(0)))>;

 public:
  SiblingResidual(const D& drafted, const Scratch& coefficients, Index node, Index last, double mass,
                  const Columns& columns = {})
      : drafted_(&drafted),
        b_(&coefficients),
        columns_(columns),
        p_(columns.of(drafted.target(node))),
        node_(node),
        last_(last),
        mass_(mass) {}

  Index vocab_size() const { return p_.vocab_size(); }
  double probability(Token x) const { return left(x) / mass_; }

  /// (p(x) − Σ b·q(x))+; 0 for chosen tokens.
  double left(Token x) const { return left(x, p_.probability(x)); }
  /// Where p(x) is known.
  double left(Token x, double p) const {
    each_rejected([&](Index k) {
      if ((*b_)[k] != all_of_it) p -= (*b_)[k] * specdec::probability(columns_.of(drafted_->draft(k)), x);
      else if (drafted_->token(k) - columns_.first == x) p = 0;
    });
    return std::max(p, 0.0);
  }

  /// Σ left(x). Throws InvalidDistribution where that is no finite number.
  double left() const {
    double sum = 0;
    if constexpr (ListedRow<P>) {
      each_token(p_, [&](Token x, double p) { sum += left(x, p); });
    } else {
      sum = left_of(0, vocab_size());
    }
    if (!(sum <= std::numeric_limits<double>::max()))
      throw InvalidDistribution(message("what rejected siblings leave of the target sums to ", sum));
    return sum;
  }

  double sum(Index start, Index count) const { return left_of(start, count) / mass_; }
  Stretch segment(Index start, Index count) const
    requires(!ListedRow<P>)
  {
    return rest(start, count) / mass_;
  }

  Index support_size() const
    requires ListedRow<P>
  {
    return p_.support_size();
  }
  Token support(Index k) const
    requires ListedRow<P>
  {
    return p_.support(k);
  }
  double listed(Index k) const
    requires ListedRow<P>
  {
    return left(p_.support(k), p_.listed(k)) / mass_;
  }

  auto spread() const
    requires SpreadRow<P>
  {
    return p_.spread();
  }
  auto part(ColumnRange columns) const {
    return SiblingResidual<D, ColumnsHere>(*drafted_, *b_, node_, last_, mass_, ColumnsHere{columns});
  }

  /// Of one number, or of as many as it takes: see RandomChance::draw_again.
  class Sampler {
   public:
    explicit Sampler(const SiblingResidual& row) : row_(row), plain_(row_.p_.sampler()) {}

    Token operator()(double u) { return exact(u); }

    template <class Uniform>
    Token draw(const Uniform& uniform) {
      for (int tries = 0; tries < most_tries && row_.mass_ > little_left; ++tries) {
        const Token y = plain_(uniform());
        const double p = row_.p_.probability(y);
        if (uniform() * p < row_.left(y, p)) return y;
      }
      return exact(uniform());
    }

   private:
    using Exact = std::conditional_t<
        SpreadRow<P>, SpreadSampler<SiblingResidual>,
        std::conditional_t<ListedRow<P>, ListSampler<SiblingResidual>, PrefixSampler<SiblingResidual>>>;
    static constexpr int most_tries = 64;

    // By what there is, whatever M has come to by rounding. Where no token has anything left, Y ~ p.
    Token exact(double u) {
      if (!exact_ && !nothing_left_) {
        row_.mass_ = row_.left();
        nothing_left_ = row_.mass_ == 0;
        if (!nothing_left_) exact_.emplace(row_);
      }
      return nothing_left_ ? plain_(u) : (*exact_)(u);
    }

    SiblingResidual row_;
    decltype(std::declval<const P&>().sampler()) plain_;
    std::optional<Exact> exact_;
    bool nothing_left_ = false;
  };

  Sampler sampler() const { return Sampler(*this); }

 private:
  template <class, class>
  friend class SiblingResidual;

  template <class Visit>
  void each_rejected(const Visit& visit) const {
    for (Index k = drafted_->first_child(node_); k >= 0 && k <= last_; k = drafted_->next_sibling(k))
      visit(k);
  }

  double left_of(Index start, Index count) const {
    if constexpr (SpreadRow<P>) {
      const auto spread = p_.spread();
      const ColumnRange here = spread.columns();
      const auto [from, to] = here.within(start, start + count);
      return spread.sum([&] { return from < to ? part(here).left_of(from, to - from) : 0.0; });
    }
    double sum = 0;
    for (const Index end = start + count; start < end; start += max_segment_size)
      sum += rest(start, std::min(max_segment_size, end - start)).sum();
    return sum;
  }

  // left(x) of `count` <= max_segment_size tokens from `start` on. NaN stays NaN.
  Stretch rest(Index start, Index count) const {
    Stretch rest = Stretch::Zero(count);
    add_stretch(p_, 1.0, start, rest);
    each_rejected([&](Index k) {
      if ((*b_)[k] != all_of_it) return add_stretch(columns_.of(drafted_->draft(k)), -(*b_)[k], start, rest);
      const Index chosen = drafted_->token(k) - columns_.first - start;
      if (chosen >= 0 && chosen < rest.size()) rest[chosen] = 0;
    });
    return (rest < 0).select(0.0, rest);
  }

  const D* drafted_;
  const Scratch* b_;
  Columns columns_;
  P p_;
  Index node_, last_;
  double mass_;
};

/// What is left of the target rows of all nodes of a drafted tree, while a rule rejects its tokens.
template <class D>
class SiblingResiduals {
 public:
  explicit SiblingResiduals(const D& drafted)
      : drafted_(drafted), b_(drafted.gamma()), mass_(drafted.gamma() + 1) {}

  /// Before the children of the node are judged.
  void enter(Index node) { mass_[node] = 1; }

  /// t(x) of token k, which is to be judged next among its siblings.
  double probability(Index k) const {
    const Index node = drafted_.parent(k) + 1;
    if (eldest(k)) return drafted_.p(k);
    return row(node, k - 1).left(drafted_.token(k), drafted_.p(k)) / mass_[node];
  }

  /// Token k is rejected at a node that had the weight w: t ← (w·t − q)+/S. Returns S.
  double reject(Index k, double w) {
    const Index node = drafted_.parent(k) + 1;
    const double before = mass_[node];
    const bool chosen = drafted_.q(k) == 1;
    const double others = chosen ? before - probability(k) * before : 0;
    b_[k] = chosen ? all_of_it : bounded(before / w);
    if (others > little_left) {
      mass_[node] = others;
    } else {
      const auto p = drafted_.target(node);
      mass_[node] = p.named([&] { return row(node, k).left(); });
    }
    return w * (mass_[node] / before);
  }

  /// The race of weight w between what is left and the row of the last child k: the rejection of k and the win or loss
  /// of its node in one.
  template <class Chance>
  std::optional<Token> race(Chance& chance, double w, Index k) const {
    const Index node = drafted_.parent(k) + 1;
    const auto p = drafted_.target(node);
    const auto q = drafted_.draft(k);
    return p.named([&] { return eldest(k) ? chance.race(w, p, q) : chance.race(w, row(node, k - 1), q); });
  }

 private:
  bool eldest(Index k) const { return drafted_.first_child(drafted_.parent(k) + 1) == k; }
  SiblingResidual<D> row(Index node, Index last) const {
    return SiblingResidual<D>(drafted_, b_, node, last, mass_[node]);
  }

  const D& drafted_;
  Scratch b_;     // of rejected tokens
  Scratch mass_;  // M, of nodes
};

}  // namespace specdec::detail
