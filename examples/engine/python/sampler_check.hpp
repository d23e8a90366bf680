// Holds a sampler to the exact law: any sampler, since it is only called.
//
// A sampler gets target rows, draft rows and drafted tokens, and says how many tokens it accepts and which token follows
// them. The check drafts honestly from q, asks the sampler, and lets the target alone continue the text to γ + 1 tokens. A
// sampler is lossless if and only if these texts have the target's law (Sun et al., arXiv:2403.10444, Lemma 2). This law is
// known for the small models of sampler_cases.hpp. testing::check_sampled compares it with the texts.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "sampler_cases.hpp"

namespace sampler_check {

using specdec::Verdict;
using specdec::testing::Law;

// The drafts of one call: arrays [drafts, γ + 1, V], [drafts, γ, V] and [drafts, γ].
struct Call {
  Index drafts, gamma, vocab_size;
  std::uint64_t seed;
  std::vector<float> target = {}, draft = {};
  std::vector<std::int64_t> tokens = {};
};

// Judges the drafts of a call.
using Sampler = std::function<std::vector<Verdict>(const Call&)>;
// Draws token i of each draft of a call from `rows`, an array [drafts, V].
using Draw = std::function<std::vector<std::int64_t>(const Call&, const std::vector<float>& rows, Index i)>;

struct Options {
  Index batch = 1;            // drafts in one call
  Index samples = 20'000;     // texts of each case
  double false_alarm = 1e-6;  // the largest probability that a right sampler is convicted
  std::uint64_t seed = 1;
};

struct Report {
  std::string counterexample = {};  // the first failure, in words; empty if there is none
  Index cases = 0;
  Options options = {};
  bool convicted() const { return !counterexample.empty(); }

  friend std::ostream& operator<<(std::ostream& out, const Report& report) {
    if (report.convicted()) return out << "CONVICTED: " << report.counterexample;
    return out << "acquitted on " << report.cases << " cases of " << report.options.samples
               << " texts each; a right sampler is convicted with probability " << report.options.false_alarm
               << " at most";
  }
};

// A verdict that no right sampler gives.
struct ImpossibleVerdict : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class Error = std::invalid_argument>
[[noreturn]] void complain(const auto&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Error(text.str());
}

// The texts of one case, as many as are asked for.
class Texts {
 public:
  Texts(const Case& models, const Sampler& sampler, const Draw& draw, Index batch, Generator generator)
      : models_(models), sampler_(sampler), draw_(draw), batch_(batch), generator_(generator) {}

  std::vector<Token> next() {
    if (texts_.empty()) ask();
    std::vector<Token> text = std::move(texts_.back());
    texts_.pop_back();
    return text;
  }

 private:
  void ask() {
    // Seeds have 32 bits, which every generator takes.
    Call call{batch_, models_.gamma, models_.target.vocab_size(), generator_() >> 32};
    texts_.assign(static_cast<std::size_t>(batch_), {});
    for (Index i = 0; i < models_.gamma; ++i) append_drafted(call, i);
    lay_out(call);
    const std::vector<Verdict> verdicts = sampler_(call);
    if (std::ssize(verdicts) != batch_)
      complain("specdec: the sampler returned ", verdicts.size(), " verdicts for ", batch_, " drafts");
    for (std::size_t b = 0; b < texts_.size(); ++b) emit(texts_[b], verdicts[b]);
  }

  // Draws token i of every draft.
  void append_drafted(const Call& call, Index i) {
    if (!draw_) {
      for (auto& text : texts_) text.push_back(drawn(models_.draft, text));
      return;
    }
    std::vector<float> rows;
    for (const auto& text : texts_) append_row(rows, models_.draft, text);
    const std::vector<std::int64_t> ids = draw_(call, rows, i);
    if (ids.size() != texts_.size())
      complain("specdec: draw returned ", ids.size(), " tokens for ", texts_.size(), " rows");
    for (std::size_t b = 0; b < ids.size(); ++b) {
      const auto row = models_.draft.distribution(texts_[b]);
      if (ids[b] < 0 || ids[b] >= row.vocab_size() || !(row.probability(static_cast<Token>(ids[b])) > 0))
        complain("specdec: draw returned token ", ids[b], " for draft ", b, ", position ", i,
                 ", where q is 0");
      texts_[b].push_back(static_cast<Token>(ids[b]));
    }
  }

