// Two texts of one decoder take turns, and everything that can happen to them happens.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <ostream>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "soak/target.hpp"
#include "soak/tree_witness.hpp"
#include "soak/witness.hpp"
#include "support/rules.hpp"
#include "support/trees.hpp"

namespace soak {

using Generator = std::mt19937_64;

// Drafts are lines.
struct Lines {
  using Rule = support::AnyRule;
  using Drafter = AnyDrafter;
  using Length = AnyLength;
  using Decoder = specdec::SpecDec<Target&, AnyDrafter&, FailingRule<Rule>, AnyLength>;
  static constexpr Index gamma = 6;  // at most

  static bool greedy(const Rule& rule) {
    return std::holds_alternative<specdec::GreedyBlockVerifier>(rule.rule);
  }
};

// Drafts are trees.
struct Trees {
  using Rule = support::AnyTreeRule;
  using Drafter = AnyTreeDrafter;
  using Length = AnyNodes;
  using Decoder = specdec::SpecDec<Target&, AnyTreeDrafter&, FailingRule<Rule>, AnyNodes>;
  static constexpr Index gamma = 14;

  static bool greedy(const Rule&) { return false; }
};

// Counts of what has happened.
struct Tally {
  Index tokens = 0, steps = 0, starts = 0, resumes = 0, cancellations = 0, callbacks = 0, releases = 0,
        lost = 0, faults = 0;

  friend std::ostream& operator<<(std::ostream& out, const Tally& t) {
    return out << t.tokens << " tokens in " << t.steps << " steps; " << t.starts << " texts, resumed "
               << t.resumes << " times; " << t.cancellations << " cancelled, " << t.releases << " released; "
               << t.callbacks << " callbacks, " << t.lost << " lost proposals, " << t.faults << " faults";
  }
  Tally& operator+=(const Tally& other) {
    tokens += other.tokens, steps += other.steps, starts += other.starts, resumes += other.resumes;
    cancellations += other.cancellations, callbacks += other.callbacks, releases += other.releases;
    lost += other.lost, faults += other.faults;
    return *this;
  }
};

// Tokens in bytes, and the strings that texts may end with: 2, 1, 2 and 3, 3.
struct Letters {
  std::string_view operator()(Token x) const {
    return std::string_view("abcd").substr(static_cast<std::size_t>(x), 1);
  }
};
inline specdec::StopStrings stop_strings() { return {{"cbc", "dd"}, Letters{}}; }

// By a search of the whole text: how many tokens it has up to the end of the first stop string.
inline std::optional<std::size_t> stop_string_in(std::span<const Token> text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i > 0 && text[i - 1] == 3 && text[i] == 3) return i + 1;
    if (i > 1 && text[i - 2] == 2 && text[i - 1] == 1 && text[i] == 2) return i + 1;
  }
  return std::nullopt;
}

// How often each token followed each pair of tokens.
class Census {
 public:
  void add(std::span<const Token> text, std::size_t prompt) {
    for (std::size_t i = prompt; i < text.size(); ++i) ++counts_[at(text[i - 2], text[i - 1], text[i])];
  }

  // A chi-square test, given how often a token followed each pair. There are 64 cells and 16 pairs. The counts of the
  // pairs are given, so there are 48 degrees of freedom if no cell is pooled (a cell that expects less than 10 is
  // pooled). A pair with a pooled cell takes no degree of freedom away.
  specdec::testing::SampledReport compared_with(const Table& model) const {
    specdec::testing::Law expected;
    Index all = 0, pairs = 0, pooled = 0;
    for (const Index count : counts_) all += count;
    for (Token a = 0; a < vocabulary; ++a)
      for (Token b = 0; b < vocabulary; ++b) {
        const auto row = model.distribution(Tokens{a, b});
        double pair = 0, least = 10;
        for (Token x = 0; x < vocabulary; ++x) pair += static_cast<double>(counts_[at(a, b, x)]);
        for (Token x = 0; x < vocabulary; ++x) {
          expected[{a, b, x}] = pair / static_cast<double>(all) * row.probability(x);
          if (row.probability(x) > 0) least = std::min(least, pair * row.probability(x));
        }
        pairs += pair > 0 ? 1 : 0;
        pooled += pair > 0 && least < 10 ? 1 : 0;
      }
    std::size_t k = 0;
    Index told = 0;
    const auto next = [&] {
      while (told == counts_[k]) ++k, told = 0;
      ++told;
      return Tokens{static_cast<Token>(k / vocabulary / vocabulary),
                    static_cast<Token>(k / vocabulary % vocabulary), static_cast<Token>(k % vocabulary)};
    };
    return specdec::testing::check_sampled(next, expected, all, 1e-6,
                                           pooled > 0 ? pairs - pooled : pairs - 1);
  }

