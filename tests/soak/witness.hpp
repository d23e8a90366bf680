// Models, drafters and policies that know the text they continue, and check at every call that they hold it.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <specdec/more/drafters/cascade_drafter.hpp>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/more/drafters/suffix_drafter.hpp>
#include <specdec/more/lengths/scheduled_length.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "support/answers_drafter.hpp"
#include "support/one_text.hpp"

namespace soak {

using specdec::Index;
using specdec::Token;
using Tokens = std::vector<Token>;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Index vocabulary = 4;

// What a failing call throws, and what ends the test.
struct Failure : std::runtime_error {
  Failure() : std::runtime_error("now and then") {}
};
inline void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

inline bool begins_with(std::span<const Token> text, std::span<const Token> beginning) {
  return beginning.size() <= text.size() && std::equal(beginning.begin(), beginning.end(), text.begin());
}
inline bool agree(std::span<const Token> a, std::span<const Token> b) {
  const std::size_t common = std::min(a.size(), b.size());
  return begins_with(a, b.first(common));
}

// The text that is being continued.
struct Author {
  virtual std::span<const Token> text() const = 0;
  virtual Index kept() const = 0;  // kept by the target
  // Whether the text would end with these tokens after it, or before the last of them.
  virtual bool ends(std::span<const Token> more) const = 0;
  Author() = default;
  Author(const Author&) = default;
  Author& operator=(const Author&) = default;

 protected:
  ~Author() = default;
};

// What all parts of a step know about it, and random events that are not the rule's.
struct Stage {
  specdec::SplitMix64 chance;
  const Author* author = nullptr;
  Tokens draft;                // the last proposal
  std::vector<Index> parents;  // the parents of its tokens, if it is a tree
  bool drawn = false;          // whether a token of the present draft may have been drawn from a row
  Index faults = 0;

  explicit Stage(std::uint64_t seed) : chance(seed) {}

  // The tokens of the last proposal that do not end the text and that are not after one that does, and their parents among
  // them: the target is fed these only.
  struct Fed {
    Tokens tokens;
    std::vector<Index> parents;
  };
  Fed fed() const {
    Fed out;
    std::vector<Index> numbers;  // among the tokens that are fed; −2: not fed
    const auto parent = [this](Index k) {
      return parents.size() == draft.size() ? parents[static_cast<std::size_t>(k)] : k - 1;
    };
    for (Index k = 0; k < std::ssize(draft); ++k) {
      Tokens path;
      for (Index j = k; j >= 0; j = parent(j)) path.push_back(draft[static_cast<std::size_t>(j)]);
      std::ranges::reverse(path);
      numbers.push_back(author->ends(path) ? -2 : std::ssize(out.tokens));
      if (numbers.back() < 0) continue;
      out.tokens.push_back(path.back());
      out.parents.push_back(parent(k) < 0 ? -1 : numbers[static_cast<std::size_t>(parent(k))]);
    }
    return out;
  }

  Index below(Index n) { return static_cast<Index>(chance() % static_cast<std::uint64_t>(n)); }
  bool one_in(Index n) { return below(n) == 0; }
  void call() {
    if (!one_in(300)) return;
    ++faults;
    throw Failure();
  }
};

using Table = specdec::testing::TableModel<>;  // rows by the last two tokens

// Half of its rows are those of another model, so some drafts survive and some do not.
inline Table near(const Table& model, std::mt19937_64& seed) {
  const Table other = Table::random(vocabulary, 2, seed);
  Table::Rows rows = Table::Rows::Zero((vocabulary + 1) * (vocabulary + 1), vocabulary);
  for (Token a = -1; a < vocabulary; ++a)
    for (Token b = -1; b < vocabulary; ++b) {
      Tokens context;  // two tokens, one or none
      for (const Token x : {a, b})
        if (x >= 0) context.push_back(x);
      const auto row = (seed() % 2 == 0 ? model : other).distribution(context);
      for (Token x = 0; x < vocabulary; ++x) rows((a + 1) * (vocabulary + 1) + b + 1, x) = row.probability(x);
    }
  return Table(rows, 2);
}

// A target must hold exactly what the sequence says it keeps, and be fed the rest of the text and the draft. A draft
// model must hold the text, and after it what it has drafted. It is never cut to more than it holds. It takes trees,
// too.
class Model {
 public:
  enum class Part { target, drafting };
  struct Node {
    Token token;
    Index parent;
  };

