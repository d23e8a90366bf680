// A small pair of models of different order: the drafter sees less of the context than the target.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>

#include "acceptance/dial.hpp"
#include "acceptance/families.hpp"
#include "specdec/testing/table_model.hpp"

namespace acceptance {

/// An order-k Markov source and its drafter of order k − 1.
struct MarkovPair {
  specdec::testing::TableModel<double> target, draft;
};

/// Makes a MarkovPair whose mean overlap over the contexts is `wanted` within dial_tolerance. The drafter's rows are
/// Dirichlet rows. A row of the target is the drafter's row for the last k − 1 tokens, times log-normal noise. The noise also
/// depends on the token before these, which the drafter cannot see. The dial sets the strength of the noise.
///
/// Throws: std::invalid_argument if order < 1, vocab_size < 1 or the overlap is out of reach.
inline MarkovPair markov_pair(Index vocab_size, Index order, double wanted, std::uint64_t seed) {
  if (order < 1 || vocab_size < 1)
    specdec::detail::invalid_argument("a Markov pair cannot have order = ", order,
                                      " and vocab_size = ", vocab_size);
  using Rows = specdec::testing::TableModel<double>::Rows;
  SplitMix64 generator(seed);
  Index states = 1;
  for (Index k = 1; k < order; ++k) states *= vocab_size + 1;
  Rows draft(states, vocab_size), noise(states * (vocab_size + 1), vocab_size), target;
  Row row(vocab_size);
  for (Index i = 0; i < states; ++i) {
    Dirichlet{.shape = 1}.target(generator, row);
    draft.row(i) = row / total(row);
  }
  for (Index i = 0; i < noise.rows(); ++i)
    for (Index x = 0; x < vocab_size; ++x) noise(i, x) = normal(generator);
  // The state of k tokens, modulo the number of states of k − 1 tokens, is the state of the last k − 1 tokens.
  const auto turn = [&](double knob) {
    target = noise.unaryExpr([knob](double x) { return std::exp(knob * x); });
    double sum = 0;
    for (Index i = 0; i < target.rows(); ++i) {
      target.row(i).array() *= draft.row(i % states).array();
      target.row(i) /= total(target.row(i));
      sum += overlap(target.row(i), draft.row(i % states));
    }
    return sum / static_cast<double>(target.rows());
  };
  turn(dial(turn, Zipf{}.most, wanted));
  return {{target, order}, {draft, order - 1}};
}

}  // namespace acceptance
