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
#include <set>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using specdec::Index, specdec::Token, specdec::Verdict;
using Model = specdec::testing::TableModel<>;
using specdec::testing::Law;
using Row = Eigen::RowVectorXd;

// The texts of the proofs: a few tokens, written in two steps or more.
const std::vector<Token> opening{0};
const specdec::Options short_text{.max_new_tokens = 4, .gamma = 2};

// What the arguments print.
std::string printed(const auto&... what) {
  std::ostringstream text;
  (text << ... << what);
  return text.str();
}

// Draws a token from a row.
using Draw = std::function<Token(const Row&)>;
Draw draw_by(auto& chance) {
  return [&](const Row& row) { return chance.draw(specdec::distributions(row).row(0)); };
}

// ---- Mistakes of rules: each is token verification, but for one thing ----------------------------------------

// Accepts while u < p/q, with a u that is always 0.
struct UniformIsZero {
  Verdict judge(const auto& drafted, auto& chance) const {
    const double u = 0;
    for (Index i = 0; i < drafted.gamma(); ++i)
      if (!(u < drafted.ratio(i))) return {i, *drafted.race(chance, 1.0, i)};
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// Adds a small number to q, so that nothing is divided by 0.
struct SmoothedRatio {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i)
      if (!chance.coin(drafted.p(i) / (drafted.q(i) + 1e-5))) return {i, *drafted.race(chance, 1.0, i)};
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// Draws the replacement of token i from target row i + 1.
struct NextRow {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i)
      if (!chance.coin(drafted.ratio(i)))
        return {i, *chance.race(1.0, drafted.target(i + 1), drafted.draft(i))};
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// Draws the bonus token from the last row of the draft.
struct BonusFromDraft {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i)
      if (!chance.coin(drafted.ratio(i))) return {i, *drafted.race(chance, 1.0, i)};
    if (drafted.gamma() == 0) return {0, drafted.draw(chance, 0)};
    return {drafted.gamma(), chance.draw(drafted.draft(drafted.gamma() - 1))};
  }
};

// Block verification with w = Π p/q in place of min(1, Π p/q).
struct UncappedProduct {
  Verdict judge(const auto& drafted, auto& chance) const {
    std::vector<double> w{1};
    for (Index i = 0; i < drafted.gamma(); ++i) w.push_back(w.back() * drafted.ratio(i));
    for (Index i = drafted.gamma();; --i)
      if (const auto y = drafted.race(chance, w[static_cast<std::size_t>(i)], i)) return {i, *y};
  }
};

// Rows are lists of the possible tokens. Subtracts entry k of the draft's list from entry k of the target's list.
struct SubtractsByIndex {
  static std::vector<Token> list(const auto& row) {
    std::vector<Token> ids;
    for (Token x = 0; x < row.vocab_size(); ++x)
      if (row.probability(x) > 0) ids.push_back(x);
    return ids;
  }
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i) {
      if (chance.coin(drafted.ratio(i))) continue;
      const auto p = drafted.target(i), q = drafted.draft(i);
      const std::vector<Token> ps = list(p), qs = list(q);
      Row residual = Row::Zero(drafted.vocab_size());
      for (std::size_t k = 0; k < ps.size(); ++k)
        residual[ps[k]] = std::max(0.0, p.probability(ps[k]) - (k < qs.size() ? q.probability(qs[k]) : 0.0));
      if (!(residual.sum() > 0)) return {i, drafted.draw(chance, i)};
      return {i, draw_by(chance)(residual / residual.sum())};
    }
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// Accepts a token with q = 0. The rule says that it needs no q: else the library refuses the draft.
struct AcceptsImpossible {
  static constexpr bool needs_draft = false;
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i) {
      const double q = drafted.draft(i).probability(drafted.token(i));
      if (q > 0 && !chance.coin(drafted.p(i) / q)) return {i, *drafted.race(chance, 1.0, i)};
    }
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// Cuts the target's row (top-p, top-k, min-p), and does not normalise it again. Accepts by what is left.
struct CutNotNormalised {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i) {
      const Row p = cut_only(drafted.target(i));
      if (chance.coin(std::min(1.0, p[drafted.token(i)] / drafted.q(i)))) continue;
      Row residual = p;
      for (Token x = 0; x < p.size(); ++x)
        residual[x] = std::max(0.0, p[x] - drafted.draft(i).probability(x));
      if (!(residual.sum() > 0)) residual = p;
      return {i, draw_by(chance)(residual / residual.sum())};
    }
    const Row p = cut_only(drafted.target(drafted.gamma()));
    return {drafted.gamma(), draw_by(chance)(p / p.sum())};
  }

  // The row without the tokens that are less than half as likely as the likeliest.
  static Row cut_only(const auto& row) {
    Row p(row.vocab_size());
    for (Token x = 0; x < p.size(); ++x) p[x] = row.probability(x);
    return (p.array() >= 0.5 * p.maxCoeff()).select(p, 0.0);
  }
};

