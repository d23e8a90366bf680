// An audit convicts drafters that draw their tokens from something other than the reported q, and no others.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <specdec/more/audits/audited_drafter.hpp>
#include <specdec/more/audits/draft_audit.hpp>
#include <specdec/more/audits/draft_audit_report.hpp>
#include <specdec/more/drafters/confident_tree.hpp>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/more/drafters/suffix_drafter.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/one_text.hpp"

namespace test_more_audits_draft_audit {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

// A model of logits with a vocabulary like a language's: some words are likely, some are not, and the last token has
// an influence on which.
class WordModel {
 public:
  explicit WordModel(Index vocab_size = 60, std::uint64_t seed = 1) : logits_(vocab_size, vocab_size) {
    SplitMix64 generator(seed);
    for (Index last = 0; last < vocab_size; ++last)
      for (Index x = 0; x < vocab_size; ++x) {
        double mood = -3;
        for (int k = 0; k < 6; ++k) mood += uniform01(generator);
        const double rank = static_cast<double>((7 * x + 3) % vocab_size + 1);
        logits_(last, x) = static_cast<float>(2 * mood - 1.2 * std::log(rank));
      }
  }

  Index vocab_size() const { return logits_.cols(); }
  const RowMajor<float>& forward(std::span<const Token> tokens, Index rows) {
    output_.resize(rows, vocab_size());
    for (Index i = 0; i < rows; ++i)
      output_.row(i) = logits_.row(tokens[tokens.size() - static_cast<std::size_t>(rows - i)]);
    return output_;
  }
  void truncate(Index) {}

  LogitsRow<float> after(Token last) const {
    return LogitsRow(NumberRow<float>(logits_.data() + last * vocab_size(), vocab_size()));
  }

 private:
  RowMajor<float> logits_, output_;
};

// What a drafter may do wrong.
struct Lie {
  double temperature = 1;  // of the draw; the rows are reported at 1
  Index top_k = 0;         // of the draw; the rows are reported without it
  bool argmax = false;
  Index row_of = 0;        // how many positions too early the reported row is
  bool first_row = false;  // one row for the whole draft
  double drop_below = 0;   // a token of smaller probability ends the draft and is dropped
  double close_below = 0;  // no lie: a row with a smaller largest probability ends the draft before the draw
  bool keep_rare = false;  // no lie: a token of probability below 0.05 ends the draft and is kept
  bool normalised = true;  // false: reports the row that top-k left, unnormalised
};

// Drafts from a WordModel with dense rows.
class Liar {
 public:
  Liar(const WordModel& model, const Lie& lie) : model_(&model), lie_(lie) {}

  template <RandomSource Source>
  Draft<const RowMajor<double>&> draft(std::span<const Token> context, Index gamma, Source& source) {
    auto&& chance = as_chance(source);
    std::vector<Token> text(context.begin(), context.end());
    tokens_.clear();
    rows_.resize(gamma, model_->vocab_size());
    while (std::ssize(tokens_) < gamma) {
      const auto q = model_->after(text.back());
      if (q.segment(0, q.vocab_size()).maxCoeff() < lie_.close_below) break;
      const Token x = lie_.argmax ? q.argmax() : chance.draw(TopK{lie_.top_k}(q.tempered(lie_.temperature)));
      report(text);
      if (rows_(std::ssize(tokens_), x) < lie_.drop_below) break;
      tokens_.push_back(x);
      text.push_back(x);
      if (lie_.keep_rare && q.probability(x) < 0.05) break;
    }
    rows_.conservativeResize(std::ssize(tokens_), Eigen::NoChange);
    return {tokens_, rows_};
  }
  void truncate(Index) {}

 private:
  void report(const std::vector<Token>& text) {
    const Index i = std::ssize(tokens_), back = lie_.first_row ? i : lie_.row_of;
    const auto told = model_->after(text[text.size() - 1 - static_cast<std::size_t>(back)]);
    const auto cut = TopK{lie_.top_k}(told);
    for (Token y = 0; y < told.vocab_size(); ++y)
      rows_(i, y) = lie_.normalised || cut.probability(y) > 0 ? told.probability(y) : 0.0;
  }