  Model(Stage& stage, Part part, Index most, Table table)
      : stage_(&stage), part_(part), most_(most), table_(std::move(table)) {}

  // Whether it checks the text, and may fail.
  bool checks = true;

  Index vocab_size() const { return vocabulary; }
  Index context_size() const { return most_; }
  std::span<const Token> context() const { return context_; }
  std::span<const Node> tree() const { return tree_; }
  const Table& table() const { return table_; }

  const Matrix& forward(std::span<const Token> tokens, Index rows) {
    const bool may_fail = checks && begin(tokens, rows);
    require(tree_.empty(), "fed a line while a tree is open");
    context_.insert(context_.end(), tokens.begin(), tokens.end());
    if (checks) check(rows);
    if (may_fail) stage_->call();  // after the tokens were taken in
    rows_.resize(rows, vocabulary);
    for (Index i = 0; i < rows; ++i)
      fill(i, std::span(context_).first(context_.size() - static_cast<std::size_t>(rows - 1 - i)));
    return rows_;
  }

  const Matrix& forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    const bool may_fail = begin(tokens, rows);
    require(tokens.size() == parents.size(), "fed tokens that follow nothing");
    check(tokens, parents, rows);
    for (std::size_t k = 0; k < tokens.size(); ++k) {
      require(parents[k] >= -1 && parents[k] < std::ssize(tree_), "fed what is no tree");
      tree_.push_back({tokens[k], parents[k]});
    }
    if (may_fail) stage_->call();
    rows_.resize(rows, vocabulary);
    for (Index i = 0; i < rows; ++i) fill(i, last_two(std::ssize(tree_) - rows + i));
    return rows_;
  }

  void keep(std::span<const Index> path) {
    Index last = -1;
    for (const Index k : path) {
      require(k > last && k < std::ssize(tree_) && node(k).parent == last, "kept what is no path");
      context_.push_back(node(k).token);
      last = k;
    }
    tree_.clear();
  }

  void truncate(Index length) {
    require(length >= 0 && length <= std::ssize(context_), "rolled back beyond what is there");
    context_.resize(static_cast<std::size_t>(length));
    tree_.clear();
  }

  // The last tokens of the text before row i of the last call, which had `rows` rows. They live until the next call.
  std::span<const Token> way(Index i, Index rows) {
    if (tree_.empty())
      return std::span(context_).first(context_.size() - static_cast<std::size_t>(rows - 1 - i));
    way_.clear();
    for (Index k = std::ssize(tree_) - rows + i; k >= 0; k = node(k).parent) way_.push_back(node(k).token);
    for (std::size_t k = context_.size(); k > 0 && way_.size() < 20; --k) way_.push_back(context_[k - 1]);
    std::ranges::reverse(way_);
    return way_;
  }

  // Takes a context from elsewhere, as an engine may.
  void hold(std::span<const Token> text) {
    context_.assign(text.begin(), text.end());
    tree_.clear();
  }

 private:
  const Node& node(Index k) const { return tree_[static_cast<std::size_t>(k)]; }

