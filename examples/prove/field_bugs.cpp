// Mistakes that engines have shipped: how far each bends the law of the text, exactly, what convicts it, and after how many
// tokens of a running text.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iomanip>
#include <iostream>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/audits.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "mistakes/drafters.hpp"
#include "mistakes/engines.hpp"
#include "mistakes/paths.hpp"
#include "mistakes/rows.hpp"
#include "mistakes/rules.hpp"
#include "mistakes/running_text.hpp"
#include "mistakes/siblings.hpp"

using namespace mistakes;
using Model = specdec::testing::TableModel<>;
using specdec::testing::Law;

// The texts of the proofs: a few tokens, written in two steps or more.
const std::vector<Token> opening{0};
const specdec::Options short_text{.max_new_tokens = 4, .gamma = 2};
const specdec::Options text_with_end{.max_new_tokens = 4, .gamma = 2, .stop_tokens = {0}};

// What the arguments print.
std::string printed(const auto&... what) {
  std::ostringstream text;
  (text << ... << what);
  return text.str();
}
// ---- Engines with mistakes -----------------------------------------------------------------------------------

// A drafter with one of these mistakes.
struct Drafting {
  Model model;
  Mistake mistake;
  std::vector<Token> tokens = {};
  Eigen::MatrixXd rows = {};

  specdec::Draft<Eigen::Ref<const Eigen::MatrixXd>> draft(std::span<const Token> context, Index gamma,
                                                          auto& chance) {
    std::vector<Token> text(context.begin(), context.end());
    rows.resize(gamma, model.vocab_size());
    tokens.clear();
    for (Index i = 0; i < gamma; ++i) {
      Row row(model.vocab_size());
      for (Token x = 0; x < row.size(); ++x) row[x] = model.distribution(text).probability(x);
      const std::optional<Token> x = mistake(row, i, draw_by(chance));
      if (!x) break;
      rows.row(i) = row;
      tokens.push_back(*x);
      text.push_back(*x);
    }
    return {tokens, rows.topRows(std::ssize(tokens))};
  }
  void truncate(Index) {}
};

// A model with a penalty: it halves the probabilities of tokens that the text has. It forgets the tokens of the draft.
class ForgetsDraft {
 public:
  explicit ForgetsDraft(Model model) : model_(std::move(model)) {}
  Index vocab_size() const { return model_.vocab_size(); }
  const Eigen::MatrixXd& forward(std::span<const Token> tokens, Index rows) {
    rows_ = model_.forward(tokens, rows);
    const auto before_draft =
        model_.context().first(model_.context().size() - static_cast<std::size_t>(rows - 1));
    for (Token x = 0; x < vocab_size(); ++x)
      if (std::ranges::find(before_draft, x) != before_draft.end()) rows_.col(x) *= 0.5;
    rows_.array().colwise() /= rows_.rowwise().sum().array().eval();
    return rows_;
  }
  void truncate(Index length) { model_.truncate(length); }

 private:
  Model model_;
  Eigen::MatrixXd rows_;
};

// A model whose rollback leaves the first rejected token in the cache.
class StaleCache {
 public:
  explicit StaleCache(Model model) : model_(std::move(model)) {}
  Index vocab_size() const { return model_.vocab_size(); }
  const Eigen::MatrixXd& forward(std::span<const Token> tokens, Index rows) {
    context_.insert(context_.end(), tokens.begin(), tokens.end());
    told_ += std::ssize(tokens);
    rows_.resize(rows, vocab_size());
    for (Index i = 0; i < rows; ++i) {
      const auto row = model_.distribution(
          std::span(context_).first(context_.size() - static_cast<std::size_t>(rows - 1 - i)));
      for (Token x = 0; x < vocab_size(); ++x) rows_(i, x) = row.probability(x);
    }
    return rows_;
  }
  void truncate(Index length) {
    const Index rejected = told_ - length;
    if (rejected <= 0) return;
    told_ = length;
    context_.resize(length == 0 ? 0 : context_.size() - static_cast<std::size_t>(rejected - 1));
  }

 private:
  Model model_;
  std::vector<Token> context_ = {};
  Index told_ = 0;  // tokens that the loop believes to be in the cache
  Eigen::MatrixXd rows_ = {};
};