  const WordModel* model_;
  Lie lie_;
  std::vector<Token> tokens_;
  RowMajor<double> rows_;
};

const std::vector<Token> prompt{3, 1, 4, 1, 5};

// Any step, so that processed models have one type for all steps.
struct Step {
  std::function<LogitsRow<float>(const LogitsRow<float>&)> run;
  LogitsRow<float> operator()(const LogitsRow<float>& row) const { return run(row); }
};

auto word_drafter(Step step) { return ModelDrafter{ProcessedModel{WordModel(), std::move(step)}}; }

// An audited drafter as plain functions, so that the loop below is compiled once for all drafters.
struct Audited {
  std::function<std::vector<Token>(std::span<const Token>, Index, std::mt19937_64&)> draft;
  std::function<void(Index)> truncate;
  std::function<DraftAuditReport()> report;
};

template <class D>
Audited audited(D drafter, std::uint64_t seed) {
  const auto held = std::make_shared<AuditedDrafter<D>>(std::move(drafter), AuditOptions{.seed = seed});
  const auto by_hand = std::make_shared<OneText<AuditedDrafter<D>&>>(*held);
  return {[held, by_hand](std::span<const Token> context, Index gamma, std::mt19937_64& rng) {
            const auto draft = by_hand->draft(context, {gamma}, rng);
            return std::vector<Token>(draft.tokens.begin(), draft.tokens.end());
          },
          [held, by_hand](Index length) { by_hand->truncate(length); }, [held] { return held->report(); }};
}

// Runs a drafter for a target by sample-and-match, in texts of 500 tokens, until it has drafted `tokens` tokens.
// Returns the audit's report.
DraftAuditReport audit_of(const Audited& audited, std::uint64_t seed, Index tokens) {
  const WordModel target;
  std::mt19937_64 rng(seed);
  RandomChance chance{rng};
  for (Index drafted = 0; drafted < tokens;) {
    std::vector<Token> text = prompt;
    audited.truncate(0);
    while (text.size() < prompt.size() + 500) {
      bool matched = true;
      const std::vector<Token> draft = audited.draft(text, 4, rng);
      drafted += std::ssize(draft);
      for (const Token x : draft) {
        text.push_back(chance.draw(target.after(text.back())));
        matched = text.back() == x;
        if (!matched) break;
      }
      if (matched) text.push_back(chance.draw(target.after(text.back())));
      audited.truncate(std::ssize(text) - 1);
    }
  }
  return audited.report();
}

template <class D>
DraftAuditReport audit(D drafter, std::uint64_t seed, Index tokens = 5000) {
  return audit_of(audited(std::move(drafter), seed), seed, tokens);
}

DraftAuditReport audit(const Lie& lie, std::uint64_t seed, Index tokens = 5000) {
  const WordModel model;
  return audit(Liar(model, lie), seed, tokens);
}

std::string print(const auto& report) {
  std::ostringstream out;
  out << report;
  return out.str();
}

// Audits liars, and compares the faults found with the expected ones. A conviction takes its tokens, so that under
// sanitizers it is the seeds and the lies that are fewer.
template <class L>
void check_faults(const std::vector<std::pair<L, DraftFault>>& lies) {
  for (std::size_t n = 0; n < lies.size(); n += static_cast<std::size_t>(every(3)))
    for (int seed = 1; seed <= bound(3); ++seed) {
      const auto& [lie, fault] = lies[n];
      const DraftAuditReport report = audit(lie, static_cast<std::uint64_t>(seed));
      INFO(report);
      CHECK(report.convicted());
      CHECK(report.tokens >= 5000);
      CHECK(report.fault == fault);
    }
}

// How many tokens of an honest drafter are audited.
const Index of_honest = bound(5000);

}  // namespace

TEST_CASE("an audit convicts every common way of reporting a q that the tokens were not drawn from") {
  check_faults(std::vector<std::pair<Lie, DraftFault>>{
      {{.temperature = 0.8}, DraftFault::likelier},
      {{.temperature = 0.9}, DraftFault::likelier},
      {{.temperature = 1.1}, DraftFault::rarer},
      {{.temperature = 1.2}, DraftFault::rarer},
      {{.top_k = 20}, DraftFault::likelier},
      {{.top_k = 5}, DraftFault::likelier},
      {{.argmax = true}, DraftFault::likelier},
      {{.row_of = 1}, DraftFault::unrelated},
      {{.first_row = true}, DraftFault::rarer},  // one row in four is right
      {{.drop_below = 0.01}, DraftFault::likelier},
      {{.drop_below = 0.05}, DraftFault::likelier},
      {{.top_k = 5, .normalised = false}, DraftFault::bad_row},
  });
}

