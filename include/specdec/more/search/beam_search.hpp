// Beam search, in fewer calls of the target.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <exception>
#include <span>
#include <utility>

#include "specdec/model/turn.hpp"
#include "specdec/more/search/beam_batch.hpp"
#include "specdec/more/search/beams.hpp"
#include "specdec/token_ids.hpp"

namespace specdec::inline v0_2_0 {

/// Beam search over a target, with a draft model that searches ahead. The result is the result of plain beam search over the
/// target, text for text, whatever the draft model proposes, as long as the target's context has room (near its end a search with
/// a draft model may go on where plain search stops): the next level's best texts follow from the target's rows after the present
/// ones, and a proposed text only brings a row into the call before it is needed. Beams says how it goes, and what it costs.
///
///   BeamSearch search{target, small};
///   BeamResult found = search.generate(prompt, {.max_new_tokens = 64, .width = 4});
///
/// Models take trees (model/trees.hpp); PathByPath makes any model take them. They hold and share their models as a SpecDec
/// does: an lvalue is referred to, an rvalue is moved in. A model for many texts reads the search under number 0; a BeamBatch
/// searches after many prompts, under other numbers.
/// Pre: a row of the target depends only on the tokens before it, not on the other tokens of a call. (Kernels that round in
/// another order may swap texts whose probabilities differ in the last bits.)
/// Example: examples/write/beam_search.cpp
template <class Target, class Draft = detail::NoDraftModel>
class BeamSearch {
 public:
  explicit BeamSearch(Target&& target, Draft&& draft = Draft{})
      : target_(std::forward<Target>(target)),
        draft_(std::forward<Draft>(draft)),
        turns_of_target_(detail::Turns::of<Target>(target_)),
        turns_of_draft_(detail::Turns::of<Draft>(draft_)) {}

  /// The most probable continuations of the prompt that beam search finds.
  /// Throws: InvalidArgument on an empty prompt, on ids outside the target's vocabulary, and unless
  /// max_new_tokens >= 0, 1 <= width, draft_width <= 1024 and 0 <= gamma <= 1024; what the models throw. InvalidDistribution
  /// names the call's row of the target or draft; InvalidCall if one model is both target and draft model. After a throw of
  /// a model or of rows both contexts are empty. The search can be used again.
  BeamResult generate(TokenIds prompt, const BeamOptions& options) {
    BeamBatch searches{target_, draft_};
    searches.add(0, prompt, options);
    turns_of_target_.next();  // other users of the models have lost their contexts
    turns_of_draft_.next();
    std::span<const FoundBeams> found;
    while (found.empty()) found = searches.step();
    if (found.front().error) std::rethrow_exception(found.front().error);
    return found.front().result;
  }

 private:
  Target target_;
  Draft draft_;
  detail::Turns turns_of_target_, turns_of_draft_;
};

template <class Target>
BeamSearch(Target&&) -> BeamSearch<Target>;
template <class Target, class Draft>
BeamSearch(Target&&, Draft&&) -> BeamSearch<Target, Draft>;

}  // namespace specdec