// Accepts a drafted token if its logit is within 1 of the largest one.
struct RelaxedAcceptance {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i) {
      double largest = 0;
      for (Token x = 0; x < drafted.vocab_size(); ++x)
        largest = std::max(largest, drafted.target(i).probability(x));
      if (drafted.p(i) >= std::exp(-1.0) * largest) continue;
      if (!chance.coin(drafted.ratio(i))) return {i, *drafted.race(chance, 1.0, i)};
    }
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// Greedy block verification of a request that is preempted after each step, and taken up by a new rule.
struct ForgetsAtPreemption {
  Verdict judge(const auto& drafted, auto& chance) const {
    specdec::GreedyBlockVerifier fresh;
    return fresh.judge(drafted, chance);
  }
};

// A uniform random number. So far it is known that it lies between `from` and `to`.
struct Uniform {
  double from = 0, to = 1;

  // The token where the cumulative sum of the row passes the number. After it, more is known of the number.
  Token invert(const auto& row, const Draw& draw) {
    std::vector<Uniform> parts;
    Row shares(row.vocab_size());
    double sum = 0;
    for (Token x = 0; x < shares.size(); ++x) {
      const double before = sum;
      sum += row.probability(x);
      parts.push_back({std::max(from, before), std::min(to, sum)});
      shares[x] = std::max(0.0, parts.back().to - parts.back().from) / (to - from);
    }
    const Token x = draw(shares);
    *this = parts[static_cast<std::size_t>(x)];
    return x;
  }
};

// Draws the replacement with the random number that the draft was drawn with.
struct SharedNoise {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i) {
      if (chance.coin(drafted.ratio(i))) continue;
      double before = 0;
      for (Token x = 0; x < drafted.token(i); ++x) before += drafted.draft(i).probability(x);
      Uniform number{before, before + drafted.q(i)};  // it led to the drafted token
      const specdec::ResidualRow residual(1.0, drafted.target(i), 1.0, drafted.draft(i));
      return {i, number.invert(residual, draw_by(chance))};
    }
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// Draws the replacement with the random number that the coin was tossed with.
struct OneNumber {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i) {
      const double accepts = std::min(1.0, drafted.ratio(i));
      if (chance.coin(accepts)) continue;
      Uniform number{accepts, 1};
      const specdec::ResidualRow residual(1.0, drafted.target(i), 1.0, drafted.draft(i));
      return {i, number.invert(residual, draw_by(chance))};
    }
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// ---- Mistakes of drafters ------------------------------------------------------------------------------------

// Gets the draft model's row for token i. Returns the token, or nothing to end the draft. The row as it is left is
// reported as q.
using Mistake = std::function<std::optional<Token>(Row& row, Index i, const Draw& draw)>;

// The row without the tokens that are less than half as likely as the likeliest.
Row cut(const Row& row) {
  const Row kept = (row.array() >= 0.5 * row.maxCoeff()).select(row, 0.0);
  return kept / kept.sum();
}

// No mistake: draws from the row that is reported.
std::optional<Token> honest(Row& row, Index /*i*/, const Draw& draw) { return draw(row); }

// Draws from the row that is cut, and reports the row that is not.
std::optional<Token> raw_q(Row& row, Index /*i*/, const Draw& draw) { return draw(cut(row)); }

// Draws from the row that is not cut, and reports the row that is.
std::optional<Token> cut_q(Row& row, Index /*i*/, const Draw& draw) {
  const Token x = draw(row);
  row = cut(row);
  return x;
}