 private:
  static std::size_t at(Token a, Token b, Token x) {
    return static_cast<std::size_t>((a * vocabulary + b) * vocabulary + x);
  }

  std::array<Index, vocabulary * vocabulary * vocabulary> counts_{};
};

// A sequence, and how it was begun or resumed.
template <class Drafts>
class Text final : public Author {
  using Decoder = typename Drafts::Decoder;

 public:
  Text(Decoder& decoder, const Table& law, Tokens prompt, const specdec::Options& options)
      : sequence(decoder.start(prompt, options)), law_(&law), prompt_(std::move(prompt)), options_(options) {}

  std::span<const Token> text() const override { return sequence.context(); }
  Index kept() const override { return sequence.kept(); }
  bool ends(std::span<const Token> more) const override {
    Tokens tokens(sequence.tokens().begin(), sequence.tokens().end());
    tokens.insert(tokens.end(), more.begin(), more.end());
    const auto stops = [this](Token x) { return options_.stop_tokens.contains(x); };
    return std::ssize(tokens) >= options_.max_new_tokens || std::ranges::any_of(more, stops) ||
           (!options_.stop_strings.empty() && stop_string_in(tokens));
  }

  std::size_t prompt_size() const { return prompt_.size(); }
  Index budget() const { return options_.max_new_tokens - std::ssize(sequence.tokens()); }

  void resume(const Tokens& context, const specdec::Options& options) {
    emitted_ += std::ssize(sequence.tokens());
    sequence.resume(context, options);
    prompt_ = context;
    options_ = options;
    checked_ = 0;
  }

  void check() {
    const auto context = sequence.context(), tokens = sequence.tokens();
    require(context.size() == prompt_.size() + tokens.size() && begins_with(context, prompt_),
            "the prompt has changed");
    require(std::ssize(tokens) <= options_.max_new_tokens, "beyond the budget");
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i)
      require(!options_.stop_tokens.contains(tokens[i]), "beyond a stop token");
    require(sequence.stats().emitted == emitted_ + std::ssize(tokens), "tokens that were not counted");
    require(kept() <= std::ssize(context), "more kept than there is");
    if (!options_.stop_strings.empty()) {
      const auto end = stop_string_in(tokens);
      require(!end || (end == tokens.size() && sequence.done()), "beyond a stop string");
    }
    check_told();
  }

  typename Decoder::Sequence sequence;

 private:
  // Checks the log-probabilities of the new tokens.
  void check_told() {
    const specdec::LogProbabilities& told = sequence.log_probabilities();
    const auto context = sequence.context();
    const Index tokens = std::ssize(sequence.tokens());
    require(told.size() == (options_.log_probabilities.any() ? tokens : 0), "told of other tokens");
    for (; checked_ < tokens; ++checked_) {
      if (told.empty()) continue;
      const auto before = context.first(prompt_.size() + static_cast<std::size_t>(checked_));
      const auto row = law_->distribution(before);
      require(told[checked_] == std::log(row.probability(context[before.size()])),
              "another token's log-probability");
      const auto top = told.top(checked_);
      require(top.size() == 1 && top[0].token == row.argmax(), "another token is the likeliest");
    }
  }

  const Table* law_;
  Tokens prompt_;
  specdec::Options options_;
  Index emitted_ = 0, checked_ = 0;
};

// A rule and a drafter at work.
template <class Drafts>
class World {
  using Rule = typename Drafts::Rule;
  using Drafter = typename Drafts::Drafter;
  using Length = typename Drafts::Length;
  using Text = soak::Text<Drafts>;

 public:
  World(Index drafter, const Rule& rule, std::uint64_t seed)
      : stage_(seed),
        seed_(seed),
        model_(stage_, Model::Part::target, seed % 2 == 0 ? 120 : unbounded,
               Table::random(vocabulary, 2, seed_)),
        outside_model_(model_),
        target_(model_, seed % 3 == 1),
        outside_(outside_model_, seed % 3 == 1),
        small_(stage_, Model::Part::drafting, seed % 3 == 0 ? 100 : unbounded, near(model_.table(), seed_)),
        middle_(stage_, Model::Part::drafting, unbounded, near(model_.table(), seed_)),
        greedy_(Drafts::greedy(rule)),
        model_keeps_text_(Drafter::model_keeps_text(drafter)),
        drafter_(drafter, stage_, small_, middle_),
        decoder_(target_, drafter_, FailingRule<Rule>{rule, &stage_}, Length(stage_)),
        random_(seed) {
    // The first texts are as long as any later ones, so memory for all of them is allocated early.
    for (auto& text : texts_) begin(text, some_tokens(longest, longest));
  }