// An audit convicts an honest drafter with a probability of at most 1e-4, the default of AuditOptions::false_alarm.
// With other seeds than these fixed ones, one of these 24 audits and the 5 below would fail with a probability of at
// most 0.3 %.
TEST_CASE("an audit acquits honest drafters") {
  for (std::uint64_t seed = 1; seed <= 3; seed += static_cast<unsigned>(every(3))) {
    const auto acquitted = [](const DraftAuditReport& report) {
      INFO(report);
      CHECK(report.acquitted());
      CHECK(report.fault == DraftFault::none);
    };
    acquitted(audit(Lie{}, seed, of_honest));
    acquitted(audit(Lie{.close_below = 0.2}, seed, of_honest));  // reads the row, then does not draw
    acquitted(audit(Lie{.keep_rare = true}, seed, of_honest));   // reads the token, and keeps it
    acquitted(audit(word_drafter({Temperature{0.8}}), seed, of_honest));
    acquitted(audit(word_drafter({Chain{Temperature{1.3}, TopK{12}}}), seed, of_honest));
    std::mt19937_64 rng(seed);
    acquitted(audit(ModelDrafter{LayoutModel<AsNarrow<Eigen::bfloat16>>(coarse_model(60, 1, rng))}, seed,
                    of_honest));
    acquitted(audit(ModelDrafter{LayoutModel<AsSparse<double>>(TableModel<>::random(20, 1, rng))}, seed,
                    of_honest));
    acquitted(audit(FallbackDrafter{PromptLookupDrafter{{.min_ngram = 2}}, word_drafter({TopK{9}})}, seed,
                    of_honest));
  }
}

TEST_CASE("a greedy drafter that declares itself is not convicted, and the audit learns nothing from it") {
  for (const auto& report :
       {audit(word_drafter({Temperature{0}}), 1, 1000), audit(PromptLookupDrafter{}, 1, 1000)}) {
    INFO(report);
    CHECK(report.tokens >= 1000);
    CHECK_FALSE(report.convicted());
    CHECK_FALSE(report.acquitted());
    CHECK(report.informative == 0);
    CHECK(report.likelier == 0);
    CHECK(report.rarer == 0);
    CHECK_FALSE(report.order);
  }
}

namespace {

// What a drafter of trees may do wrong.
enum class TreeLie {
  none,
  raw,             // drawn at a temperature of 0.8, reported at 1
  unrenewed,       // siblings drawn without replacement report the row that still has their elder siblings
  unnormalised,    // reports the row without the elder siblings, unnormalised
  not_taken_out,   // drawn independently, reported as if without replacement
  twins_dropped,   // drawn independently, and dropped if an elder sibling is that token
  row_of_an_aunt,  // the children of the second token report the row after the first one
  soft_choice,     // the likeliest tokens are chosen, but report the model's row
};

// Drafts two tokens after the context and two after each of these, from a WordModel.
class TreeLiar {
 public:
  TreeLiar(const WordModel& model, TreeLie lie) : model_(&model), lie_(lie) {}

  template <RandomSource Source>
  Draft<const RowMajor<double>&> draft(std::span<const Token> context, const DraftLimits&, Source& source) {
    auto&& chance = as_chance(source);
    tokens_.clear();
    parents_.clear();
    rows_.resize(6, model_->vocab_size());
    grow(-1, context.back(), chance);
    for (Index k = 0, size = std::ssize(tokens_); k < size; ++k)
      grow(k, tokens_[static_cast<std::size_t>(k)], chance);
    rows_.conservativeResize(std::ssize(tokens_), Eigen::NoChange);
    return {tokens_, rows_, parents_};
  }
  void truncate(Index) {}

 private:
  using Row = Eigen::RowVectorXd;

  Row behind(Token last, double temperature = 1) const {
    const auto row = model_->after(last).tempered(temperature);
    Row out(model_->vocab_size());
    for (Token x = 0; x < out.size(); ++x) out[x] = row.probability(x);
    return out / out.sum();
  }