// Draws a token, and drops it if its probability is below p_min.
struct DropsUnlikely {
  double p_min = 0.3;
  std::optional<Token> operator()(Row& row, Index /*i*/, const Draw& draw) const {
    const Token x = draw(row);
    return row[x] < p_min ? std::nullopt : std::optional<Token>(x);
  }
};

// Starts from its seed again before each draft: the i-th token of every draft is drawn with one number.
struct Reseeded {
  std::vector<Uniform> numbers = std::vector<Uniform>(4);
  std::optional<Token> operator()(Row& row, Index i, const Draw& draw) {
    return numbers[static_cast<std::size_t>(i)].invert(specdec::distributions(row).row(0), draw);
  }
};

// Drafts one token, and fills the draft up with -1.
std::optional<Token> padded(Row& row, Index i, const Draw& draw) { return i == 0 ? draw(row) : Token{-1}; }

// Where row[-1] is the last number of the row, -1 is verified as the last token.
std::optional<Token> padded_with_last(Row& row, Index i, const Draw& draw) {
  if (i == 0) return draw(row);
  const auto last = static_cast<Token>(row.size() - 1);
  return row[last] > 0 ? std::optional<Token>(last) : std::nullopt;
}

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

// ---- Mistakes of engines -------------------------------------------------------------------------------------

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