// A model with a grammar that allows nothing after token 2. `fails_at_once`: it fails as soon as a row allows nothing.
class DeadEnds {
 public:
  DeadEnds(Model model, bool fails_at_once) : model_(std::move(model)), fails_at_once_(fails_at_once) {}
  Index vocab_size() const { return model_.vocab_size(); }
  const Eigen::MatrixXd& forward(std::span<const Token> tokens, Index rows) {
    rows_ = model_.forward(tokens, rows);
    for (Index i = 0; i < rows; ++i) {
      if (model_.context()[model_.context().size() - static_cast<std::size_t>(rows - i)] != 2) continue;
      if (fails_at_once_) throw std::runtime_error("no token is allowed");
      rows_.row(i).setZero();
    }
    return rows_;
  }
  void truncate(Index length) { model_.truncate(length); }

 private:
  Model model_;
  bool fails_at_once_;
  Eigen::MatrixXd rows_ = {};
};

// A text that is preempted after each step. It goes on as a new request, whose prompt is the text so far.
std::vector<Token> preempted_text(auto& decoder, specdec::Options options, auto& source, bool while_drafted) {
  std::vector<Token> text = opening;
  for (bool done = false; !done;) {
    auto sequence = decoder.start(text, options);
    options.max_new_tokens -= std::ssize(sequence.step(source));
    text.assign(sequence.context().begin(), sequence.context().end());
    done = sequence.done();
    if (while_drafted && !done) sequence.propose(source);  // the draft is lost, and its random numbers, too
  }
  return {text.begin() + 1, text.end()};
}

// Token 0 ends the text. The loop looks for it after each step, and keeps the tokens after it.
Law law_past_the_end(Model target, Model draft) {
  specdec::ModelDrafter drafter{std::move(draft)};
  specdec::SpecDec decoder{target, drafter, specdec::TokenVerifier{}};
  Law law;
  specdec::testing::enumerate([&](auto& chance) {
    auto sequence = decoder.start(opening, short_text);
    const auto ended = [&] {
      return std::ranges::find(sequence.tokens(), Token{0}) != sequence.tokens().end();
    };
    while (!sequence.done() && !ended()) sequence.step(chance);
    law[{sequence.tokens().begin(), sequence.tokens().end()}] += chance.probability();
  });
  return law;
}

// ---- The bias, exactly ---------------------------------------------------------------------------------------

// The law of the text, the law that it should have, and the accepted tokens of a target call.
struct Laws {
  Law law, expected;
  double accepted = 0;
};

double total_variation(const Laws& laws) {
  Law difference = laws.law;
  for (const auto& [tokens, probability] : laws.expected) difference[tokens] -= probability;
  double sum = 0;
  for (const auto& [tokens, size] : difference) sum += std::abs(size) / 2;
  return sum;
}

// A rule with an honest drafter.
Laws laws_of_rule(Model target, Model draft, auto rule) {
  specdec::ModelDrafter drafter{std::move(draft)};
  specdec::SpecDec decoder{target, drafter, rule};
  const auto found = specdec::testing::exact_generate(decoder, opening, short_text);
  return {found.law, specdec::testing::target_law(target, opening, short_text),
          found.accepted / found.target_calls};
}

// A rule for trees, with two siblings of some kind.
Laws laws_of_siblings(const Model& target, const Model& draft, auto siblings, auto rule) {
  specdec::SpecDec decoder{
      Model(target),
      specdec::ModelDrafter{Model(draft), specdec::Tree{specdec::TreeShape::of_widths({2}), siblings}}, rule};
  const auto found = specdec::testing::exact_generate(decoder, opening, short_text);
  return {found.law, specdec::testing::target_law(target, opening, short_text),
          found.accepted / found.target_calls};
}

// A drafter with an honest rule, or nearly so.
Laws laws_of_drafter(Model target, const Model& draft, const Mistake& mistake, auto rule,
                     const specdec::Options& options = short_text) {
  Law law;
  specdec::testing::enumerate([&](auto& chance) {
    Drafting drafter{draft, mistake};  // a new one for each text, since it may remember
    specdec::SpecDec decoder{target, drafter, rule};
    const specdec::Result result = decoder.generate(opening, options, chance);
    law[result.tokens] += chance.probability();
  });
  return {law, specdec::testing::target_law(target, opening, options)};
}

