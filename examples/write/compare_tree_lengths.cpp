// Trees by the draft model's rows, on the shipped pair: is a draft length that reads them faster than the best fixed tree,
// and how near does it come to a tree of just the tokens that the target will accept?
//
// The target writes some texts beforehand. Then each draft length drafts along these texts, with costs that are given and
// not measured. So all see equal rows, and no noise.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <random>
#include <span>
#include <specdec/more/drafters.hpp>
#include <specdec/more/lengths.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <vector>

#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

using specdec::Index, specdec::Token;
using Tokens = std::vector<Token>;
using Transformer = transformer::Transformer<float>;

constexpr Index tokens_of_a_text = 100, width = 8, deepest = 8, most_nodes = 64;
constexpr specdec::ConfidentTree largest{.width = width, .depth = deepest, .nodes = most_nodes};

struct Text {
  Tokens prompt, all;  // all: the prompt, and what the target has written after it
};

// A target that writes the given text again. The rows after other texts do not matter.
class Writer {
 public:
  Writer(const Text& text, Index vocab_size) : text_(&text), vocab_size_(vocab_size) {}

  Index vocab_size() const { return vocab_size_; }
  auto forward(std::span<const Token> tokens, Index rows) {
    length_ += std::ssize(tokens);
    rows_.clear();
    for (Index at = length_ - rows; at < length_; ++at) {
      const auto next = static_cast<std::size_t>(std::min(at + 1, std::ssize(text_->all) - 1));
      rows_.emplace_back(std::span(text_->all).subspan(next, 1), sure, vocab_size_);
    }
    return specdec::RowSpan<Row>(rows_, vocab_size_);
  }
  void truncate(Index length) { length_ = std::min(length_, length); }

 private:
  using Row = specdec::SparseRow<double>;
  static constexpr double sure[] = {1.0};

  const Text* text_;
  Index vocab_size_, length_ = 0;
  std::vector<Row> rows_;
};

// The draft model. It computes the likeliest tokens after a text once.
class Remembered {
 public:
  explicit Remembered(Transformer& model) : model_(model) {}

  Index vocab_size() const { return model_.vocab_size(); }
  auto forward(std::span<const Token> tokens, Index rows) {
    rows_.clear();
    for (std::size_t k = 0; k < tokens.size(); ++k) {
      context_.push_back(tokens[k]);
      if (std::ssize(tokens) - static_cast<Index>(k) > rows) continue;
      const Row& row = after_context();
      rows_.emplace_back(row.ids, row.probabilities, vocab_size());
    }
    return specdec::RowSpan<specdec::SparseRow<double>>(rows_, vocab_size());
  }
  void truncate(Index length) {
    context_.resize(std::min(context_.size(), static_cast<std::size_t>(length)));
  }

 private:
  struct Row {
    std::array<Token, width> ids;
    std::array<double, width> probabilities;
  };

  const Row& after_context() {
    const auto [found, is_new] = known_.try_emplace(context_);
    if (!is_new) return found->second;
    const auto same = std::ranges::mismatch(context_, cached_).in1 - context_.begin();
    const Index kept = std::min(same, std::ssize(context_) - 1);
    model_.truncate(kept);
    specdec::ProcessedModel processed{model_, specdec::Temperature{1}};
    const auto row = processed.forward(std::span(context_).subspan(static_cast<std::size_t>(kept)), 1).row(0);
    cached_ = context_;
    std::array<specdec::TopToken, width> top{};
    std::ranges::copy(likeliest_.of(row, width), top.begin());
    std::ranges::sort(top, {}, &specdec::TopToken::token);
    for (std::size_t k = 0; k < top.size(); ++k) {
      found->second.ids[k] = top[k].token;
      found->second.probabilities[k] = top[k].probability;
    }
    return found->second;
  }

  Transformer& model_;
  Tokens context_, cached_;
  std::map<Tokens, Row> known_;
  std::vector<specdec::SparseRow<double>> rows_;
  specdec::TopTokens likeliest_;
};

// A model that takes trees, and counts its calls.
template <class M>
class Counted {
 public:
  Counted(M& model, Index& calls) : trees_(model), calls_(&calls) {}

  Index vocab_size() const { return trees_.vocab_size(); }
  decltype(auto) forward(std::span<const Token> tokens, Index rows) {
    ++*calls_;
    return trees_.forward(tokens, rows);
  }
  decltype(auto) forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    ++*calls_;
    return trees_.forward(tokens, parents, rows);
  }
  void keep(std::span<const Index> path) { trees_.keep(path); }
  void truncate(Index length) { trees_.truncate(length); }

 private:
  specdec::PathByPath<M&> trees_;
  Index* calls_;
};

// In target calls over one token.
struct Costs {
  double draft_call, fed_token;
};

// What was done to write all texts.
struct Work {
  Index tokens = 0, steps = 0, drafted = 0, accepted = 0, calls = 0;

  // Tokens per target call's time.
  double speed(const Costs& costs) const {
    return static_cast<double>(tokens) /
           (static_cast<double>(steps) + costs.draft_call * static_cast<double>(calls) +
            costs.fed_token * static_cast<double>(drafted));
  }
  // The speed of a drafter that knows which of these tokens the target will accept, and drafts no others.
  double oracle_speed(const Costs& costs) const {
    return Work{tokens, steps, accepted, accepted, accepted}.speed(costs);
  }
};

std::chrono::nanoseconds time(double calls) { return std::chrono::nanoseconds(std::llround(1e6 * calls)); }

