// Kinds of drafts, each with the rule that accepts most of it, and how many tokens a target call emits with them.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <span>
#include <specdec/more/drafters.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <utility>
#include <vector>

#include "generate/pair.hpp"
#include "generate/sampled.hpp"
#include "generate/tree_shapes.hpp"
#include "paired/expected_accepted.hpp"
#include "paired/places.hpp"

namespace paired {

/// The two models at one temperature; at temperature 0 the draft model's rows are those by which the tokens of trees are chosen.
struct Pair {
  Pair(generate::Model& large, generate::Model& small, double temperature)
      : draws(temperature > 0),
        target(large, temperature),
        draft(small, generate::choosing_temperature(temperature)),
        judge(target) {}
  Pair(const Pair&) = delete;

  bool draws;
  Softmax target, draft;
  Judge judge;
};

/// What was measured of a kind.
struct Measured {
  std::vector<double> tokens;  ///< at each place: what a target call emits, on average over the drafts there
  double drafted = 0;          ///< tokens of a draft, on average
};

/// A kind of draft.
struct Kind {
  std::string title;
  Index calls;  ///< of the draft model, one after another
  /// `drafts` drafts at each place of the texts. Empty if there is no such draft at the temperature.
  std::function<Measured(std::span<const Text>, Index drafts)> measure;
};

/// The random numbers of draft n of `drafts` drafts at a place. All kinds draw by the same, as far as their draws are alike. Among
/// the drafts, the first tokens lie in equal parts of the row: so they differ as much as tokens of that row can, and their mean is
/// less noisy than that of independent drafts.
class NumbersOfDraft {
 public:
  using result_type = std::uint64_t;

  NumbersOfDraft(std::size_t text, Index place, Index n, Index drafts)
      : rng_(mixed(text, place) + static_cast<result_type>(n)),
        part_(std::numeric_limits<result_type>::max() / static_cast<result_type>(drafts)),
        first_(part_ * static_cast<result_type>(n)) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()() {
    if (!std::exchange(is_first_, false)) return rng_();
    return first_ + rng_() % part_;
  }

 private:
  static result_type mixed(std::size_t text, Index place) {
    return specdec::SplitMix64((static_cast<result_type>(text) << 32) + static_cast<result_type>(place))();
  }

  specdec::SplitMix64 rng_;
  result_type part_, first_;
  bool is_first_ = true;
};

template <class Strategy, class Rule>
Measured measured(Judge& judge, Softmax& draft_model, const Strategy& strategy, const Rule& rule,
                  std::span<const Text> texts, Index drafts) {
  Measured all;
  specdec::ModelDrafter drafter{draft_model, strategy};
  for (std::size_t t = 0; t < texts.size(); ++t) {
    judge.begin_text();
    for (Index place = 0; place < texts[t].places(); ++place) {
      const auto context = texts[t].before(place);
      double tokens = 0;
      for (Index n = 0; n < drafts; ++n) {
        NumbersOfDraft rng(t, place, n, drafts);
        const auto draft = drafter.draft(context, {}, rng);
        const Rows& rows = judge.rows(context, draft.tokens, draft.parents);
        tokens += 1 + expected_accepted(rule, rows, draft.rows, draft.tokens, draft.parents);
        all.drafted += static_cast<double>(std::ssize(draft.tokens));
      }
      all.tokens.push_back(tokens / static_cast<double>(drafts));
    }
  }
  all.drafted /= static_cast<double>(std::ssize(all.tokens) * drafts);
  return all;
}

/// A list of kinds, by the names that they have in the program generate.
class Kinds {
 public:
  explicit Kinds(Pair& pair) : pair_(pair) {}

  void line(Index calls) {
    const specdec::TreeShape shape = specdec::TreeShape::linear(calls);
    if (pair_.draws) drawn("a line", shape, specdec::Independent{});
    else likeliest("a line", shape);
  }
  void spares(const generate::Widths& widths) {
    const specdec::Spares strategy{std::ssize(widths), generate::spares_of(generate::trunk_shape(widths))};
    add("`spares` " + generate::text_of(widths), std::ssize(widths), pair_.draws, strategy,
        specdec::TrunkAndSpares<specdec::BlockVerifier>{});
  }
  template <class Siblings>
  void drawn(const std::string& title, const specdec::TreeShape& shape, Siblings siblings) {
    add(title, shape.depth(), pair_.draws, specdec::Tree{shape, siblings}, specdec::TraversalVerifier{});
  }
  void likeliest(const std::string& title, const specdec::TreeShape& shape) {
    chosen(title, shape.depth(), specdec::Tree{shape, specdec::Likeliest{}});
  }
  /// In the shape that sequoia_shape makes of the acceptance by rank at temperature 0.8, `likeliest` at temperature 0.
  void sequoia(Index nodes, Index calls) {
    const specdec::TreeShape shape = generate::usual_shape(calls, nodes);
    if (pair_.draws) drawn("sequoia", shape, specdec::WithoutReplacement{});
    else likeliest("sequoia", shape);
  }
  void confident(Index nodes, Index calls) {
    chosen("`confident`", calls, specdec::ConfidentTree{.width = 8, .depth = calls, .nodes = nodes});
  }
  void drawn_confident(Index nodes, Index calls) {
    add("`drawn-confident`", calls, pair_.draws,
        specdec::DrawnConfidentTree{.width = nodes / calls, .depth = calls}, specdec::TraversalVerifier{});
  }

  std::vector<Kind> list() && { return std::move(kinds_); }

 private:
  using OfChosen = specdec::TrunkAndSpares<specdec::SampleMatchVerifier>;

  template <class Strategy>
  void chosen(const std::string& title, Index calls, const Strategy& strategy) {
    add(title, calls, true, strategy, OfChosen{});
  }
  template <class Strategy, class Rule>
  void add(const std::string& title, Index calls, bool exists, const Strategy& strategy, const Rule& rule) {
    Kind kind{title, calls, {}};
    if (exists)
      kind.measure = [pair = &pair_, strategy, rule](std::span<const Text> texts, Index drafts) {
        constexpr bool all_chosen = std::same_as<Rule, OfChosen>;  // then all drafts at a place are equal
        return measured(pair->judge, pair->draft, strategy, rule, texts, all_chosen ? 1 : drafts);
      };
    kinds_.push_back(std::move(kind));
  }

  Pair& pair_;
  std::vector<Kind> kinds_;
};

}  // namespace paired