  // A random event.
  void turn() {
    if (stage_.one_in(8)) current_ = 1 - current_;
    std::optional<Text>& text = texts_[current_];
    stage_.author = &*text;
    if (text->sequence.done()) return go_on(text);
    const std::size_t before = text->sequence.tokens().size();
    const Index calls = text->sequence.stats().target_calls;
    forget();
    act(*text);
    tally_.tokens += std::ssize(text->sequence.tokens()) - static_cast<Index>(before);
    tally_.steps += text->sequence.stats().target_calls - calls;
    check(*text);
  }

  Tally tally() const {
    Tally out = tally_;
    out.faults = stage_.faults;
    return out;
  }
  specdec::testing::SampledReport report() const { return census_.compared_with(target_.law()); }

 private:
  static constexpr Index unbounded = std::numeric_limits<Index>::max();
  static constexpr Index longest = 110;  // the length of a prompt, or of the text before a resume

  Tokens some_tokens(Index least, Index most) {
    Tokens out(static_cast<std::size_t>(least + stage_.below(most - least + 1)));
    for (Token& x : out) x = static_cast<Token>(stage_.below(vocabulary));
    return out;
  }
  specdec::Options some_options() {
    specdec::Options options{.max_new_tokens = stage_.below(60), .gamma = stage_.below(Drafts::gamma + 1)};
    if (stage_.one_in(3)) options.stop_tokens = {stage_.below(vocabulary)};
    if (stage_.one_in(3)) options.stop_strings = stop_strings();
    if (stage_.one_in(3)) options.log_probabilities = {.processed = true, .top = 1};
    return options;
  }

  void begin(std::optional<Text>& text, Tokens prompt) {
    ++tally_.starts;
    target_.fit(prompt);
    text.emplace(decoder_, target_.law(), std::move(prompt), some_options());
    holder_ = nullptr;
  }

  void act(Text& text) {
    const Index what = stage_.below(23);
    if (what < 10) attempt(text, [&] { step(text); });
    else if (what < 18) generate(text);
    else if (what < 20) attempt(text, [&] { half_steps(text); });
    else if (what < 21) attempt(text, [&] { propose(text); });  // the proposal is then forgotten
    else if (what < 22) cancel(text);
    else release(text);
  }

  // A drafter that learns forgets now and then. Nothing else bounds its memory.
  void forget() {
    if (tally_.tokens < forget_at_) return;
    drafter_.clear();
    forget_at_ = tally_.tokens + 400;
  }

  // A failure leaves everything as it was.
  template <class Action>
  void attempt(Text& text, const Action& action) {
    const std::size_t size = text.sequence.context().size();
    const Index calls = text.sequence.stats().target_calls,
                needs = specdec::min_draft_length(text.sequence.verifier());
    try {
      action();
    } catch (const Failure&) {
      require(text.sequence.context().size() == size && text.sequence.stats().target_calls == calls &&
                  specdec::min_draft_length(text.sequence.verifier()) == needs,
              "a step that failed has left something");
    }
  }

  void step(Text& text) {
    holder_ = &text;
    if (!text.sequence.step(random_).empty()) kept_all(text);
  }

  // After a step the target has been fed everything that survived, except the last token.
  static void kept_all(const Text& text) {
    require(text.kept() >= std::ssize(text.sequence.context()) - 1,
            "the target has to take in again what it held");
  }

  // With a target outside. If the other text drafts in between, the proposal is lost.
  void half_steps(Text& text) {
    const specdec::Feed feed = propose(text);
    outside_.hold(text.sequence.context().first(static_cast<std::size_t>(feed.from)));
    const Matrix rows = feed.parents.empty() ? outside_.forward(feed.tokens, feed.rows)
                                             : outside_.forward(feed.tokens, feed.parents, feed.rows);
    const bool branches = !feed.parents.empty();
    Text& other = *texts_[1 - current_];
    if (!stage_.one_in(4) || other.sequence.done()) {
      text.sequence.accept(rows, random_);
      if (branches) outside_.keep(text.sequence.kept_path());
      else outside_.truncate(text.kept());
      require(std::ssize(outside_model_.context()) == text.kept() &&
                  begins_with(text.sequence.context(), outside_model_.context()),
              "an engine is told to keep something else");
      return kept_all(text);
    }
    stage_.author = &other;
    attempt(other, [&] { propose(other); });
    stage_.author = &text;
    bool refused = false;
    try {
      text.sequence.accept(rows, random_);
    } catch (const std::logic_error&) {
      refused = true;
    }
    require(refused, "a lost proposal was judged");
    ++tally_.lost;
  }

