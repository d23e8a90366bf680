// Holds the text that a loop writes to its target's law, while it is written. One of the two rules here makes a mistake that
// engines have made: it draws the replacement of a rejected token from p, in place of the residual.
// SPDX-License-Identifier: MIT
#include <iostream>
#include <random>
#include <span>
#include <specdec/more/audits.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

using specdec::Index, specdec::Token, specdec::testing::TableModel;

// Token verification.
struct Rule {
  bool right = true;
  specdec::Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i)
      if (!chance.coin(drafted.ratio(i)))
        return {i, right ? *drafted.race(chance, 1.0, i) : drafted.draw(chance, i)};
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

int main() {
  std::mt19937_64 rng{5};
  auto target = TableModel<>::random(50, 1, rng), small = TableModel<>::random(50, 1, rng);
  const std::vector<Token> prompt{0};
  bool as_expected = true;
  for (const bool right : {true, false}) {
    // In the loop: each token with the target's row that judged it.
    specdec::testing::TextAudit audit;
    specdec::SpecDec decoder{TableModel<>(target),
                             specdec::testing::AuditedText{specdec::ModelDrafter{small}, audit}, Rule{right}};
    const auto text = decoder.generate(prompt, {.max_new_tokens = 2'000}, rng).tokens;

    // Afterwards: target and draft model read the finished text, alone.
    specdec::testing::TextAudit again;
    specdec::testing::rescore(again, target, small, prompt, text);

    std::cout << (right ? "right:  " : "from p: ") << audit.report() << "\n  read again: " << again.report()
              << "\n";
    as_expected = as_expected && again.convicts(1e-6) != right;
  }
  return as_expected ? 0 : 1;
}