  void grow(Index parent, Token last, auto& chance) {
    const Row q = behind(last, lie_ == TreeLie::raw ? 0.8 : 1.0);
    Row told = behind(lie_ == TreeLie::row_of_an_aunt && parent == 1 ? tokens_[0] : last), rest = q;
    for (int sibling = 0; sibling < 2; ++sibling) {
      const bool again = lie_ == TreeLie::not_taken_out || lie_ == TreeLie::twins_dropped;
      const Row drawn_from = again ? q : Row(rest / rest.sum());
      const Token x = lie_ == TreeLie::soft_choice
                          ? likeliest(rest)
                          : chance.draw(DenseRow<double>(drawn_from.data(), drawn_from.size()));
      if (!(lie_ == TreeLie::twins_dropped && rest[x] == 0)) add(x, parent, told);
      rest[x] = 0;
      if (lie_ == TreeLie::unrenewed || lie_ == TreeLie::twins_dropped) continue;
      told[x] = 0;
      if (lie_ != TreeLie::unnormalised) told /= told.sum();
    }
  }

  static Token likeliest(const Row& row) {
    Row::Index x = 0;
    row.maxCoeff(&x);
    return static_cast<Token>(x);
  }

  void add(Token token, Index parent, const Row& told) {
    rows_.row(std::ssize(tokens_)) = told;
    tokens_.push_back(token);
    parents_.push_back(parent);
  }

  const WordModel* model_;
  TreeLie lie_;
  std::vector<Token> tokens_;
  std::vector<Index> parents_;
  RowMajor<double> rows_;
};

// Runs a drafter of trees along texts of 500 tokens that a target writes.
template <class D>
  requires drafts_trees<D>
DraftAuditReport audit(D drafter, std::uint64_t seed, Index tokens = 5000) {
  const WordModel target;
  std::mt19937_64 rng(seed);
  RandomChance chance{rng};
  AuditedDrafter<D> audited(std::move(drafter), {.seed = seed});
  OneText by_hand{audited};
  std::vector<Token> text = prompt;
  for (Index seen = 0; seen < tokens;) {
    if (text.size() > 500) text.resize(prompt.size());
    by_hand.truncate(std::ssize(text) - 1);
    const auto drafted = by_hand.draft(text, DraftLimits{.nodes = 20}, rng);
    REQUIRE(drafted.parents.size() == drafted.tokens.size());
    seen += std::ssize(drafted.tokens);
    text.push_back(chance.draw(target.after(text.back())));
  }
  return audited.report();
}

DraftAuditReport audit(TreeLie lie, std::uint64_t seed, Index tokens = 5000) {
  const WordModel model;
  return audit(TreeLiar(model, lie), seed, tokens);
}

}  // namespace

TEST_CASE(
    "an audit convicts drafters of trees that report a q other than the draw's, given the elder siblings") {
  check_faults(std::vector<std::pair<TreeLie, DraftFault>>{
      {TreeLie::raw, DraftFault::likelier},
      {TreeLie::unrenewed, DraftFault::rarer},
      {TreeLie::unnormalised, DraftFault::bad_row},
      {TreeLie::not_taken_out, DraftFault::impossible},
      {TreeLie::twins_dropped, DraftFault::rarer},
      {TreeLie::row_of_an_aunt, DraftFault::rarer},  // four rows in six are right
      {TreeLie::soft_choice, DraftFault::likelier},
  });
}

TEST_CASE("an audit acquits honest drafters of trees") {
  const TreeShape shape = TreeShape::of_widths({3, 2, 1});
  const auto words = [] { return PathByPath{ProcessedModel{WordModel(), Step{Temperature{0.8}}}}; };
  for (std::uint64_t seed = 1; seed <= 3; seed += static_cast<unsigned>(every(3))) {
    const auto acquitted = [](const DraftAuditReport& report) {
      INFO(report);
      CHECK(report.acquitted());
      CHECK(report.fault == DraftFault::none);
    };
    acquitted(audit(TreeLie::none, seed, of_honest));
    acquitted(audit(ModelDrafter{words(), Tree{shape, Independent{}}}, seed, of_honest));
    acquitted(audit(ModelDrafter{words(), Tree{shape, WithoutReplacement{}}}, seed, of_honest));
    acquitted(audit(ModelDrafter{words(), Spares{4, {2, 1}, 2}}, seed, of_honest));
    std::mt19937_64 rng(seed);
    acquitted(audit(ModelDrafter{TableModel<>::random(20, 1, rng), Tree{shape, WithoutReplacement{}}}, seed,
                    of_honest));
  }
}

