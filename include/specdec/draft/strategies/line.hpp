// The plain way to draft: one token after the other.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/draft/strategies/strategy.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/dead_end.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Draws token after token, each from the row after the previous token, up to the length asked for.
/// A row in which no token has a positive probability ends the draft; where its length is fixed (DraftLimits), the token is
/// drawn from a uniform row. A stop token ends the draft, too (DraftLimits::ends_at).
/// Source: Leviathan et al., arXiv:2211.17192, Alg. 1, lines 1–3 (the guesses of the approximation model).
/// Random: one draw per token.
/// Cost: one model call per token.
struct Line {
  static constexpr bool drafts_trees = false, branches = false;

  template <Distribution Q, bool stable>
  class Growth {
    using Rows = StoredRows<Q, stable>;

   public:
    void begin(const Line&, const DraftLimits& limits, Index room) {
      tokens_.clear();
      rows_.clear();
      most_ = std::min(limits.length(), detail::longest_line(room));
      limits_ = limits;
    }
    void end() { most_ = 0; }

    bool next() const { return std::ssize(tokens_) < most_; }
    DraftWish wish() const { return {.tokens = detail::view_of(tokens_).last(tokens_.empty() ? 0 : 1)}; }

    template <class Output, class C, class KeepDrafting>
    void take(const Output& output, C& chance, const KeepDrafting& keep_drafting) {
      const Index i = std::ssize(tokens_);
      const auto q = detail::in_row("draft", i, [&] { return output.row(0); });
      const detail::NamedRow name(q, "draft", i);
      if (detail::is_dead_end(name)) {
        if (!limits_.fixed) return end();
        if (rows_.add_uniform(q)) return tokens_.push_back(chance.draw(rows_[i], i));
      }
      tokens_.push_back(chance.draw(name, i));
      rows_.add(name);
      if (!keep_drafting.more(q, i) || limits_.ends_at(tokens_.back(), i)) end();
    }

    Draft<RowSpan<typename Rows::Stored>> draft(Index vocab_size) const {
      return {tokens_, rows_.first(rows_.size(), vocab_size)};
    }

   private:
    Index most_ = 0;
    DraftLimits limits_;
    std::vector<Token> tokens_;
    Rows rows_;
  };
};

}  // namespace specdec