// An engine with a penalty. It should write what it writes without a draft.
Laws laws_with_penalty(const Model& target, Model draft) {
  specdec::ModelDrafter drafter{std::move(draft)};
  specdec::SpecDec drafting{ForgetsDraft{target}, drafter, specdec::TokenVerifier{}};
  specdec::SpecDec alone{ForgetsDraft{target}, specdec::NoDrafter{}, specdec::TokenVerifier{}};
  return {specdec::testing::exact_generate(drafting, opening, short_text).law,
          specdec::testing::exact_generate(alone, opening, short_text).law};
}

Laws laws_past_the_end(const Model& target, Model draft) {
  return {law_past_the_end(target, std::move(draft)),
          specdec::testing::target_law(target, opening, text_with_end)};
}

// The law that a text over cut rows should have: that of the cut rows, normalised again.
Model normalised_after_cut(const Model& model) {
  const auto cut_row = [](const auto& row) -> Row {
    const Row p = CutNotNormalised::cut_only(row);
    return p / p.sum();
  };
  constexpr Index order = 2;
  const Index size = model.vocab_size(), states = (size + 1) * (size + 1);
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> table(states, size);
  for (Index state = 0; state < states;
       ++state) {  // two digits, each a token + 1 or 0 for none: see TableModel
    std::vector<Token> context;
    for (const Index digit : {state / (size + 1), state % (size + 1)})
      if (digit > 0) context.push_back(static_cast<Token>(digit - 1));
    table.row(state) = cut_row(model.distribution(context));
  }
  return {table, order};
}
Laws laws_of_cut_rows(const Model& target, Model draft) {
  Laws laws = laws_of_rule(target, std::move(draft), CutNotNormalised{});
  laws.expected = specdec::testing::target_law(normalised_after_cut(target), opening, short_text);
  return laws;
}

Laws laws_of_stale_cache(const Model& target, const Model& draft) {
  Law law;
  specdec::testing::enumerate([&](auto& chance) {
    specdec::SpecDec decoder{StaleCache{target}, specdec::ModelDrafter{Model(draft)},
                             specdec::TokenVerifier{}};
    const specdec::Result result = decoder.generate(opening, short_text, chance);
    law[result.tokens] += chance.probability();
  });
  return {law, specdec::testing::target_law(target, opening, short_text)};
}

// The target alone. After two tokens the text is preempted, and its generator starts from its seed again.
Laws laws_of_restarted_generator(const Model& target, const Model& /*draft*/) {
  Law law;
  specdec::testing::enumerate([&](auto& chance) {
    std::vector<Uniform> numbers(2);
    std::vector<Token> text = opening;
    for (std::size_t i = 0; i < 4; ++i)
      text.push_back(numbers[i % 2].invert(target.distribution(text), draw_by(chance)));
    law[{text.begin() + 1, text.end()}] += chance.probability();
  });
  return {law, specdec::testing::target_law(target, opening, short_text)};
}

// The law of a text that is preempted, and of one that is not.
Laws laws_of_preempted_text(const Model& target, const Model& draft, const specdec::Options& options,
                            bool while_drafted) {
  specdec::SpecDec decoder{Model(target), specdec::ModelDrafter{Model(draft)}, specdec::TokenVerifier{}};
  Law law;
  specdec::testing::enumerate([&](auto& chance) {
    const std::vector<Token> text = preempted_text(decoder, options, chance, while_drafted);
    law[text] += chance.probability();
  });
  return {law, specdec::testing::exact_generate(decoder, opening, options).law};
}

// Token 0 is the letter a, token 1 is b.
specdec::Options stops_after_ab() {
  specdec::Options options = short_text;
  options.stop_strings = {{"ab"}, [](Token x) { return std::string(1, static_cast<char>('a' + x)); }};
  return options;
}

// What a decoder writes; {-1} where it fails.
Law law_of_failing(auto make_decoder) {
  Law law;
  specdec::testing::enumerate([&](auto& chance) {
    std::vector<Token> text{-1};
    try {
      text = make_decoder().generate(opening, short_text, chance).tokens;
    } catch (const std::exception&) {
    }
    law[text] += chance.probability();
  });
  return law;
}

Laws laws_of_dead_ends(const Model& target, const Model& draft) {
  return {law_of_failing([&] {
            return specdec::SpecDec{DeadEnds{target, true}, specdec::ModelDrafter{Model(draft)},
                                    specdec::TokenVerifier{}};
          }),
          law_of_failing([&] {
            return specdec::SpecDec{DeadEnds{target, false}, specdec::NoDrafter{}, specdec::TokenVerifier{}};
          })};
}