TEST_CASE("an audit learns nothing from trees of chosen tokens, except that their rows name the tokens") {
  const auto words = [] { return PathByPath{ProcessedModel{WordModel(), Step{Temperature{0.8}}}}; };
  for (const auto& report :
       {audit(ModelDrafter{words(), Tree{TreeShape::of_widths({3, 2}), Likeliest{}}}, 1, 1000),
        audit(ModelDrafter{words(), ConfidentTree{.width = 3, .depth = 3, .nodes = 8}}, 1, 1000),
        audit(SuffixDrafter<Branching>{}, 1, 1000)}) {
    INFO(report);
    CHECK(report.tokens >= 1000);
    CHECK_FALSE(report.convicted());
    CHECK_FALSE(report.acquitted());
    CHECK(report.informative == 0);
  }
}

TEST_CASE("short audits keep their false-alarm rate, for rows of every shape") {
  // Each of five tests spends a fifth of 1 %. No more than 1 % of the audits + 5 standard errors may alarm.
  const int audits = support::bound(500, 2000);
  std::mt19937_64 rng(5);
  RandomChance chance{rng};
  const auto model = TableModel<>::random(6, 3, rng);
  int alarms = 0;
  for (std::uint64_t n = 0; n < static_cast<std::uint64_t>(audits); ++n) {
    DraftAudit audit({.false_alarm = 0.01, .seed = n});
    std::vector<Token> text{0, 1, static_cast<Token>(n % 6)};
    for (int i = 0; i < 800; ++i) {
      const std::vector rows{model.distribution(text)};
      text.push_back(chance.draw(rows[0]));
      audit.add(RowSpan(rows, 6), std::span(text).last(1));
    }
    const DraftAuditReport report = audit.report();
    REQUIRE(report.pairs);  // all five tests were done
    alarms += report.convicted();
  }
  CHECK(alarms <= 0.01 * audits + 5 * std::sqrt(0.0099 * audits));
}

TEST_CASE("each of the five tests spends a fifth of the false-alarm rate") {
  const WordModel model;
  const std::vector rows{model.after(0)};
  std::mt19937_64 rng(4);
  for (const double rate : {1e-4, 0.1}) {
    DraftAudit audit({.false_alarm = rate});
    for (int i = 0; i < 320; ++i)
      audit.add(RowSpan(rows, 60), std::vector<Token>{RandomChance{rng}.draw(rows[0])});
    const DraftAuditReport report = audit.report();
    CHECK(report.threshold == Approx(std::log(5 / rate)));  // Ville's inequality
    // 16 cells have 15 degrees of freedom; the bound is that of check_sampled, which halves the rate once more.
    const double t = std::log(5 / rate / 0.5), threshold = 15 + 2 * std::sqrt(15 * t) + 2 * t;
    REQUIRE(report.pairs);
    CHECK(report.order->threshold == Approx(threshold));
    CHECK(report.pairs->threshold == Approx(threshold));
    CHECK(report.ids->threshold == Approx(threshold));
  }
}

TEST_CASE("in a long run no bias adds up, for every kind of row", "[long]") {
  CHECK(audit(Lie{}, 4, support::bound(20000, 60000)).acquitted());
  CHECK(audit(Lie{.temperature = 0.97}, 4, 60000).convicted());
  std::mt19937_64 rng(6);
  const auto acquitted = [](const DraftAuditReport& report) {
    INFO(report);
    CHECK(report.acquitted());
  };
  acquitted(audit(word_drafter({Temperature{0.7}}), 1, 20000));
  acquitted(audit(ModelDrafter{LayoutModel<AsNarrow<Eigen::bfloat16>>(coarse_model(20, 1, rng))}, 1, 20000));
}

TEST_CASE("a token that its row rules out convicts at once") {
  const RowMajor<double> rows = Eigen::RowVector3d(0.5, 0.5, 0);
  const auto fault = [](const auto& q, Token x) {
    DraftAudit audit;
    audit.add(q, std::vector<Token>{x});
    const DraftAuditReport report = audit.report();
    CHECK(report.tokens == 1);
    CHECK(report.impossible == (report.fault == DraftFault::impossible));
    return report.fault;
  };
  CHECK(fault(rows, 1) == DraftFault::none);
  CHECK(fault(rows, 2) == DraftFault::impossible);
  CHECK(fault(rows, 3) == DraftFault::impossible);
  CHECK(fault(rows, -1) == DraftFault::impossible);
  const std::vector<Token> other{4};
  CHECK(fault(OneHotRows(other), 4) == DraftFault::none);
  CHECK(fault(OneHotRows(other), 3) == DraftFault::impossible);
}