// A draft length that is told the given costs in place of the measured times.
template <class Length>
class Told : public Length {
 public:
  explicit Told(const Length& length, const Costs& costs = {}) : Length(length), costs_(costs) {}

  Index calls = 0;  // of the draft model

  void observe(specdec::StepRecord step) {
    step.draft_time = time(costs_.draft_call * static_cast<double>(calls - calls_before_));
    step.target_time = time(1 + costs_.fed_token * static_cast<double>(step.drafted));
    step.verify_time = {};
    calls_before_ = calls;
    Length::observe(step);
  }

 private:
  Costs costs_;
  Index calls_before_ = 0;
};

// Writes all texts again. The draft length keeps what it learns from one text to the next.
template <class Tree, class Length>
Work work(const std::vector<Text>& texts, Remembered& draft, const Tree& tree, Told<Length>& length) {
  Work work;
  std::mt19937_64 rng{1};
  for (const Text& text : texts) {
    specdec::SpecDec decoder{specdec::PathByPath{Writer(text, draft.vocab_size())},
                             specdec::ModelDrafter{Counted(draft, length.calls), tree},
                             specdec::TrunkAndSpares<specdec::SampleMatchVerifier>{}, length};
    const specdec::Result r =
        decoder.generate(text.prompt, {.max_new_tokens = tokens_of_a_text, .gamma = most_nodes}, rng);
    work.tokens += std::ssize(r.tokens);
    work.steps += r.stats.target_calls;
    work.drafted += r.stats.drafted;
    work.accepted += r.stats.accepted;
  }
  work.calls = length.calls;
  return work;
}

Work fixed(const std::vector<Text>& texts, Remembered& draft, const specdec::ConfidentTree& tree) {
  Told length(specdec::FixedLength{});
  return work(texts, draft, tree, length);
}
// Grows each tree by the rows.
Work early(const std::vector<Text>& texts, Remembered& draft, const Costs& costs) {
  Told length(specdec::EarlyStoppingLength<>{}, costs);
  return work(texts, draft, largest, length);
}

std::vector<Text> written(Transformer& model, const std::vector<Tokens>& prompts, double temperature) {
  std::vector<Text> texts;
  std::mt19937_64 rng{1};
  const specdec::Options options{.max_new_tokens = tokens_of_a_text + deepest};
  for (const Tokens& prompt : prompts) {
    specdec::ProcessedModel target{model, specdec::Temperature{temperature}};
    const specdec::Result r = specdec::autoregressive(target, prompt, options, rng);
    texts.push_back({prompt, prompt});
    texts.back().all.insert(texts.back().all.end(), r.tokens.begin(), r.tokens.end());
  }
  return texts;
}

// A tree, and what was done with it.
struct Fixed {
  Index levels, nodes;
  Work work;
};

std::vector<Fixed> fixed_trees(const std::vector<Text>& texts, Remembered& draft) {
  std::vector<Fixed> all;
  for (const Index levels : {1, 2, 3, 4, 5})
    for (const Index nodes : {2, 4, 8, 12, 16, 24, 32, 48, 64}) {
      const specdec::ConfidentTree tree{.width = width, .depth = levels, .nodes = nodes};
      all.push_back({levels, nodes, fixed(texts, draft, tree)});
    }
  return all;
}

int main() {
  const std::string weights = SPECDEC_EXAMPLES "/transformer/weights/";
  Transformer target(weights + "target.bin"), draft(weights + "draft.bin");
  const transformer::Tokenizer tokenizer(weights + "tokenizer.bin", target.vocab_size());
  std::vector<Tokens> prompts;
  std::ifstream lines(SPECDEC_EXAMPLES "/data/prompts.txt");
  for (std::string line; prompts.size() < 10 && std::getline(lines, line);)
    prompts.push_back(tokenizer.encode(line));

  std::cout << std::fixed << "     draft    fed         best fixed tree           early\n"
            << " T    call   token   levels  tokens  speed-up   early  levels  tokens  oracle\n";
  for (const double temperature : {0.0, 0.8}) {
    const std::vector<Text> texts = written(target, prompts, temperature);
    Remembered remembered(draft);
    const std::vector<Fixed> trees = fixed_trees(texts, remembered);
    const Work all = fixed(texts, remembered, largest);
    for (const Costs& costs :
         {Costs{0.03, 0.01}, Costs{0.05, 0.002}, Costs{0.05, 0.005}, Costs{0.1, 0.005}, Costs{0.2, 0.02}}) {
      const Fixed& best =
          *std::ranges::max_element(trees, {}, [&](const Fixed& tree) { return tree.work.speed(costs); });
      const double speed = best.work.speed(costs);
      const Work by_rows = early(texts, remembered, costs);
      const auto steps = static_cast<double>(by_rows.steps);
      std::cout << std::setprecision(1) << std::setw(4) << temperature << std::setprecision(2) << std::setw(6)
                << costs.draft_call << std::setprecision(3) << std::setw(8) << costs.fed_token << std::setw(9)
                << best.levels << std::setw(8) << best.nodes << std::setprecision(2) << std::setw(10) << speed
                << std::setprecision(3) << std::setw(8) << by_rows.speed(costs) / speed
                << std::setprecision(1) << std::setw(8) << static_cast<double>(by_rows.calls) / steps
                << std::setw(8) << static_cast<double>(by_rows.drafted) / steps << std::setprecision(3)
                << std::setw(8) << all.oracle_speed(costs) / speed << "\n";
    }
  }
}
