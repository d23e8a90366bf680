// Beam searches after several prompts beside sampled texts, over one model: one call a step reads the tokens of all.
// SPDX-License-Identifier: MIT
#include <iostream>
#include <iterator>
#include <random>
#include <span>
#include <specdec/more/models/ngram.hpp>
#include <specdec/more/search/beam_batch.hpp>
#include <specdec/specdec.hpp>
#include <string_view>
#include <vector>

using specdec::Index, specdec::Token;

constexpr std::string_view rhyme =
    "This is the house that Jack built. This is the malt that lay in the house that Jack built. "
    "This is the rat that ate the malt that lay in the house that Jack built. "
    "This is the cat that killed the rat that ate the malt that lay in the house that Jack built. ";

// The tokens of this example are letters.
std::vector<Token> letters(std::string_view text) { return {text.begin(), text.end()}; }

void print(std::span<const Token> tokens) {
  for (const Token x : tokens) std::cout << static_cast<char>(x);
  std::cout << "\n";
}

int main() {
  // Stands for an engine that takes trees of many texts in one call.
  const specdec::NgramModel model =
      specdec::NgramModel::train(letters(rhyme), {.order = 5, .vocab_size = 128});
  specdec::ModelPerSequence target{specdec::PathByPath{specdec::NgramModel(model)}};
  specdec::ModelPerSequence small{specdec::PathByPath{model.with_order(3)}};

  specdec::Batch batch{target, specdec::ModelDrafter{small}};
  specdec::BeamBatch searches{target, small};
  batch.add(letters("This is the"), {.max_new_tokens = 40, .gamma = 4}, std::mt19937_64{4});  // text 0
  const specdec::BeamOptions until_a_dot{.max_new_tokens = 40, .width = 2, .stop_tokens = {'.'}};
  searches.add(100, letters("the rat"), until_a_dot);  // numbers that no text of the batch has
  searches.add(101, letters("in the"), until_a_dot);

  Index calls = 0, fed = 0;
  while (!batch.empty() || !searches.empty()) {
    std::vector<specdec::BatchFeed> feeds;
    Index rows_of_batch = 0;
    for (const specdec::BatchFeed& feed : batch.propose()) {
      feeds.push_back(feed);
      rows_of_batch += feed.rows;
    }
    for (const specdec::BatchFeed& feed : searches.propose()) feeds.push_back(feed);

    const auto output = target.forward(feeds);  // one call for all
    const auto rows = specdec::distributions(output);
    ++calls;
    for (const specdec::BatchFeed& feed : feeds) fed += std::ssize(feed.tokens);
    const Index others = rows.rows() - rows_of_batch;
    for (const specdec::Finished& done : batch.accept(specdec::RowRange(rows, 0, rows_of_batch))) {
      std::cout << "text " << done.sequence << ":";
      print(done.result.tokens);
    }
    for (const specdec::FoundBeams& found : searches.accept(specdec::RowRange(rows, rows_of_batch, others)))
      for (const specdec::Beam& beam : found.result.beams) {
        std::cout << "search " << found.sequence << ", " << beam.log_probability << " nats:";
        print(beam.tokens);
      }
  }
  std::cout << calls << " calls read " << fed << " tokens\n";
}
