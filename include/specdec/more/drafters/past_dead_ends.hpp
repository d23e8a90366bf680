// Chance that goes past dead ends (rows/read/dead_end.hpp), for loops that go on in a draft.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <optional>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/keyed.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/dead_end.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// A row of this size in which all tokens are equally likely.
class UniformRow {
 public:
  explicit UniformRow(Index vocab_size) : vocab_size_(vocab_size) {}
  Index vocab_size() const { return vocab_size_; }
  double probability(Token) const { return 1 / static_cast<double>(vocab_size_); }
  auto sampler() const {
    return [size = vocab_size_](double u) {
      return static_cast<Token>(std::min(static_cast<Index>(u * static_cast<double>(size)), size - 1));
    };
  }

 private:
  Index vocab_size_;
};

/// Chance for the inner loop. Where the model's row is a dead end, a token that nobody drafts has all its probability
/// (rows/read/dead_end.hpp). In place of an error, any token stands for it; the cascade ends its draft before this token, or
/// reports a uniform row for it.
template <class C>
class PastDeadEnds {
 public:
  explicit PastDeadEnds(C& chance) : chance_(&chance) {}

  bool coin(double h) { return chance_->coin(h); }
  template <Distribution R>
  Token draw(const R& row, Index place = 0) {
    return is_dead_end(row) ? chance_->draw(UniformRow(row.vocab_size()), place) : chance_->draw(row, place);
  }
  template <Distribution P, Distribution... Q>
  std::optional<Token> race(double w, const P& p, const Q&... q) {
    if (!is_dead_end(p)) return chance_->race(w, p, q...);
    return chance_->race(w, UniformRow(p.vocab_size()));
  }

 private:
  C* chance_;
};

/// Of a Keyed, which stays one.
template <class C>
  requires is_keyed<C>
class PastDeadEnds<C> : public Keyed {
 public:
  explicit PastDeadEnds(const C& keyed) : Keyed(keyed) {}

  template <Distribution R>
  Token draw(const R& row, Index place) const {
    return is_dead_end(row) ? Keyed::draw(UniformRow(row.vocab_size()), place) : Keyed::draw(row, place);
  }
  template <Distribution R>
  Token draw(const R& row) {
    return is_dead_end(row) ? Keyed::draw(UniformRow(row.vocab_size())) : Keyed::draw(row);
  }
};

}  // namespace specdec::detail
