// Where the drafts of a batch lie in an engine's arrays.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <limits>

#include "specdec/error.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Where one draft lies: the numbers of its first token, of its first target row and of its first draft row.
struct DraftPlace {
  Index token = 0, target = 0, draft = 0;
  Index gamma = 0;  ///< how many tokens it has: γ draft rows, and γ + 1 target rows

  friend bool operator==(const DraftPlace&, const DraftPlace&) = default;
};

/// Finds each draft of a batch:
///
///   drafts()                                          how many drafts there are
///   check_sizes(tokens, target_rows, draft_rows)      throws InvalidArgument if the arrays have other sizes
///   place(tokens, draft_rows, i)                      where draft i lies; throws if its tokens are not as they should be
template <class L>
concept DraftLayout = requires(const L& layout, TokenIds tokens, Index n) {
  { layout.drafts() } -> std::same_as<Index>;
  layout.check_sizes(tokens, n, n);
  { layout.place(tokens, n, n) } -> std::same_as<DraftPlace>;
};

namespace detail {

/// Throws if offsets do not ascend from 0 to `end`.
inline void check_offsets(const char* name, TokenIds offsets, Index end, const char* of) {
  if (offsets.empty()) invalid_argument(name, " is empty, expected 0 at least");
  if (offsets[0] != 0) invalid_argument(name, "[0] = ", offsets[0], ", expected 0");
  for (Index i = 1; i < offsets.size(); ++i)
    if (offsets[i] < offsets[i - 1] || offsets[i] > end)
      invalid_argument(name, "[", i, "] = ", offsets[i], " is outside ", offsets[i - 1], "..", end);
  if (offsets[offsets.size() - 1] != end)
    invalid_argument(name, "[", offsets.size() - 1, "] = ", offsets[offsets.size() - 1], ", expected ", end,
                     ", the number of ", of);
}

/// Offset number i, which check_offsets() has found to be a place in an array.
inline Index offset(TokenIds offsets, Index i) { return as_type<Index>(offsets[i]); }

inline void check_size(const char* name, const char* of, Index size, Index expected) {
  if (size != expected) invalid_argument(name, " has ", size, " ", of, ", expected ", expected);
}

/// The number of tokens before the first negative id, which pads. Throws if a token comes after padding, which it names by its
/// number in its draft, or if there are too few tokens.
inline Index unpadded(TokenIds tokens, Index first, Index count) {
  if (first < 0 || count < 0 || count > tokens.size() - first)
    invalid_argument("a draft has tokens[", first, "] .. tokens[", first + count - 1, "], outside the ",
                     tokens.size(), " tokens");
  Index gamma = 0;
  while (gamma < count && tokens[first + gamma] >= 0) ++gamma;
  for (Index k = gamma; k < count; ++k)
    if (tokens[first + k] >= 0)
      invalid_argument("tokens[", k, "] = ", tokens[first + k], " comes after padding, tokens[", gamma,
                       "] = ", tokens[first + gamma]);
  return gamma;
}

/// Where draft i lies. Throws if its tokens are not in the array: a layout of a user may be wrong.
template <DraftLayout Layout>
DraftPlace place_of(const Layout& layout, TokenIds tokens, Index draft_rows, Index i) {
  const DraftPlace here = layout.place(tokens, draft_rows, i);
  if (here.token < 0 || here.gamma < 0 || here.gamma > tokens.size() - here.token)
    invalid_argument("the layout places draft ", i, " at tokens[", here.token, "] with gamma = ", here.gamma,
                     ", outside the ", tokens.size(), " tokens");
  return here;
}

}  // namespace detail

/// Drafts one after another, without gaps: draft i has the tokens and the draft rows offsets[i] .. offsets[i + 1] − 1, and one
/// target row more, from row offsets[i] + i on. Offsets are integers of 32 or 64 bits, and must outlive the layout; a temporary
/// container of them is refused.
/// Shapes: B drafts of Σγ tokens; offsets B + 1 (segment offsets, see CUB), target (Σγ + B)×V, draft Σγ×V'.
class PackedDrafts {
 public:
  explicit PackedDrafts(TokenIds offsets) : offsets_(offsets) {}
  template <detail::OwningTemporary Temporary>
  explicit PackedDrafts(Temporary&& offsets) = delete;