// One step on flat rows: where q is as small as what is added to it.
Laws laws_on_flat_rows() {
  std::mt19937_64 rng{1};
  const auto flat = [&rng] {
    Row row(32'000);
    for (double& weight : row) weight = 0.5 + specdec::uniform01(rng);
    return Row(row / row.sum());
  };
  const Row p = flat(), q = flat(), residual = (p - q).cwiseMax(0.0);
  const Row accepted = q.array() * (p.array() / (q.array() + 1e-5)).min(1.0);
  const Row written = accepted + (1 - accepted.sum()) / residual.sum() * residual;
  Laws laws;
  for (Token x = 0; x < p.size(); ++x) laws.law[{x}] = written[x], laws.expected[{x}] = p[x];
  return laws;
}

// Pairs of independent siblings, and lines of two tokens, for rules that judge no other trees.
specdec::testing::LosslessCheck of_pairs() {
  return {.gammas = {1, 2}, .siblings = {specdec::testing::Sibling::independent}};
}

// A target row of NaN, as an overflow leaves it.
Verdict judged_without_numbers() {
  Eigen::MatrixXd target = Eigen::MatrixXd::Constant(2, 3, 1. / 3), draft = target.topRows(1);
  target.row(0).setConstant(std::numeric_limits<double>::quiet_NaN());
  std::mt19937_64 rng{1};
  return specdec::verify(specdec::TokenVerifier{}, target, draft, std::vector<Token>{1}, rng);
}

// The total variation between law and expected law: its mean and its largest value over pairs of random models.
struct Bias {
  double mean = 0, worst = 0, accepted = 0;
  std::string example = {};  // from the first pair where the laws differ
};

// `laws_of(target, draft)` for each pair of models. The pairs are the same for every mistake.
Bias bias(const std::function<Laws(const Model& target, const Model& draft)>& laws_of) {
  constexpr int pairs = 200;
  std::mt19937_64 rng{1};
  Bias out;
  for (int pair = 0; pair < pairs; ++pair) {
    const Model target = Model::random(3, 2, rng), draft = Model::random(3, 2, rng);
    const Laws laws = laws_of(target, draft);
    out.accepted += laws.accepted / pairs;
    const double distance = total_variation(laws);
    if (distance < 1e-12) continue;  // rounding
    if (out.example.empty()) {
      const auto largest = specdec::testing::largest_difference(laws.law, laws.expected);
      out.example = printed("output ", specdec::testing::to_string(largest.tokens), " has probability ",
                            largest.left, ", expected ", largest.right);
    }
    out.mean += distance / pairs;
    out.worst = std::max(out.worst, distance);
  }
  return out;
}

// ---- What convicts -------------------------------------------------------------------------------------------

// The audit of a long text.
specdec::testing::DraftAuditReport audit(const Mistake& mistake) {
  std::mt19937_64 rng{5};
  const Model target = Model::random(10, 2, rng), small = Model::random(10, 2, rng);
  specdec::testing::AuditedDrafter drafter{Drafting{small, mistake}};
  specdec::SpecDec decoder{Model(target), drafter, specdec::TokenVerifier{}};
  decoder.generate(opening, {.max_new_tokens = 5'000, .gamma = 2}, rng);
  return drafter.report();
}

// The law that an engine's text is held to, and its draft model: rows over 200 tokens that depend on the last three, so that
// they hardly ever repeat.
constexpr Index words = 200;
Row hashed_row(const std::vector<Token>& text, double noise) {
  std::uint64_t last = 1;
  for (std::size_t i = text.size() - std::min<std::size_t>(text.size(), 3); i < text.size(); ++i)
    last = specdec::SplitMix64(last + static_cast<std::uint64_t>(text[i]))();
  specdec::SplitMix64 of_target(last), of_draft(last + 1);
  Row row(words);
  for (double& weight : row) {
    const double logit = 8 * specdec::uniform01(of_target) * specdec::uniform01(of_target);
    weight = std::exp(logit + noise * (specdec::uniform01(of_draft) - 0.5));
  }
  return row / row.sum();
}

// After how many tokens a text with this mistake is convicted: see RunningText.
Index tokens_until_conviction(const std::string& mistake) {
  static const TextModels models{.target = [](const auto& text) { return hashed_row(text, 0); },
                                 .draft = [](const auto& text) { return hashed_row(text, 4); },
                                 .vocab_size = words,
                                 .opening = opening};
  static const std::vector<NamedEngine> engines = engines_with_mistakes(models);
  const auto found = std::ranges::find(engines, mistake, &NamedEngine::mistake);
  return RunningText(models, found->engine).tokens_until_conviction(10'000);
}

// A model with these rows.
class Words {
 public:
  explicit Words(double noise) : noise_(noise) {}
  Index vocab_size() const { return words; }
  const Matrix& forward(std::span<const Token> tokens, Index rows) {
    rows_.resize(rows, words);
    for (Index i = rows - std::ssize(tokens); const Token x : tokens) {
      text_.push_back(x);
      if (i >= 0) rows_.row(i) = hashed_row(text_, noise_);
      ++i;
    }
    return rows_;
  }
  void truncate(Index length) { text_.resize(static_cast<std::size_t>(length)); }

 private:
  double noise_;
  std::vector<Token> text_ = {};
  Matrix rows_ = {};
};

// After how many tokens a text is convicted whose drafts have two such siblings, and a token after each; 0: not at all.
Index tokens_until_conviction_of(auto siblings, auto rule, double noise = 4) {
  std::mt19937_64 rng{11};
  specdec::SpecDec decoder{specdec::PathByPath{Words(0)},
                           specdec::ModelDrafter{specdec::PathByPath{Words(noise)},
                                                 specdec::Tree{specdec::TreeShape{-1, -1, 0, 1}, siblings}},
                           rule};
  std::vector<Token> text = opening;
  specdec::testing::TextAudit audit;
  for (const Token x : decoder.generate(opening, {.max_new_tokens = 10'000, .gamma = 4}, rng).tokens) {
    audit.add(Matrix(hashed_row(text, 0)), x, Matrix(hashed_row(text, noise)));
    text.push_back(x);
    if (audit.convicts(1e-4)) return audit.tokens();
  }
  return 0;
}

// Row for row of 32 000 tokens. The law is the one of laws_on_flat_rows().
Index tokens_on_flat_rows() {
  std::mt19937_64 rng{1};
  const auto flat = [&rng] {
    Matrix row(1, 32'000);
    for (double& weight : row.reshaped()) weight = 0.5 + specdec::uniform01(rng);
    return Matrix(row / row.sum());
  };
  const Matrix p = flat(), q = flat();
  specdec::testing::TextAudit audit;
  specdec::RandomChance chance(rng);
  for (SmoothedRatio rule; audit.tokens() < 10'000 && !audit.convicts(1e-4);) {
    const Token x = chance.draw(specdec::distributions(q).row(0));
    const Verdict verdict = specdec::verify(rule, p.replicate(2, 1).eval(), q, std::vector<Token>{x}, rng);
    audit.add(p, verdict.accepted == 1 ? x : verdict.token, q);
  }
  return audit.convicts(1e-4) ? audit.tokens() : 0;
}

// A mistake of statistics, which leaves the text right: what was cut after the end of a text counts as rejected. Here the draft
// is always right, and each token ends the text with probability 0.3. Returns how often the tokens 1, 2, 3 of a draft are
// "accepted".
std::vector<double> acceptance_that_counts_the_end() {
  std::mt19937_64 rng{1};
  const Row row = (Row(3) << 0.3, 0.4, 0.3).finished();
  specdec::SpecDec decoder{Model::context_free(row), specdec::ModelDrafter{Model::context_free(row)}};
  std::vector<double> accepted(3), drafts(3);
  for (int text = 0; text < 10'000; ++text) {
    auto sequence = decoder.start(opening, {.max_new_tokens = 100, .gamma = 3, .stop_tokens = {0}});
    while (!sequence.done()) {
      const std::size_t emitted = sequence.step(rng).size();
      for (std::size_t i = 0; i < 3; ++i) {
        ++drafts[i];
        accepted[i] += emitted > i ? 1 : 0;
      }
    }
  }
  for (std::size_t i = 0; i < 3; ++i) accepted[i] /= drafts[i];
  return accepted;
}

// Two texts of a seed: one is preempted while a draft is being judged. Empty if they are equal.
std::string texts_of_seed() {
  std::mt19937_64 rng{1};
  const Model target = Model::random(3, 2, rng), draft = Model::random(3, 2, rng);
  specdec::SpecDec decoder{Model(target), specdec::ModelDrafter{Model(draft)}};
  const specdec::Options options{.max_new_tokens = 8, .gamma = 2};
  std::mt19937_64 numbers{1}, same{1};
  const std::vector<Token> text = decoder.generate(opening, options, numbers).tokens,
                           preempted = preempted_text(decoder, options, same, true);
  if (text == preempted) return {};
  return printed("seed 1 writes ", specdec::testing::to_string(text), ", and ",
                 specdec::testing::to_string(preempted), " if it is preempted");
}

// What is thrown; empty if nothing is.
std::string thrown_by(const auto& run) {
  try {
    static_cast<void>(run());
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

struct Table {
  std::string words = {};
  int convicted = 0;

  // `says` is what is printed at the conviction; empty if there is none. `tokens`: see RunningText; -1 if each token is drawn
  // right, or there is no text.
  void row(const std::string& mistake, const Bias& found, Index tokens, const std::string& by,
           const std::string& says) {
    const auto shown = [](double x) { return std::isnan(x) ? "-" : printed(std::setprecision(2), x); };
    std::cout << std::left << std::setw(44) << mistake << std::setw(9) << shown(found.mean) << std::setw(9)
              << shown(found.worst) << std::setw(9)
              << (tokens > 0    ? printed(tokens)
                  : tokens == 0 ? "never"
                                : "-")
              << (says.empty() ? "nothing" : by) << "\n";
    if (says.empty()) return;
    words += printed(mistake, ": ", says, "\n");
    ++convicted;
  }

  Bias rule(const std::string& mistake, auto rule) {
    const Bias found =
        bias([&](const auto& target, const auto& draft) { return laws_of_rule(target, draft, rule); });
    row(mistake, found, tokens_until_conviction(mistake), "check_lossless",
        specdec::testing::check_lossless(rule).counterexample);
    return found;
  }

  void drafter(const std::string& mistake, const Mistake& drafting) {
    const Bias found = bias([&](const auto& target, const auto& draft) {
      return laws_of_drafter(target, draft, drafting, specdec::TokenVerifier{});
    });
    const auto report = audit(drafting);
    row(mistake, found, tokens_until_conviction(mistake), "DraftAudit",
        report.convicted() ? printed(report.fault) : "");
  }
};

int main() {
  std::cout << "mistake                                     mean     worst    tokens   convicted by\n";
  Table table;
  table.drafter("no mistake", honest);
  table.drafter("raw q beside a processed draw", raw_q);
  table.drafter("a drawn token dropped for its probability", DropsUnlikely{});
  table.drafter("a sampler reseeded before each draft", Reseeded{});
  table.drafter("q from the row of another request", NeighboursRow{});
  table.rule("noise shared by draft and replacement", SharedNoise{});
  table.rule("one number for coin and replacement", OneNumber{});
  table.rule("u is always 0", UniformIsZero{});
  const Bias uncapped = table.rule("the acceptance product is not capped", UncappedProduct{});
  table.rule("p/(q + 1e-5)", SmoothedRatio{});
  const double flat = total_variation(laws_on_flat_rows());
  const Index flat_tokens = tokens_on_flat_rows();
  table.row("p/(q + 1e-5), flat rows of 32 000 tokens", {flat, flat}, flat_tokens, "TextAudit",
            printed("10^4 after ", flat_tokens, " tokens"));
  table.rule("the replacement from the next row", NextRow{});
  table.rule("a residual without its last tile", MissesLastTile{.tile = 2});
  table.rule("a miss is judged greedily", GreedyAtMiss{});
  const std::string negative = "branches with negative probabilities";
  const Bias run = bias([](const auto& target, const auto& draft) {
    return laws_of_rule(target, draft, ReplacementFromTarget{});
  });
  table.row(negative, run, tokens_until_conviction(negative), "check_lossless",
            thrown_by([] { return specdec::testing::check_lossless(NegativeBranches{}); }));
  table.rule("the bonus token from the draft's row", BonusFromDraft{});
  table.rule("lists subtracted by index", SubtractsByIndex{});
  table.rule("relaxed acceptance", RelaxedAcceptance{});
  table.rule("a preempted rule forgets", ForgetsAtPreemption{});

  // The library refuses these before a rule judges them.
  const Bias impossible = bias([](const auto& target, const auto& draft) {
    return laws_of_drafter(target, draft, cut_q, AcceptsImpossible{});
  });
  table.row("q = 0 is accepted", impossible, tokens_until_conviction("q = 0 is accepted"), "an exception",
            thrown_by([] { return audit(cut_q); }));
  const Bias padding = bias([](const auto& target, const auto& draft) {
    return laws_of_drafter(target, draft, padded_with_last, specdec::TokenVerifier{});
  });
  table.row("-1 padding is verified", padding, tokens_until_conviction("-1 padding is verified"),
            "an exception", thrown_by([] { return audit(padded); }));
  const double nan = std::numeric_limits<double>::quiet_NaN();  // such a target has no law
  table.row("NaN becomes a token", {nan, nan}, -1, "an exception", thrown_by(judged_without_numbers));

  const auto exactly = [&](const std::string& mistake, const Bias& found, Index tokens) {
    table.row(mistake, found, tokens, "exact_generate", found.example);
  };
  const auto engine = [&](const std::string& mistake, auto laws_of) {
    exactly(mistake, bias(laws_of), tokens_until_conviction(mistake));
  };
  engine("rows cut, and not normalised", laws_of_cut_rows);
  engine("a rejected token stays in the cache", laws_of_stale_cache);
  engine("penalties forget the draft", laws_with_penalty);
  engine("a preempted generator starts again", laws_of_restarted_generator);
  const Bias lost_draft = bias([](const auto& target, const auto& draft) {
    return laws_of_preempted_text(target, draft, short_text, true);
  });
  table.row("a preemption uses up random numbers", lost_draft, -1, "texts of a seed", texts_of_seed());
  exactly("a preemption hides a stop string", bias([](const auto& target, const auto& draft) {
            return laws_of_preempted_text(target, draft, stops_after_ab(), false);
          }),
          -1);
  exactly("tokens after the end are kept", bias(laws_past_the_end), -1);
  exactly("a drafted end is not judged", bias([](const auto& target, const auto& draft) {
            return laws_of_drafter(target, draft, without_end, specdec::BlockVerifier{}, text_with_end);
          }),
          -1);
  exactly("a rejected dead end fails the request", bias(laws_of_dead_ends), -1);
  const specdec::TraversalVerifier traversal;
  const auto of_siblings = [](auto siblings, auto rule) {
    return bias([=](const auto& target, const auto& draft) {
      return laws_of_siblings(target, draft, siblings, rule);
    });
  };
  exactly("a spare before the drawn token", of_siblings(SpareBeforeDrawn{}, traversal),
          tokens_until_conviction_of(SpareBeforeDrawn{}, traversal));
  const Bias drawn_first = of_siblings(specdec::DrawnThenLikeliest{}, traversal),
             drawn_last = of_siblings(LikeliestThenDrawn{}, traversal);
  exactly("the drawn sibling is judged last", drawn_last,
          tokens_until_conviction_of(LikeliestThenDrawn{}, traversal));
  const specdec::Independent independent;
  const auto several = [&](const std::string& mistake, const Bias& found, Index tokens, auto rule) {
    table.row(mistake, found, tokens, "check_lossless",
              specdec::testing::check_lossless(rule, of_pairs()).counterexample);
  };
  // Everything ties where the draft model is the target.
  const SelectedBy<TiesByDraw> ties;
  several("several lines: ties go to the first drawn", bias([&](const Model& target, const Model&) {
            return laws_of_siblings(target, target, independent, ties);
          }),
          tokens_until_conviction_of(independent, ties, 0), ties);
  const auto usual = [&](const std::string& mistake, auto rule) {
    several(mistake, of_siblings(independent, rule), tokens_until_conviction_of(independent, rule), rule);
  };
  usual("several lines: ratios cut to 1", SelectedBy<ClippedRatios>{});
  usual("several lines: a residual of powers", ResidualOfPowers{});

  const Bias block = bias([](const auto& target, const auto& draft) {
    return laws_of_rule(target, draft, specdec::BlockVerifier{});
  });
  std::cout << "\n"
            << table.words << "\nThe product that is not capped accepts " << std::setprecision(2)
            << 100 * (uncapped.accepted / block.accepted - 1)
            << " % more drafted tokens than block verification.\n"
            << "Two siblings of which the drawn one is judged last are accepted "
            << 100 * (1 - drawn_last.accepted / drawn_first.accepted)
            << " % less often than with the drawn one first.\n"
            << "Of a draft that is always right, statistics that count the end as a rejection accept";
  for (const double share : acceptance_that_counts_the_end()) std::cout << " " << share;
  std::cout << ".\n";
  return table.convicted == 34 ? 0 : 1;
}
