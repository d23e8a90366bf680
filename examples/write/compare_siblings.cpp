// How often a group of siblings is accepted, by how its tokens come about, on the shipped pair. The places are those of texts that
// the target writes alone, and all kinds meet the same places. At each place some groups are drawn; how often the rule accepts
// one of a drawn group's tokens is computed, not counted, so little noise is left.
//
//   compare_siblings 60    60 places after each of the 20 prompts
// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <random>
#include <specdec/specdec.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "mistakes/siblings.hpp"
#include "paired/expected_accepted.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

using specdec::Index, specdec::Token, specdec::TokenTree;
using Tokens = std::vector<Token>;
using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Row = specdec::DenseRow<double>;
using Transformer = transformer::Transformer<float>;

// The probability that one of `count` siblings is accepted, where the rows are p and q: the mean over some groups.
template <class Siblings>
double accepted(const Rows& p, const Rows& q, Index count, Siblings siblings, std::mt19937_64& rng) {
  constexpr int groups = 16;
  const Rows target = p.replicate(count + 1, 1);
  specdec::RandomChance chance{rng};
  double sum = 0;
  for (int n = 0; n < groups; ++n) {
    TokenTree tree;
    tree.reserve(static_cast<std::size_t>(count));
    std::vector<typename Siblings::template Row<Row>> rows;
    siblings.grow(Row(q.data(), q.size()), count, -1, chance, tree, rows);
    sum += paired::expected_accepted(specdec::RecursiveRejectionVerifier{},
                                     Rows(target.topRows(tree.size() + 1)),
                                     specdec::RowSpan<typename Siblings::template Row<Row>>(rows, q.size()),
                                     tree.tokens(), tree.parents());
  }
  return sum / groups;
}

// The rows of a model for the next token, at each place of the text after the prompt.
Rows rows_of(Transformer& model, double temperature, const Tokens& text, Index places) {
  specdec::ProcessedModel processed{model, specdec::Temperature{temperature}};
  processed.truncate(0);
  const auto output = processed.forward(text, places + 1);
  Rows rows(places, model.vocab_size());
  for (Index i = 0; i < places; ++i)
    for (Token x = 0; x < rows.cols(); ++x) rows(i, x) = specdec::probability(output.row(i), x);
  return rows;
}

int main(int count, char** arguments) {
  const Index places = count > 1 ? std::atoll(arguments[1]) : 2;
  if (places < 1) {
    std::cerr << "compare_siblings: " << arguments[1] << " is no number of places\n";
    return 2;
  }
  const std::string weights = SPECDEC_EXAMPLES "/transformer/weights/";
  Transformer target(weights + "target.bin"), draft(weights + "draft.bin");
  const transformer::Tokenizer tokenizer(weights + "tokenizer.bin", target.vocab_size());
  std::vector<Tokens> prompts;
  std::ifstream lines(SPECDEC_EXAMPLES "/data/prompts.txt");
  for (std::string line; std::getline(lines, line);) prompts.push_back(tokenizer.encode(line));

  constexpr std::string_view kinds[] = {"drawn first, then the likeliest", "the likeliest, then one drawn",
                                        "without replacement", "independent", "the likeliest"};
  constexpr double temperatures[] = {0.3, 0.8, 1.0};
  constexpr Index sizes[] = {1, 2, 4};
  double sums[5][3][3] = {};
  std::mt19937_64 rng{1};
  for (int t = 0; t < 3; ++t)
    for (const Tokens& prompt : prompts) {
      specdec::ProcessedModel alone{target, specdec::Temperature{temperatures[t]}};
      Tokens text = prompt;
      const auto written =
          specdec::autoregressive<specdec::TokenVerifier>(alone, prompt, {.max_new_tokens = places}, rng);
      text.insert(text.end(), written.tokens.begin(), written.tokens.end());
      const Rows p = rows_of(target, temperatures[t], text, places),
                 q = rows_of(draft, temperatures[t], text, places);
      for (Index i = 0; i < places; ++i)
        for (int s = 0; s < 3; ++s) {
          const auto add = [&](int kind, auto siblings) {
            sums[kind][s][t] += accepted(p.row(i), q.row(i), sizes[s], siblings, rng);
          };
          add(0, specdec::DrawnThenLikeliest{});
          add(1, mistakes::LikeliestThenDrawn{});
          add(2, specdec::WithoutReplacement{});
          add(3, specdec::Independent{});
          add(4, specdec::Likeliest{});
        }
    }
  std::cout << "accepted groups of siblings, in percent\n";
  for (int s = 0; s < 3; ++s) {
    std::cout << sizes[s] << (s == 0 ? " child " : " siblings") << std::left << std::setw(25) << ""
              << std::right << "  T = 0.3  T = 0.8    T = 1\n"
              << std::fixed << std::setprecision(1);
    for (int kind = 0; kind < 5; ++kind) {
      std::cout << "  " << std::left << std::setw(32) << kinds[kind] << std::right;
      for (const double sum : sums[kind][s])
        std::cout << std::setw(9) << 100 * sum / static_cast<double>(places * std::ssize(prompts));
      std::cout << "\n";
    }
  }
}