  Index drafts() const { return offsets_.size() - 1; }
  void check_sizes(TokenIds tokens, Index target_rows, Index draft_rows) const {
    detail::check_offsets("offsets", offsets_, tokens.size(), "tokens");
    detail::check_size("target", "rows", target_rows, tokens.size() + drafts());
    detail::check_size("draft", "rows", draft_rows, tokens.size());
  }
  DraftPlace place(TokenIds, Index, Index i) const {
    const Index first = detail::offset(offsets_, i);
    return {first, first + i, first, detail::offset(offsets_, i + 1) - first};
  }

 private:
  TokenIds offsets_;
};

/// The arrays of a call that was fed each sequence's last token and then its draft, as vLLM's model runner lays them out:
/// request i has the logits cu_num_logits[i] .. cu_num_logits[i + 1] − 1, and `tokens` holds, at each of these places, the
/// token that was fed there. So the drafted tokens of request i are tokens[cu_num_logits[i] + 1] and the following ones. A
/// draft that is shorter than its stretch is padded with −1. The offsets must outlive the layout; a temporary is refused.
///
/// Draft rows may lie at the places of their tokens (as many rows as tokens; OneHotRows(tokens), if the drafter has no
/// probabilities), or one after another without the places of the last tokens (B rows fewer).
/// Shapes: B requests with n logits in all; cu_num_logits B + 1, tokens n, target n×V, draft n×V' or (n − B)×V'.
class FedDrafts {
 public:
  explicit FedDrafts(TokenIds cu_num_logits) : offsets_(cu_num_logits) {}
  template <detail::OwningTemporary Temporary>
  explicit FedDrafts(Temporary&& cu_num_logits) = delete;

  Index drafts() const { return offsets_.size() - 1; }
  void check_sizes(TokenIds tokens, Index target_rows, Index draft_rows) const {
    detail::check_offsets("cu_num_logits", offsets_, tokens.size(), "tokens");
    for (Index i = 0; i < drafts(); ++i)
      if (offsets_[i] == offsets_[i + 1])
        detail::invalid_argument("cu_num_logits[", i + 1, "] = ", offsets_[i + 1], ": request ", i,
                                 " has no row, expected one at least");
    detail::check_size("target", "rows", target_rows, tokens.size());
    if (draft_rows != tokens.size() && draft_rows != tokens.size() - drafts())
      detail::invalid_argument("draft has ", draft_rows, " rows, expected ", tokens.size(),
                               ", one at each token, or ", tokens.size() - drafts(),
                               ", one for each drafted token");
  }
  DraftPlace place(TokenIds tokens, Index draft_rows, Index i) const {
    const Index first = detail::offset(offsets_, i), drafted = first + 1;
    const Index draft = draft_rows == tokens.size() ? drafted : first - i;
    return {drafted, first, draft,
            detail::unpadded(tokens, drafted, detail::offset(offsets_, i + 1) - drafted)};
  }

 private:
  TokenIds offsets_;
};

/// Drafts padded to one length, as tensors [B, n] of tokens, [B, n + 1, V] of target rows and [B, n, V] of draft rows. A
/// contiguous tensor is a matrix of B·n or B·(n + 1) rows. Draft i ends before its first negative id.
/// Shapes: tokens B·n, target B·(n + 1)×V, draft B·n×V'.
class PaddedDrafts {
 public:
  PaddedDrafts(Index drafts, Index longest) : drafts_(drafts), longest_(longest) {
    if (drafts < 0) detail::invalid_argument("drafts = ", drafts, " is negative");
    if (longest < 0) detail::invalid_argument("longest = ", longest, " is negative");
    if (longest >= std::numeric_limits<Index>::max() / (drafts == 0 ? 1 : drafts))
      detail::invalid_argument(drafts, " drafts of ", longest, " tokens are more than any array holds");
  }

  Index drafts() const { return drafts_; }
  void check_sizes(TokenIds tokens, Index target_rows, Index draft_rows) const {
    detail::check_size("tokens", "ids", tokens.size(), drafts_ * longest_);
    detail::check_size("target", "rows", target_rows, drafts_ * (longest_ + 1));
    detail::check_size("draft", "rows", draft_rows, drafts_ * longest_);
  }
  DraftPlace place(TokenIds tokens, Index, Index i) const {
    const Index first = i * longest_;
    return {first, first + i, first, detail::unpadded(tokens, first, longest_)};
  }

 private:
  Index drafts_, longest_;
};

}  // namespace specdec
