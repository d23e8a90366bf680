// Mistakes that engines have shipped: how far each bends the law of the text, exactly, and what convicts it.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <exception>
#include <functional>
#include <iomanip>
#include <iostream>
#include <limits>
#include <optional>
#include <random>
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
std::optional<Token> drops_unlikely(Row& row, Index /*i*/, const Draw& draw) {
  const double p_min = 0.3;
  const Token x = draw(row);
  return row[x] < p_min ? std::nullopt : std::optional<Token>(x);
}

// Starts from its seed again before each draft: the i-th token of every draft is drawn with one number.
struct Reseeded {
  std::vector<Uniform> numbers = std::vector<Uniform>(2);
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

  // `says` is what is printed at the conviction; empty if there is none.
  void row(const std::string& mistake, const Bias& found, const std::string& by, const std::string& says) {
    const auto shown = [](double x) { return std::isnan(x) ? "-" : printed(std::setprecision(2), x); };
    std::cout << std::left << std::setw(44) << mistake << std::setw(9) << shown(found.mean) << std::setw(9)
              << shown(found.worst) << (says.empty() ? "nothing" : by) << "\n";
    if (says.empty()) return;
    words += printed(mistake, ": ", says, "\n");
    ++convicted;
  }

  Bias rule(const std::string& mistake, auto rule) {
    const Bias found =
        bias([&](const auto& target, const auto& draft) { return laws_of_rule(target, draft, rule); });
    row(mistake, found, "check_lossless", specdec::testing::check_lossless(rule).counterexample);
    return found;
  }

  void drafter(const std::string& mistake, const Mistake& drafting) {
    const Bias found = bias([&](const auto& target, const auto& draft) {
      return laws_of_drafter(target, draft, drafting, specdec::TokenVerifier{});
    });
    const auto report = audit(drafting);
    row(mistake, found, "DraftAudit", report.convicted() ? printed(report.fault) : "");
  }
};

int main() {
  std::cout << "mistake                                     mean     worst    convicted by\n";
  Table table;
  table.drafter("no mistake", honest);
  table.drafter("raw q beside a processed draw", raw_q);
  table.drafter("a drawn token dropped for its probability", drops_unlikely);
  table.drafter("a sampler reseeded before each draft", Reseeded{});
  table.rule("noise shared by draft and replacement", SharedNoise{});
  table.rule("u is always 0", UniformIsZero{});
  const Bias uncapped = table.rule("the acceptance product is not capped", UncappedProduct{});
  table.rule("p/(q + 1e-5)", SmoothedRatio{});
  const double flat = total_variation(laws_on_flat_rows());
  table.row("p/(q + 1e-5), flat rows of 32 000 tokens", {flat, flat}, "check_lossless", "see above");
  table.rule("the replacement from the next row", NextRow{});
  table.rule("the bonus token from the draft's row", BonusFromDraft{});
  table.rule("lists subtracted by index", SubtractsByIndex{});

  // The library refuses these before a rule judges them.
  const Bias impossible = bias([](const auto& target, const auto& draft) {
    return laws_of_drafter(target, draft, cut_q, AcceptsImpossible{});
  });
  table.row("q = 0 is accepted", impossible, "an exception", thrown_by([] { return audit(cut_q); }));
  const Bias padding = bias([](const auto& target, const auto& draft) {
    return laws_of_drafter(target, draft, padded_with_last, specdec::TokenVerifier{});
  });
  table.row("-1 padding is verified", padding, "an exception", thrown_by([] { return audit(padded); }));
  const double nan = std::numeric_limits<double>::quiet_NaN();  // such a target has no law
  table.row("NaN becomes a token", {nan, nan}, "an exception", thrown_by(judged_without_numbers));

  const Bias penalty = bias(laws_with_penalty), past_the_end = bias(laws_past_the_end);
  table.row("penalties forget the draft", penalty, "exact_generate", penalty.example);
  table.row("tokens after the end are kept", past_the_end, "exact_generate", past_the_end.example);

  const Bias block = bias([](const auto& target, const auto& draft) {
    return laws_of_rule(target, draft, specdec::BlockVerifier{});
  });
  std::cout << "\n"
            << table.words << "\nThe product that is not capped accepts " << std::setprecision(2)
            << 100 * (uncapped.accepted / block.accepted - 1)
            << " % more drafted tokens than block verification.\n";
  return table.convicted == 16 ? 0 : 1;
}