  // Whether the call may also fail later.
  bool begin(std::span<const Token> tokens, Index rows) {
    require(rows >= 1 && rows <= std::ssize(tokens), "asked for rows that it is not fed for");
    for (const Token x : tokens) require(x >= 0 && x < vocabulary, "fed a token that it does not know");
    require(std::ssize(context_) + std::ssize(tree_) + std::ssize(tokens) <= most_, "fed past its context");
    // If a draft failed because of what it had drawn, and were drawn again, its tokens would not follow its rows. So
    // draft models fail only before the first draw.
    const bool may_fail = part_ == Part::target || !std::exchange(stage_->drawn, true);
    if (part_ == Part::target)
      require(std::ssize(context_) == stage_->author->kept(), "the target has lost count");
    if (may_fail) stage_->call();
    return may_fail;
  }

  void check(Index rows) const {
    const auto text = stage_->author->text();
    require(begins_with(context_, text), "a context that is not the text");
    const auto more = std::span(context_).subspan(text.size());
    if (part_ == Part::drafting) return;
    const Tokens fed = stage_->fed().tokens;
    require(rows == std::ssize(fed) + 1, "rows for another draft");
    require(more.size() == fed.size() && agree(more, fed), "fed another draft");
  }

  // The target is fed a tree in one call, and a draft model is fed the tokens after the text.
  void check(std::span<const Token> tokens, std::span<const Index> parents, Index rows) const {
    const auto text = stage_->author->text();
    require(begins_with(text, context_), "a context that is not the text");
    const auto unseen = text.subspan(context_.size());
    if (part_ == Part::drafting) return require(unseen.empty(), "a tree that does not stand behind the text");
    const Stage::Fed fed = stage_->fed();
    require(tree_.empty() && rows == std::ssize(fed.tokens) + 1, "rows for another draft");
    require(tokens.size() == unseen.size() + fed.tokens.size() && begins_with(tokens, unseen) &&
                agree(tokens.subspan(unseen.size()), fed.tokens),
            "fed another draft");
    for (Index k = 0; k < std::ssize(parents); ++k) {
      const Index drafted = k - std::ssize(unseen);
      const Index parent =
          drafted < 0 ? k - 1 : std::ssize(unseen) + fed.parents[static_cast<std::size_t>(drafted)];
      require(parents[static_cast<std::size_t>(k)] == parent, "fed another tree");
    }
  }

  std::array<Token, 2> last_two(Index k) const {
    const Index parent = node(k).parent;
    return {parent < 0 ? context_.back() : node(parent).token, node(k).token};
  }

  void fill(Index i, std::span<const Token> text) {
    const auto row = table_.distribution(text);
    for (Token x = 0; x < vocabulary; ++x) rows_(i, x) = row.probability(x);
  }

  Stage* stage_;
  Part part_;
  Index most_;
  Table table_;
  Tokens context_;
  std::vector<Node> tree_;  // open after the context
  Tokens way_;
  Matrix rows_;
};

// One of the library's drafters of lines. Its rows are copied, so that all drafters' rows have one type.
class AnyDrafter {
 public:
  enum Kind : Index { none, model, prompt_lookup, suffixes, answers, chain, cascade, kinds };
  static constexpr const char* names[] = {"none",    "model", "prompt lookup", "suffixes",
                                          "answers", "chain", "cascade"};

  // Whether the draft model's context is a prefix of the text between steps.
  static bool model_keeps_text(Index which) { return which != cascade; }

  AnyDrafter(Index which, Stage& stage, Model& small, Model& middle)
      : stage_(&stage), small_(&small), middle_(&middle) {
    using namespace specdec;
    switch (which) {
      case model:
        drafter_.emplace<ModelDrafter<Model&>>(small);
        break;
      case prompt_lookup:
        drafter_.emplace<PromptLookupDrafter>();
        break;
      case suffixes:
        drafter_.emplace<SuffixDrafter<>>();
        break;
      case answers:
        drafter_.emplace<support::AnswersDrafter>();
        break;
      case chain:
        drafter_.emplace<Chain>(FallbackDrafter{PromptLookupDrafter({.max_ngram = 4, .min_ngram = 3}),
                                                ModelDrafter<Model&>(small)});
        break;
      case cascade:
        drafter_.emplace<Cascade>(middle, ModelDrafter<Model&>(small), GreedyBlockVerifier{}, 3);
        break;
      default:
        break;
    }
  }

