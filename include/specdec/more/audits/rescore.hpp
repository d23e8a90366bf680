// Reads a finished text with models, and lets an audit see it.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/model.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::testing {
namespace detail {

/// A model that reads a text in parts. No part has more than `together` rows.
template <Model M>
class TextReader {
 public:
  static constexpr Index together = 32;

  TextReader(M& model, std::span<const Token> text, Index prompt)
      : model_(&model), text_(text), next_(prompt) {
    model_->truncate(0);
  }

  /// Calls visit(rows, first, count): row i is the one after the text before token first + i. `count` is 0 after the end.
  template <class Visit>
  Index read(const Visit& visit) {
    const Index first = next_, count = std::min(together, std::ssize(text_) - first);
    if (count <= 0) return 0;
    const auto fed = specdec::detail::part(text_, fed_, first + count - 1 - fed_);
    const auto& rows = model_->forward(fed, count);
    fed_ = first + count - 1;
    next_ = first + count;
    visit(distributions(rows), first, count);
    return count;
  }

 private:
  M* model_;
  std::span<const Token> text_;
  Index next_, fed_ = 0;
};

inline std::vector<Token> whole_text(std::span<const Token> prompt, std::span<const Token> tokens) {
  if (prompt.empty())
    specdec::detail::invalid_argument("the prompt is empty: no row is before the first token");
  std::vector<Token> text(prompt.begin(), prompt.end());
  text.insert(text.end(), tokens.begin(), tokens.end());
  return text;
}

}  // namespace detail

/// Adds the tokens of a finished text to an audit, with the rows that the target has for them when it reads the text alone. So it
/// finds wrong rules, and also rows that were wrong when the text was written: a stale cache, a mixed-up batch. With a
/// `reference`, which is the draft model or any other, it finds more mistakes, sooner (text_audit.hpp).
///
///   testing::rescore(audit, target, small, prompt, decoder.generate(prompt, options, rng).tokens);
///
/// The models' contexts are cleared: no text may be in generation on them. Target and reference are two models, or two contexts
/// of one. Rows are those that were drawn from, so the target is wrapped in the same ProcessedModel. The audit's tolerance must
/// allow for numbers that differ between a call over one token and a call over several.
/// Throws: InvalidArgument for an empty prompt; what the models throw.
/// Cost: each model reads the text once, at most 32 new tokens a call.
template <class Audit, Model M>
void rescore(Audit& audit, M& target, std::span<const Token> prompt, std::span<const Token> tokens) {
  const std::vector<Token> text = detail::whole_text(prompt, tokens);
  detail::TextReader<M> reader(target, text, std::ssize(prompt));
  const auto add = [&](const auto& rows, Index first, Index count) {
    for (Index i = 0; i < count; ++i) audit.add(rows.row(i), specdec::detail::at(text, first + i));
  };
  while (reader.read(add) > 0) continue;
}

template <class Audit, Model M, Model R>
void rescore(Audit& audit, M& target, R& reference, std::span<const Token> prompt,
             std::span<const Token> tokens) {
  const std::vector<Token> text = detail::whole_text(prompt, tokens);
  detail::TextReader<M> reader(target, text, std::ssize(prompt));
  detail::TextReader<R> beside(reference, text, std::ssize(prompt));
  const auto add = [&](const auto& rows, Index first, Index count) {
    beside.read([&](const auto& references, Index, Index) {
      for (Index i = 0; i < count; ++i)
        audit.add(rows.row(i), specdec::detail::at(text, first + i), references.row(i));
    });
  };
  while (reader.read(add) > 0) continue;
}

}  // namespace specdec::testing