// A drafter with an honest rule, or nearly so.
Laws laws_of_drafter(Model target, const Model& draft, const Mistake& mistake, auto rule) {
  Law law;
  specdec::testing::enumerate([&](auto& chance) {
    Drafting drafter{draft, mistake};  // a new one for each text, since it may remember
    specdec::SpecDec decoder{target, drafter, rule};
    const specdec::Result result = decoder.generate(opening, short_text, chance);
    law[result.tokens] += chance.probability();
  });
  return {law, specdec::testing::target_law(target, opening, short_text)};
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
  const specdec::Options ends{.max_new_tokens = 4, .gamma = 2, .stop_tokens = {0}};
  return {law_past_the_end(target, std::move(draft)), specdec::testing::target_law(target, opening, ends)};
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
Row target_row(const std::vector<Token>& text) { return hashed_row(text, 0); }
Row draft_row(const std::vector<Token>& text) { return hashed_row(text, 4); }

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// An engine over these rows, with a mistake in its rule, its drafter, or in the target's rows that it sees.
struct Engine {
  using Judge = std::function<Verdict(const Matrix& target, const Matrix& draft,
                                      const std::vector<Token>& tokens, std::mt19937_64& rng)>;
  // The target's row after the text and `drafted` tokens of the draft. `rejected` is the last rejected token, or -1.
  using Sees =
      std::function<Row(const std::vector<Token>& text, const std::vector<Token>& drafted, Token rejected)>;
  using RowAfter = std::function<Row(const std::vector<Token>& text)>;

  Judge judge;
  Mistake drafting = honest;
  RowAfter law = target_row;  // what it should draw from
  Sees sees = {};             // where that is not what it does

  // After how many tokens the text is convicted by 10^4; 0 if it is not, within 10 000.
  Index tokens_until_conviction() const {
    std::mt19937_64 rng{11};
    specdec::testing::TextAudit audit;
    std::vector<Token> text = opening;
    Mistake draws = drafting;  // it may remember
    Token rejected = -1;
    while (audit.tokens() < 10'000) {
      const auto [emitted, lost] = step(text, draws, rejected, rng);
      rejected = lost;
      for (const Token x : emitted) {
        audit.add(law(text), x, draft_row(text));
        text.push_back(x);
        if (audit.convicts(1e-4)) return audit.tokens();
      }
    }
    return 0;
  }

 private:
  // The tokens of a step, and the rejected token.
  std::pair<std::vector<Token>, Token> step(const std::vector<Token>& text, Mistake& draws, Token rejected,
                                            std::mt19937_64& rng) const {
    constexpr Index gamma = 4;
    specdec::RandomChance chance(rng);
    Matrix target(gamma + 1, words), draft(gamma, words);
    std::vector<Token> tokens, whole = text;
    target.row(0) = row_seen(text, tokens, whole, rejected);
    while (std::ssize(tokens) < gamma) {
      Row row = draft_row(whole);
      const std::optional<Token> x = draws(row, std::ssize(tokens), draw_by(chance));
      if (!x) break;
      draft.row(std::ssize(tokens)) = row;
      tokens.push_back(*x);
      whole.push_back(*x);
      target.row(std::ssize(tokens)) = row_seen(text, tokens, whole, rejected);
    }
    const Index drafted = std::ssize(tokens);
    const Verdict verdict = judge(target.topRows(drafted + 1), draft.topRows(drafted), tokens, rng);
    const Token lost = verdict.accepted < drafted ? tokens[static_cast<std::size_t>(verdict.accepted)] : -1;
    tokens.resize(static_cast<std::size_t>(verdict.accepted));
    tokens.push_back(verdict.token);
    return {tokens, lost};
  }
  Row row_seen(const std::vector<Token>& text, const std::vector<Token>& drafted,
               const std::vector<Token>& whole, Token rejected) const {
    return sees ? sees(text, drafted, rejected) : law(whole);
  }
};

Engine::Judge judged_by(auto rule) {
  return [rule](const Matrix& target, const Matrix& draft, const std::vector<Token>& tokens,
                std::mt19937_64& rng) mutable { return specdec::verify(rule, target, draft, tokens, rng); };
}

// A target that likes to repeat its last three tokens, with a penalty on the last ten of `counted`.
Row penalised(const std::vector<Token>& text, std::span<const Token> counted) {
  Row row = target_row(text);
  for (const Token x :
       std::set<Token>(text.end() - std::min<std::ptrdiff_t>(std::ssize(text), 3), text.end()))
    row[x] *= 5;
  for (const Token x :
       std::set<Token>(counted.end() - std::min<std::ptrdiff_t>(std::ssize(counted), 10), counted.end()))
    row[x] *= 0.5;
  return row / row.sum();
}

// Rows with few tokens each, for a mistake of lists. The draft is drawn from rows that are cut, too.
Engine listing_engine() {
  return {.judge = judged_by(SubtractsByIndex{}),
          .drafting = [](Row& row, Index, const Draw& draw) -> std::optional<Token> {
            row = cut(row);
            return draw(row);
          },
          .law = [](const auto& text) { return cut(target_row(text)); }};
}

Engine cutting_engine() {
  return {.judge = judged_by(CutNotNormalised{}),
          .law = [](const auto& text) { return cut(target_row(text)); },
          .sees =
              [](auto text, const auto& drafted, Token) {
                text.insert(text.end(), drafted.begin(), drafted.end());
                return target_row(text);
              }};
}
Engine forgetting_engine() {
  return {.judge = judged_by(specdec::TokenVerifier{}),
          .law = [](const auto& text) { return penalised(text, text); },
          .sees =
              [](const auto& text, const auto& drafted, Token) {
                std::vector<Token> whole = text;
                whole.insert(whole.end(), drafted.begin(), drafted.end());
                return penalised(whole, text);
              }};
}
Engine stale_engine() {
  return {.judge = judged_by(specdec::TokenVerifier{}),
          .sees = [](auto text, const auto& drafted, Token rejected) {
            if (rejected >= 0) text.insert(text.end() - 1, rejected);
            text.insert(text.end(), drafted.begin(), drafted.end());
            return target_row(text);
          }};
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

  // `says` is what is printed at the conviction; empty if there is none. `tokens`: see Engine; -1 if there is no text.
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

  // `in_text`: an engine for the text, if it needs other rows.
  Bias rule(const std::string& mistake, auto rule, const Engine& in_text = {}) {
    const Bias found =
        bias([&](const auto& target, const auto& draft) { return laws_of_rule(target, draft, rule); });
    row(mistake, found,
        (in_text.judge ? in_text : Engine{.judge = judged_by(rule)}).tokens_until_conviction(),
        "check_lossless", specdec::testing::check_lossless(rule).counterexample);
    return found;
  }

  // `in_text`: the mistake in a text over a large vocabulary, if that is another.
  void drafter(const std::string& mistake, const Mistake& drafting, const Mistake& in_text = {}) {
    const Bias found = bias([&](const auto& target, const auto& draft) {
      return laws_of_drafter(target, draft, drafting, specdec::TokenVerifier{});
    });
    const auto report = audit(drafting);
    const Engine engine{.judge = judged_by(specdec::TokenVerifier{}),
                        .drafting = in_text ? in_text : drafting};
    row(mistake, found, engine.tokens_until_conviction(), "DraftAudit",
        report.convicted() ? printed(report.fault) : "");
  }
};

int main() {
  std::cout << "mistake                                     mean     worst    tokens   convicted by\n";
  Table table;
  table.drafter("no mistake", honest);
  table.drafter("raw q beside a processed draw", raw_q);
  table.drafter("a drawn token dropped for its probability", DropsUnlikely{}, DropsUnlikely{0.01});
  table.drafter("a sampler reseeded before each draft", Reseeded{});
  table.rule("noise shared by draft and replacement", SharedNoise{});
  table.rule("one number for coin and replacement", OneNumber{});
  table.rule("u is always 0", UniformIsZero{});
  const Bias uncapped = table.rule("the acceptance product is not capped", UncappedProduct{});
  table.rule("p/(q + 1e-5)", SmoothedRatio{});
  const double flat = total_variation(laws_on_flat_rows());
  table.row("p/(q + 1e-5), flat rows of 32 000 tokens", {flat, flat}, tokens_on_flat_rows(), "check_lossless",
            "see above");
  table.rule("the replacement from the next row", NextRow{});
  table.rule("the bonus token from the draft's row", BonusFromDraft{});
  table.rule("lists subtracted by index", SubtractsByIndex{}, listing_engine());
  table.rule("relaxed acceptance", RelaxedAcceptance{});
  table.rule("a preempted rule forgets", ForgetsAtPreemption{});

  // The library refuses these before a rule judges them.
  const Bias impossible = bias([](const auto& target, const auto& draft) {
    return laws_of_drafter(target, draft, cut_q, AcceptsImpossible{});
  });
  const Engine accepting{.judge = judged_by(AcceptsImpossible{}), .drafting = cut_q};
  table.row("q = 0 is accepted", impossible, accepting.tokens_until_conviction(), "an exception",
            thrown_by([] { return audit(cut_q); }));
  const Bias padding = bias([](const auto& target, const auto& draft) {
    return laws_of_drafter(target, draft, padded_with_last, specdec::TokenVerifier{});
  });
  const Engine padded_engine{.judge = judged_by(specdec::TokenVerifier{}), .drafting = padded_with_last};
  table.row("-1 padding is verified", padding, padded_engine.tokens_until_conviction(), "an exception",
            thrown_by([] { return audit(padded); }));
  const double nan = std::numeric_limits<double>::quiet_NaN();  // such a target has no law
  table.row("NaN becomes a token", {nan, nan}, -1, "an exception", thrown_by(judged_without_numbers));

  const Bias penalty = bias(laws_with_penalty), past_the_end = bias(laws_past_the_end);
  const Bias cut_rows = bias(laws_of_cut_rows), stale = bias(laws_of_stale_cache);
  const auto engine = [&](const std::string& mistake, const Bias& found, Index tokens) {
    table.row(mistake, found, tokens, "exact_generate", found.example);
  };
  engine("rows cut, and not normalised", cut_rows, cutting_engine().tokens_until_conviction());
  engine("a rejected token stays in the cache", stale, stale_engine().tokens_until_conviction());
  engine("penalties forget the draft", penalty, forgetting_engine().tokens_until_conviction());
  engine("tokens after the end are kept", past_the_end, -1);

  const Bias block = bias([](const auto& target, const auto& draft) {
    return laws_of_rule(target, draft, specdec::BlockVerifier{});
  });
  std::cout << "\n"
            << table.words << "\nThe product that is not capped accepts " << std::setprecision(2)
            << 100 * (uncapped.accepted / block.accepted - 1)
            << " % more drafted tokens than block verification.\n"
            << "Of a draft that is always right, statistics that count the end as a rejection accept";
  for (const double share : acceptance_that_counts_the_end()) std::cout << " " << share;
  std::cout << ".\n";
  return table.convicted == 21 ? 0 : 1;
}
