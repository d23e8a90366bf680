// Which sublayers to leave out of a target's own drafts: a search on text that the target wrote.
// Source: Zhang et al., "Draft & Verify", arXiv:2309.08168, section 3.2. There a Bayesian optimisation measures the time of
// whole texts. Here a greedy search computes the expected gain from the acceptance of single tokens, so that its result does
// not depend on a clock or on random numbers.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <span>
#include <specdec/more/analysis/speed_up.hpp>
#include <stdexcept>
#include <vector>

#include "transformer/error.hpp"
#include "transformer/shape.hpp"
#include "transformer/sublayers.hpp"
#include "transformer/transformer.hpp"

namespace transformer {

/// A text that a target wrote.
struct Written {
  std::vector<Token> tokens;  ///< the prompt, then what the target wrote
  Index prompt = 0;           ///< the number of tokens of the prompt
};

/// What drafts by some of the target's sublayers are expected to gain.
struct Prospect {
  Sublayers sublayers;
  double acceptance = 0;  ///< of a drafted token after a context that the target has taken in
  double share = 0;       ///< of the weights that the target multiplies with: so many does a drafted token
  Index gamma = 0;        ///< the best draft length, at least 1
  double speed_up = 0;    ///< of drafts of this length
};

/// The share of a model's matrices that these sublayers and the classifier are: the cost of a drafted token in target calls,
/// where a call costs what its weights cost. What the attentions read of a context is not counted.
inline double share_of_weights(const Shape& shape, const Sublayers& sublayers) {
  Index read = shape.classifier_parameters(), all = read;
  for (Index l = 0; l < shape.n_layers; ++l) {
    all += shape.attention_parameters() + shape.feed_forward_parameters();
    if (sublayers.attention(l)) read += shape.attention_parameters();
    if (sublayers.feed_forward(l)) read += shape.feed_forward_parameters();
  }
  return static_cast<double>(read) / static_cast<double>(all);
}

/// The prospect of sublayers with this acceptance. The draft length is at most `most`.
/// Throws: std::invalid_argument unless 0 <= acceptance <= 1 and most >= 1.
inline Prospect prospect(const Shape& shape, const Sublayers& sublayers, double acceptance, Index most = 16) {
  if (most < 1) fail<std::invalid_argument>("prospect: most = ", most, " is less than 1");
  const double share = share_of_weights(shape, sublayers);
  const Index gamma = std::max<Index>(1, specdec::best_gamma(acceptance, share, most));
  return {sublayers, acceptance, share, gamma, specdec::walltime_improvement(acceptance, gamma, share)};
}

namespace detail {

/// The distribution that is sampled at a temperature; at temperature 0 all probability is on the likeliest token.
template <class Row>
Eigen::ArrayXd sampled_from(const Row& logits, double temperature) {
  const Eigen::ArrayXd row = logits.transpose().array().template cast<double>();
  Index likeliest = 0;
  const double largest = row.maxCoeff(&likeliest);
  Eigen::ArrayXd p = Eigen::ArrayXd::Zero(row.size());
  if (temperature > 0) p = ((row - largest) / temperature).exp();
  else p[likeliest] = 1;
  return p / p.sum();
}

template <class Scalar>
void check_texts(const Transformer<Scalar>& target, std::span<const Written> texts) {
  if (texts.empty()) fail<std::invalid_argument>("acceptances: there are no texts");
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Index size = std::ssize(texts[i].tokens);
    if (texts[i].prompt < 1 || texts[i].prompt >= size || size > target.context_size())
      fail<std::invalid_argument>("acceptances: texts[", i, "] has ", size, " tokens, of which ",
                                  texts[i].prompt, " are the prompt, for a context of ",
                                  target.context_size());
  }
}

}  // namespace detail

/// For each set of sublayers, the probability that the target accepts a token that they draft: the mean of Σ min(p, q) over
/// all places of the texts where the target wrote a token. p and q are the rows of target and draft at the temperature, after
/// a context that the target has taken in, all but its last token.
/// Throws: std::invalid_argument without texts, unless each text has a prompt and a written token and fits in the context,
/// and what the target throws. The target's context is empty in the end, also after a throw.
/// Cost: a call of the target over each text, and at each place a call of each set of sublayers over one token.
template <class Scalar>
std::vector<double> acceptances(Transformer<Scalar>& target, std::span<const Written> texts,
                                double temperature, std::span<const Sublayers> sets) {
  detail::check_texts(target, texts);
  std::vector<double> sums(sets.size(), 0.0);
  Index places = 0;
  struct Emptied {
    Transformer<Scalar>& target;
    ~Emptied() { target.truncate(0); }
  } const emptied{target};
  for (const Written& text : texts) {
    target.truncate(0);
    const auto before = std::span(text.tokens).first(text.tokens.size() - 1);
    const Index first = text.prompt - 1, count = std::ssize(before) - first;
    const Eigen::MatrixXf rows = target.forward(before, count);
    places += count;
    // From the last place to the first: what a draft writes into the cache comes after the contexts that are left.
    for (Index i = count - 1; i >= 0; --i) {
      const Eigen::ArrayXd p = detail::sampled_from(rows.row(i), temperature);
      target.truncate(first + i);
      const auto last = before.subspan(static_cast<std::size_t>(first + i), 1);
      for (std::size_t k = 0; k < sets.size(); ++k)
        sums[k] += p.min(detail::sampled_from(target.peek(last, 1, sets[k]).row(0), temperature)).sum();
    }
  }
  for (double& sum : sums) sum = std::min(1.0, sum / static_cast<double>(places));  // 1 may be rounded up
  return sums;
}

/// Leaves out the target's sublayers one after another, until none is left: always the one without which the rest has the
/// greatest expected speed-up, of equals the first. Returns the prospects of all rests, in this order. The one with the
/// greatest speed-up is the result of the search. If its speed-up is below 1, no draft pays.
/// Throws: what acceptances() and prospect() throw.
/// Cost: of n sublayers, n calls of acceptances(), for n(n+1)/2 sets in all.
template <class Scalar>
std::vector<Prospect> leave_out_one_by_one(Transformer<Scalar>& target, std::span<const Written> texts,
                                           double temperature, Index most = 16) {
  std::vector<Prospect> path;
  Sublayers rest = Sublayers::first(target.shape().n_layers);
  for (Index left = rest.size(); left > 0; --left) {
    std::vector<Sublayers> sets;
    for (Index i = 0; i < rest.size(); ++i)
      if (rest.runs(i)) sets.push_back(rest.without(i));
    const std::vector<double> accepted = acceptances(target, texts, temperature, sets);
    std::vector<Prospect> prospects;
    for (std::size_t k = 0; k < sets.size(); ++k)
      prospects.push_back(prospect(target.shape(), sets[k], accepted[k], most));
    path.push_back(*std::ranges::max_element(prospects, {}, &Prospect::speed_up));
    rest = path.back().sublayers;
  }
  return path;
}

}  // namespace transformer