  auto draft(std::span<const Token> context, Index gamma, auto& chance) {
    require(begins_with(context, stage_->author->text()) && context.size() == stage_->author->text().size(),
            "a draft for another text");
    stage_->call();
    stage_->drawn = false;
    std::visit(
        [&](auto& drafter) {
          keep(specdec::detail::ask_drafter(drafter, context, specdec::DraftLimits{gamma}, chance));
        },
        drafter_);
    for (const Model* drafting : {small_, middle_}) {
      const auto held = drafting->context();
      if (held.size() <= context.size()) continue;
      require(agree(held.subspan(context.size()), stage_->draft), "a model has drafted something else");
    }
    stage_->call();
    return specdec::Draft<Eigen::Ref<const Matrix, 0, Eigen::OuterStride<>>>{stage_->draft, rows_};
  }

  void truncate(Index length) {
    std::visit([&](auto& drafter) { drafter.truncate(length); }, drafter_);
  }

  template <class Rows>
  void observe(const specdec::Judged<Rows>& judged) {
    stage_->call();
    std::visit(
        [&](auto& drafter) {
          if constexpr (requires { drafter.observe(judged); }) drafter.observe(judged);
        },
        drafter_);
    stage_->call();
  }

  // Forgets, if the drafter learns.
  void clear() {
    std::visit(
        [](auto& drafter) {
          if constexpr (requires { drafter.clear(); }) drafter.clear();
        },
        drafter_);
  }

 private:
  using Chain =
      support::OneText<specdec::FallbackDrafter<specdec::PromptLookupDrafter, specdec::ModelDrafter<Model&>>>;
  using Cascade =
      specdec::CascadeDrafter<Model&, specdec::ModelDrafter<Model&>, specdec::GreedyBlockVerifier>;

  template <class Proposed>
  void keep(const Proposed& draft) {
    const auto rows = specdec::distributions(draft.rows);
    stage_->draft.assign(draft.tokens.begin(), draft.tokens.end());
    rows_.resize(std::ssize(stage_->draft), vocabulary);
    for (Index i = 0; i < rows_.rows(); ++i)
      for (Token x = 0; x < vocabulary; ++x) rows_(i, x) = specdec::probability(rows.row(i), x);
  }

  Stage* stage_;
  const Model* small_;
  const Model* middle_;
  std::variant<specdec::NoDrafter, specdec::ModelDrafter<Model&>, specdec::PromptLookupDrafter,
               specdec::SuffixDrafter<>, support::AnswersDrafter, Chain, Cascade>
      drafter_;
  Matrix rows_;
};

// A draft length that changes from step to step: the most, by schedule, or any.
class AnyLength {
 public:
  explicit AnyLength(Stage& stage) : stage_(&stage) {}

  Index next(Index most) {
    stage_->call();
    if (stage_->one_in(50)) which_ = stage_->below(3);
    return which_ == 0 ? most : which_ == 1 ? schedule_.next(most) : stage_->below(most + 1);
  }
  void observe(const specdec::StepRecord& step) { schedule_.observe(step); }

 private:
  Stage* stage_;
  Index which_ = 0;
  specdec::ScheduledLength schedule_;
};

// Any rule. A call of it fails before or after the verdict.
template <class Rule>
struct FailingRule {
  Rule rule;
  Stage* stage;

  auto judge(const auto& drafted, auto& chance) {
    stage->call();
    const auto verdict = rule.judge(drafted, chance);
    stage->call();
    return verdict;
  }
  void commit() { specdec::detail::commit(rule); }
  Index min_draft_length() const
    requires specdec::remembers_sequence<Rule>
  {
    return rule.min_draft_length();
  }
};

}  // namespace soak