TEST_CASE("a row that is not a distribution convicts at once, without an exception") {
  const auto fault = [](const RowMajor<double>& rows) {
    DraftAudit audit;
    audit.add(rows, std::vector<Token>{0});
    CHECK(audit.report().bad_rows == (audit.report().fault == DraftFault::bad_row));
    return audit.report().fault;
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(fault(Eigen::RowVector3d(0.5, 0.25, 0.25)) == DraftFault::none);
  // Sums of bfloat16 may be that far off.
  CHECK(fault(Eigen::RowVector3d(0.5, 0.25, 0.248)) == DraftFault::none);
  CHECK(fault(Eigen::RowVector3d(0.5, 0.25, 0.2)) == DraftFault::bad_row);
  CHECK(fault(Eigen::RowVector3d(0.5, 0.5, 0.5)) == DraftFault::bad_row);
  CHECK(fault(Eigen::RowVector3d(0.5, nan, 0.5)) == DraftFault::bad_row);
  CHECK(fault(Eigen::RowVector3d(0.75, -0.25, 0.5)) == DraftFault::bad_row);
  DraftAudit audit;
  const RowMajor<float> logits = Eigen::RowVector3f(1, std::numeric_limits<float>::quiet_NaN(), 2);
  audit.add(Logits{logits}, std::vector<Token>{0});
  CHECK(audit.report().fault == DraftFault::bad_row);
}

TEST_CASE("uniform, one-hot and nearly certain rows neither convict nor weaken an audit") {
  const WordModel model;
  std::mt19937_64 rng(2);
  RandomChance chance{rng};
  const RowMajor<double> flat = Eigen::RowVector4d(0.25, 0.25, 0.25, 0.25);
  const RowMajor<double> all_but_certain = Eigen::RowVector3d(0.001, 0.998, 0.001);
  DraftAudit plain, mixed;
  for (int i = 0; i < 1000; ++i) {
    const std::vector rows{model.after(static_cast<Token>(i % 60))};
    const std::vector<Token> x{chance.draw(rows[0].tempered(0.8))};
    plain.add(RowSpan(rows, 60), x);
    mixed.add(RowSpan(rows, 60), x);
    for (int k = 0; k < 9; ++k) mixed.add(OneHotRows(x), x);
    mixed.add(flat, std::vector<Token>{static_cast<Token>(i % 4)});
    mixed.add(all_but_certain, std::vector<Token>{chance.draw(distributions(all_but_certain).row(0))});
  }
  const DraftAuditReport a = plain.report(), b = mixed.report();
  CHECK(b.tokens == 12000);
  CHECK(b.informative == a.informative);
  CHECK(a.fault == DraftFault::likelier);
  CHECK(b.fault == DraftFault::likelier);
  CHECK(b.likelier == Approx(a.likelier).epsilon(0.05));  // nearly certain rows add a little evidence
  REQUIRE(a.order);
  REQUIRE(b.order);
  CHECK(a.order->statistic == b.order->statistic);
  CHECK(a.pairs->statistic == b.pairs->statistic);
}

TEST_CASE("rows that are right only on average are found by looking at pairs of tokens") {
  // Drawn in turns from two rows that prefer different halves of the vocabulary. Reported as their mean.
  const Eigen::RowVector4d first(0.5, 0.3, 0.12, 0.08), second(0.18, 0.22, 0.24, 0.36);
  const RowMajor<double> mean = (first + second) / 2;
  std::mt19937_64 rng(3);
  RandomChance chance{rng};
  DraftAudit audit;
  for (int i = 0; i < 5000; ++i) {
    const RowMajor<double> drawn_from = i % 2 == 0 ? first : second;
    audit.add(mean, std::vector<Token>{chance.draw(distributions(drawn_from).row(0))});
  }
  const DraftAuditReport report = audit.report();
  INFO(report);
  CHECK(report.order->accepted);
  CHECK(std::max(report.likelier, report.rarer) < report.threshold);
  CHECK_FALSE(report.pairs->accepted);
  CHECK(report.fault == DraftFault::unrelated);
}

TEST_CASE(
    "a sampler that is reseeded before each draft is found, though its tokens are as likely as q says") {
  SplitMix64 generator(1);
  const auto model = TableModel<>::random(50, 2, generator);
  std::mt19937_64 rng(2);
  RandomChance target{rng};
  for (const bool reseeded : {true, false}) {
    DraftAudit audit;
    std::vector<Token> text{0, 1};
    SplitMix64 seeded(5);
    for (int n = 0; n < 2000; ++n) {
      if (reseeded) seeded = SplitMix64(5);
      const std::size_t length = text.size();
      for (int i = 0; i < 2; ++i) {
        const std::vector rows{model.distribution(text)};
        text.push_back(RandomChance{seeded}.draw(rows[0]));
        audit.add(RowSpan(rows, 50), std::span(text).last(1));
      }
      text.resize(length);
      text.push_back(target.draw(model.distribution(text)));  // the text goes on without the draft
    }
    const DraftAuditReport report = audit.report();
    INFO(report);
    CHECK(report.order->accepted);  // what else is tested has nothing to say
    CHECK(report.pairs->accepted);
    CHECK(std::max(report.likelier, report.rarer) < report.threshold);
    CHECK(report.ids->accepted == !reseeded);
    CHECK(report.fault == (reseeded ? DraftFault::repeated : DraftFault::none));
    CHECK(report.acquitted() == !reseeded);
  }
}

TEST_CASE("a drafter that was dishonest for a while stays convicted") {
  const WordModel model;
  const std::vector rows{model.after(0)};
  std::mt19937_64 rng(8);
  DraftAudit audit;
  const auto add = [&](double temperature, int tokens) {
    for (int i = 0; i < tokens; ++i)
      audit.add(RowSpan(rows, 60), std::vector<Token>{RandomChance{rng}.draw(rows[0].tempered(temperature))});
    return audit.report();
  };
  const DraftAuditReport early = add(0.5, 60), late = add(1, 5000);
  INFO(late);
  CHECK(early.fault == DraftFault::likelier);
  CHECK(late.order->accepted);
  CHECK(late.likelier >= early.likelier);
  CHECK(late.convicted());
}

TEST_CASE("few tokens give no verdict, unless the fault is beyond doubt") {
  const WordModel model;
  const std::vector rows{model.after(0)};
  std::mt19937_64 rng(4);
  DraftAudit audit;
  const auto add = [&](int tokens) {
    for (int i = 0; i < tokens; ++i)
      audit.add(RowSpan(rows, 60), std::vector<Token>{RandomChance{rng}.draw(rows[0])});
    return audit.report();
  };
  const DraftAuditReport none = add(0), few = add(159), some = add(1), nearly = add(159), enough = add(1);
  CHECK(print(none).find("no verdict: 0 drafted tokens, 0 informative (320 are needed)") == 0);
  CHECK_FALSE(few.order);
  CHECK(some.order);
  CHECK_FALSE(nearly.pairs);
  CHECK_FALSE(nearly.acquitted());
  CHECK(nearly);
  CHECK(enough.pairs);
  CHECK(enough.acquitted());
  CHECK(print(enough).find("acquitted: 320 drafted tokens, 320 informative") == 0);
  DraftAudit greedy;
  for (int i = 0; i < 30; ++i) greedy.add(RowSpan(rows, 60), std::vector<Token>{rows[0].argmax()});
  CHECK(greedy.report().fault == DraftFault::likelier);
  CHECK_FALSE(greedy.report());
  CHECK(print(greedy.report()).find("CONVICTED: 30 drafted tokens") == 0);
  CHECK(print(greedy.report()).find("tokens are likelier than q says") != std::string::npos);
}

TEST_CASE("each fault has its own message") {
  CHECK(print(DraftFault::none) == "nothing speaks against the drafter");
  for (const auto fault : {DraftFault::bad_row, DraftFault::impossible, DraftFault::likelier,
                           DraftFault::rarer, DraftFault::unrelated, DraftFault::repeated})
    CHECK(print(fault).find('?') != std::string::npos);
}

TEST_CASE("an invalid false-alarm rate is refused") {
  const auto complaint = [](double rate) {
    return message_of([&] { DraftAudit audit({.false_alarm = rate}); });
  };
  CHECK(complaint(0.5).empty());
  CHECK(complaint(0) == "specdec: false_alarm = 0 is outside (0, 1)");
  CHECK_FALSE(complaint(1).empty());
  CHECK_FALSE(complaint(std::numeric_limits<double>::quiet_NaN()).empty());
}

}  // namespace test_more_audits_draft_audit
