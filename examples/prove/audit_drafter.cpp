// Checks that a drafter reports the distribution q that it really drew from. One of the two drafters here makes the most
// common mistake: it draws from a cut row and reports the uncut one.
// SPDX-License-Identifier: MIT
#include <iostream>
#include <random>
#include <span>
#include <specdec/more/audits.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

using specdec::Index, specdec::Token, specdec::testing::TableModel;

// Draws from the model's row without the unlikely tokens. Reports that cut row if `honest`, otherwise the model's own row.
struct CuttingDrafter {
  TableModel<> model;
  bool honest = true;
  std::vector<Token> tokens = {};
  Eigen::MatrixXd reported = {};

  specdec::Draft<Eigen::Ref<const Eigen::MatrixXd>> draft(std::span<const Token> context, Index gamma,
                                                          auto& chance) {
    std::vector<Token> text(context.begin(), context.end());
    reported.resize(gamma, model.vocab_size());
    for (Index i = 0; i < gamma; ++i) {
      Eigen::MatrixXd row(1, model.vocab_size());
      for (Token x = 0; x < model.vocab_size(); ++x) row(0, x) = model.distribution(text).probability(x);
      const double least = 0.5 * row.maxCoeff();
      Eigen::MatrixXd cut = (row.array() >= least).select(row, 0.0);
      cut /= cut.sum();
      reported.row(i) = honest ? cut : row;
      text.push_back(chance.draw(specdec::distributions(cut).row(0)));
    }
    tokens.assign(text.end() - gamma, text.end());
    return {tokens, reported};
  }
  void truncate(Index) {}
};

int main() {
  std::mt19937_64 rng{5};
  const auto target = TableModel<>::random(6, 1, rng), small = TableModel<>::random(6, 1, rng);
  bool right = true;
  for (const bool honest : {true, false}) {
    specdec::testing::AuditedDrafter drafter{CuttingDrafter{small, honest}};
    specdec::SpecDec decoder{TableModel<>(target), drafter};
    decoder.generate(std::vector<Token>{0}, {.max_new_tokens = 5'000}, rng);
    const auto report = drafter.report();
    std::cout << (honest ? "honest q: " : "raw q:    ") << report << "\n";
    right = right && report.acquitted() == honest;
  }
  return right ? 0 : 1;
}