  // The rows after each beginning of each draft.
  void lay_out(Call& call) const {
    for (const auto& text : texts_)
      for (std::size_t i = 0; i <= text.size(); ++i) {
        const auto before = std::span(text).first(i);
        append_row(call.target, models_.target, before);
        if (i == text.size()) break;
        append_row(call.draft, models_.draft, before);
        call.tokens.push_back(text[i]);
      }
  }

  // Makes of the draft the text that is emitted, and lets the target continue it.
  void emit(std::vector<Token>& text, const Verdict& verdict) {
    const Index gamma = models_.gamma, vocab_size = models_.target.vocab_size();
    if (verdict.accepted < 0 || verdict.accepted > gamma)
      complain<ImpossibleVerdict>("the sampler accepted ", verdict.accepted, " of ", gamma, " tokens");
    if (verdict.token < 0 || verdict.token >= vocab_size)
      complain<ImpossibleVerdict>("the sampler returned token ", verdict.token,
                                  ", outside the vocabulary 0..", vocab_size - 1);
    text.resize(static_cast<std::size_t>(verdict.accepted));
    text.push_back(verdict.token);
    while (std::ssize(text) <= gamma) text.push_back(drawn(models_.target, text));
  }

  Token drawn(const Model& model, std::span<const Token> text) {
    return specdec::as_chance(generator_).draw(model.distribution(text));
  }

  static void append_row(std::vector<float>& rows, const Model& model, std::span<const Token> text) {
    const auto row = model.distribution(text);
    for (Token x = 0; x < row.vocab_size(); ++x) rows.push_back(static_cast<float>(row.probability(x)));
  }

  const Case& models_;
  const Sampler& sampler_;
  const Draw& draw_;
  Index batch_;
  Generator generator_;
  std::vector<std::vector<Token>> texts_;
};

// What is wrong with the texts of a case, in words; empty if nothing is.
inline std::string wrong_in(const Case& models, Texts& texts, Index samples, double false_alarm) {
  const Law law = specdec::testing::target_law(models.target, {}, {.max_new_tokens = models.gamma + 1});
  try {
    return specdec::testing::check_sampled([&] { return texts.next(); }, law, samples, false_alarm).worst;
  } catch (const ImpossibleVerdict& verdict) {
    return verdict.what();
  }
}

// Checks all cases, up to the first that convicts. Each has its share of the false alarms (Bonferroni).
// Throws: std::invalid_argument on options that check nothing; what the sampler throws.
inline Report check(const Sampler& sampler, const Draw& draw, const Options& options) {
  if (options.batch < 1) complain("specdec: batch = ", options.batch, ", expected 1 at least");
  if (options.samples < 1'000 || options.samples > 100'000'000)
    complain("specdec: samples = ", options.samples, " is outside 1000..100000000");
  if (!(options.false_alarm > 0 && options.false_alarm < 1))
    complain("specdec: false_alarm = ", options.false_alarm, " is outside (0, 1)");
  const std::vector<Case> all = cases(options.seed);
  const double share = options.false_alarm / static_cast<double>(all.size());
  Report report{.options = options};
  for (const Case& models : all) {
    const auto stream = static_cast<std::uint64_t>(++report.cases + 1);  // stream 1 made the models
    Texts texts(models, sampler, draw, options.batch, Generator(options.seed, 0, stream));
    const std::string wrong = wrong_in(models, texts, options.samples, share);
    if (wrong.empty()) continue;
    std::ostringstream words;
    words << wrong << " (" << models.name << ", V = " << models.target.vocab_size()
          << ", gamma = " << models.gamma << ")";
    report.counterexample = words.str();
    break;
  }
  return report;
}

}  // namespace sampler_check