  specdec::Feed propose(Text& text) {
    holder_ = nullptr;
    return text.sequence.propose(random_);
  }

  // Generates to the end, to a stop string, or until the callback ends the text or throws.
  void generate(Text& text) {
    holder_ = &text;
    const std::size_t before = text.sequence.tokens().size();
    Tokens told;
    const auto on_step = [&](std::span<const Token> emitted) {
      told.insert(told.end(), emitted.begin(), emitted.end());
      kept_all(text);
      ++tally_.callbacks;
      stage_.call();
      if (stage_.one_in(12)) {
        ++tally_.cancellations;
        return false;
      }
      return !behind_the_string(text);
    };
    try {
      text.sequence.generate(random_, on_step);
    } catch (const Failure&) {
    }
    const auto tokens = text.sequence.tokens().subspan(before);
    require(told.size() == tokens.size() && agree(told, tokens), "told otherwise");
  }

  // The string after which texts are cut: 2, 1, 2. Returns where it first ends among the new tokens. This depends only
  // on the text, not on where a step ended or a callback stopped.
  static std::optional<std::size_t> behind_the_string(const Text& text) {
    const auto context = text.sequence.context();
    for (std::size_t i = std::max<std::size_t>(text.prompt_size() + 1, 3); i <= context.size(); ++i)
      if (context[i - 3] == 2 && context[i - 2] == 1 && context[i - 1] == 2) return i;
    return std::nullopt;
  }

  void cancel(Text& text) {
    ++tally_.cancellations;
    text.sequence.cancel();
  }

  void release(Text& text) {
    ++tally_.releases;
    text.sequence.pause();
  }

  // What to do with a finished text. A rule's memory of a cancelled text concerns its next tokens. So for the census a
  // cancelled text must go on unchanged; other texts may go on from anywhere.
  void go_on(std::optional<Text>& text) {
    const auto context = text->sequence.context();
    Tokens next(context.begin(), context.end());
    const auto cut = behind_the_string(*text);
    const bool cancelled = text->sequence.result().stop_reason == specdec::StopReason::callback;
    if (cut) next.resize(*cut);
    census_.add(next, text->prompt_size());
    if (!cut && cancelled && (greedy_ || stage_.one_in(2))) return resume(*text, next, text->budget());
    if (stage_.one_in(30)) return begin(text, some_tokens(2, 6));
    if (std::ssize(next) > longest) next.erase(next.begin(), next.end() - 20);
    if (!cut && stage_.one_in(2))
      next.resize(next.size() - static_cast<std::size_t>(stage_.below(std::ssize(next) - 1)));
    if (stage_.one_in(2)) {
      const Tokens more = some_tokens(1, 8);
      next.insert(next.end(), more.begin(), more.end());
    }
    if (next.size() < 2) next.push_back(0);
    target_.fit(next);
    resume(*text, next, stage_.below(60));
  }

  void resume(Text& text, const Tokens& context, Index budget) {
    ++tally_.resumes;
    specdec::Options options = some_options();
    options.max_new_tokens = budget;
    text.resume(context, options);
    check(text);
  }

  void check(Text& text) const {
    text.check();
    if (holder_ != &text) return;
    const auto context = text.sequence.context();
    require(std::ssize(model_.context()) == text.kept() && begins_with(context, model_.context()),
            "the target keeps something else");
    if (model_keeps_text_)
      require(begins_with(context, small_.context()), "the draft model keeps something else");
  }

  Stage stage_;
  Generator seed_;
  Model model_, outside_model_;
  Target target_, outside_;
  Model small_, middle_;
  bool greedy_, model_keeps_text_;
  Drafter drafter_;
  typename Drafts::Decoder decoder_;
  Generator random_;
  std::array<std::optional<Text>, 2> texts_;
  std::size_t current_ = 0;
  const Text* holder_ = nullptr;  // the text that stepped last, and so has the models
  Index forget_at_ = 400;
  Census census_;
  Tally tally_;
};

}  // namespace soak
