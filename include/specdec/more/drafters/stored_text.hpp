// Drafts a text that is there already: a rollout of older weights, a cached answer, a text before an edit of its prompt.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/row_range.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// A text that was written before, as one long draft. The target reads all of it in one call, and keeps what it might have
/// written itself: what is kept and what follows has exactly the target's law, as if it had written from scratch.
///
///   SpecDec decoder{target, StoredText{tokens, rows}, BlockVerifier{}};
///   decoder.generate(prompt, {.max_new_tokens = 4096, .gamma = unlimited}, rng);
///
/// tokens     the stored tokens, which are copied
/// rows       row i is the distribution that tokens[i] was drawn from, given the tokens before it; an lvalue is used by reference. By
///            which model, prompt or temperature does not matter. A matrix of probabilities, SparseRows or other lists after a cut;
///            if only the probabilities of the tokens were stored, FetchedRows. Tokens that were chosen have OneHotRows
///
/// The stored text follows the first context that this is shown, the prompt. What is left of it is proposed as long as the text goes
/// so, and nothing from the first other token on: what was stored after it has been looked at. So has what followed where a text was
/// ended: if it goes on (resume()), it goes on without. With another prompt, or when a decoder starts anew, another text begins.
/// Use gamma = unlimited. After a draft that is cut the target adds a token of its own, and if that is not the stored one, the rest
/// is lost. Block verification keeps more than token verification, the more so the longer the text is.
/// Two texts from one stored text are each distributed as the target's, but not independent of one another. And a text that was
/// chosen, as the best of several, was not drawn from its rows: what is written from it does not have the target's law.
/// Throws: InvalidArgument unless there are as many rows as tokens.
/// Random: none.
/// Memory: what the target's call over all tokens takes. Rows of a whole vocabulary are large: γ = 4096 and V = 128 256 take 2.1 GB of
/// floats.
/// Source: SPEC-RL, arXiv:2509.23232, which verifies token by token. Example: examples/write/stored_text.cpp
template <Probabilities R>
class StoredText {
  using Rows = DistributionsOf<std::remove_reference_t<R>>;

 public:
  static constexpr bool drafts_trees = false, steady = false;

  StoredText(TokenIds tokens, R&& rows) : rows_(std::forward<R>(rows)) {
    for (Index i = 0; i < tokens.size(); ++i) tokens_.push_back(detail::as_token(tokens[i]));
    if (const Index count = view().rows(); count != tokens.size())
      detail::invalid_argument(count, " rows of ", tokens.size(), " stored tokens");
  }

  Draft<RowRange<Rows>> draft(std::span<const Token> context, Index gamma, auto&) & {
    if (begins(context)) {
      prompt_.assign(context.begin(), context.end());
      proposed_ = judged_ = 0;
    }
    begun_ = true;
    const auto written = detail::after(context, std::ssize(prompt_));
    Index from = std::ssize(written), count = 0;
    if (from >= judged_ &&
        std::ranges::equal(written, detail::first(tokens_, std::min(from, std::ssize(tokens_)))))
      count = std::clamp<Index>(gamma, 0, std::ssize(tokens_) - from);
    else from = 0;
    if (count > 0) proposed_ = from + count;
    return {detail::part(tokens_, from, count), RowRange<Rows>(view(), from, count)};
  }
  void observe(const auto&) { judged_ = proposed_; }
  void truncate(Index length) { begun_ = begun_ && length > 0; }

 private:
  // Whether the context is a prompt. After a pause it is the prompt with what follows, or another text.
  bool begins(std::span<const Token> context) const {
    const Index size = std::ssize(prompt_);
    if (std::ssize(context) < size || !std::ranges::equal(detail::first(context, size), prompt_)) return true;
    return !begun_ && (std::ssize(context) == size || prompt_.empty());
  }
  Rows view() const { return distributions(std::as_const(rows_)); }

  std::vector<Token> tokens_, prompt_;
  R rows_;
  bool begun_ = false;               // the prompt is known, and the context was not cut to nothing since
  Index proposed_ = 0, judged_ = 0;  // how many of the tokens were
};

template <Probabilities R>
StoredText(TokenIds, R&&) -> StoredText<R>;

}  // namespace specdec
