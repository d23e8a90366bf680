// Shared by the tests of the trained transformers: the shipped pair, and a statistical test of the texts that it writes.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <ostream>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <vector>

#include "generate/sampled.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

namespace support {

inline const std::string trained_weights = SPECDEC_EXAMPLES "/transformer/weights/";

template <class Scalar>
struct TrainedPair {
  transformer::Transformer<Scalar> target{trained_weights + "target.bin"},
      draft{trained_weights + "draft.bin"};
};

template <class Scalar>
TrainedPair<Scalar>& trained_pair() {
  static TrainedPair<Scalar> read;
  return read;
}

inline const transformer::Tokenizer& trained_tokenizer() {
  static const transformer::Tokenizer read(trained_weights + "tokenizer.bin",
                                           trained_pair<float>().target.vocab_size());
  return read;
}

// Writes a text at temperature 1.
using Decode = std::function<std::vector<specdec::Token>(const std::vector<specdec::Token>& prompt,
                                                         const specdec::Options&, std::mt19937_64&)>;

/// The result of check_trained: the means of numbers that should be uniform on [0, 1), as distances from 1/2 in standard
/// errors.
struct TrainedReport {
  double by_ratio = 0;        ///< for places by q/p
  double by_probability = 0;  ///< for places by p
  double least = 0;           ///< the test fails if one of the two reaches this
  specdec::testing::SampledReport pairs;
  bool accepted() const {
    return pairs.accepted && std::abs(by_ratio) < least && std::abs(by_probability) < least;
  }

  friend std::ostream& operator<<(std::ostream& out, const TrainedReport& report) {
    return out << "means off by " << report.by_ratio << " and " << report.by_probability
               << " standard errors, of which " << report.least << " are too many; pairs " << report.pairs;
  }
};

/// The place of each token of a text among all possible tokens in an order: the target's mass before it, plus a random part
/// of its own mass. These places are independent and uniform on [0, 1) if and only if every token follows the target's
/// distribution given the tokens before it.
/// Source: the randomised probability integral transform (Rosenblatt, 1952).
///
/// It asks a target of its own, which no drafter uses and which is fed only the text. `draft` is the shipped draft model,
/// whatever drafts in the test.
class Places {
 public:
  std::vector<double> by_ratio, by_probability;

  void add(const std::vector<specdec::Token>& prompt, const std::vector<specdec::Token>& tokens,
           std::mt19937_64& rng) {
    std::vector<specdec::Token> all = prompt;
    all.insert(all.end(), tokens.begin(), tokens.end());
    all.pop_back();
    const auto count = static_cast<specdec::Index>(tokens.size());
    target_.truncate(0);
    draft_.truncate(0);
    const auto target = target_.forward(all, count), draft = draft_.forward(all, count);
    for (specdec::Index i = 0; i < count; ++i) {
      const Eigen::ArrayXd p = probabilities(target.row(i)), q = probabilities(draft.row(i));
      const auto x = static_cast<specdec::Index>(tokens[static_cast<std::size_t>(i)]);
      const double own = specdec::uniform01(rng) * p[x];
      by_ratio.push_back(before(q / p, p, x) + own);
      by_probability.push_back(before(-p, p, x) + own);
    }
  }

 private:
  template <class Row>
  static Eigen::ArrayXd probabilities(const Row& logits) {
    const Eigen::ArrayXd l = logits.transpose().array().template cast<double>();
    const Eigen::ArrayXd e = (l - l.maxCoeff()).exp();
    return e / e.sum();
  }

  static double before(const Eigen::ArrayXd& order, const Eigen::ArrayXd& p, specdec::Index x) {
    double sum = 0;
    for (specdec::Index y = 0; y < p.size(); ++y)
      if (order[y] < order[x] || (order[y] == order[x] && y < x)) sum += p[y];
    return sum;
  }

  transformer::Transformer<float> target_ = trained_pair<float>().target,
                                  draft_ = trained_pair<float>().draft;
};

/// Tests whether decode's texts follow the target's distribution, by three tests on the same n tokens. Each has a
/// false-alarm rate of 1e-6/3:
///
/// - The mean of the places by q/p, and the mean of the places by p. A verifier that accepts too much, or corrects too
///   little, writes too many tokens that the draft overrates. This moves the first mean. Wrong temperatures and similar
///   errors move the second. The mean m of n uniform numbers is sub-Gaussian with variance 1/(12 n):
///   P(|m − 1/2| >= z / √(12 n)) <= 2 exp(−z²/2), which is 1e-6/3 at z = 5.59. With n = 3600, a mean that is off by 0.027
///   is found in one run of two, and one that is off by 0.037 in 98 of 100 (z + 2). Mass that goes from one half of the
///   places to the other moves the mean by half of this mass: so 5 % and 7 % of the mass are found. If mass goes from one
///   end to the other, 3 % and 4 % are enough.
/// - Pairs of neighbours, each by p in quarters, against the uniform law on 16 cells. This finds tokens that depend on each
///   other in a wrong way. X² on 15 degrees of freedom fails from 76 on: a relative error of 18 % in the cells, root mean
///   square, is found in one run of two.
inline TrainedReport check_trained(const Decode& decode) {
  constexpr std::size_t size = 3600;
  constexpr double false_alarm = 1e-6 / 3;
  std::vector<std::vector<specdec::Token>> prompts;
  for (const char* text : {"Call me", "The Congress of the United States", "He looked at the sea and said"})
    prompts.push_back(trained_tokenizer().encode(text));
  std::mt19937_64 rng{7};
  Places places;
  for (std::size_t k = 0; places.by_ratio.size() < size; ++k) {
    const auto& prompt = prompts[k % prompts.size()];
    places.add(prompt, decode(prompt, {.max_new_tokens = 30, .gamma = 3, .stop_tokens = {1, 2}}, rng), rng);
  }
  const auto standard_errors = [](const std::vector<double>& u) {
    const auto n = static_cast<double>(u.size());
    return (std::accumulate(u.begin(), u.end(), 0.0) / n - 0.5) * std::sqrt(12 * n);
  };
  specdec::testing::Law even;
  for (specdec::Token cell = 0; cell < 16; ++cell) even[{cell / 4, cell % 4}] = 1.0 / 16;
  std::size_t next = 0;
  const auto quarter = [&] {
    return static_cast<specdec::Token>(std::clamp(places.by_probability[next++] * 4, 0.0, 3.0));
  };
  const auto pair = [&] {
    const specdec::Token first = quarter();
    return std::vector<specdec::Token>{first, quarter()};
  };
  TrainedReport report;
  report.by_ratio = standard_errors(places.by_ratio);
  report.by_probability = standard_errors(places.by_probability);
  report.least = std::sqrt(2 * std::log(2 / false_alarm));
  report.pairs =
      specdec::testing::check_sampled(pair, even, static_cast<specdec::Index>(size / 2), false_alarm);
  return report;
}

}  // namespace support
