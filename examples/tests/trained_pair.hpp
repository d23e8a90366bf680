// What the tests of the trained transformers share: the pair that is committed, and a test of what is written with it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <string>
#include <utility>
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

// Turns what a decoder writes into triples of numbers that are independent and uniform on 0..3 if and only if
// every token follows the target's distribution given those before it: its place among the tokens by falling
// probability, in quarters of the mass; a token that lies across an edge takes either side by chance.
// Source: the randomised probability integral transform (Rosenblatt, 1952).
//
// `decode(prompt, options, rng)` writes a text at temperature 1.
template <class Decode>
class Quarters {
 public:
  Quarters(Decode decode, std::uint64_t seed) : decode_(std::move(decode)), rng_(seed) {
    for (const char* text : {"Call me", "The Congress of the United States", "He looked at the sea and said"})
      prompts_.push_back(trained_tokenizer().encode(text));
  }

  std::vector<specdec::Token> operator()() {
    while (places_.size() < 3) write();
    const std::vector<specdec::Token> triple(places_.begin(), places_.begin() + 3);
    places_.erase(places_.begin(), places_.begin() + 3);
    return triple;
  }

 private:
  void write() {
    const std::vector<specdec::Token>& prompt = prompts_[texts_++ % prompts_.size()];
    const auto tokens =
        decode_(prompt, specdec::Options{.max_new_tokens = 12, .gamma = 3, .stop_tokens = {1, 2}}, rng_)
            .tokens;
    std::vector<specdec::Token> all = prompt;
    all.insert(all.end(), tokens.begin(), tokens.end());
    oracle_.truncate(0);
    const auto rows = specdec::distributions(sampled_oracle_.forward(
        std::span<const specdec::Token>(all), static_cast<specdec::Index>(tokens.size()) + 1));
    for (std::size_t i = 0; i < tokens.size(); ++i)
      places_.push_back(place(rows.row(static_cast<specdec::Index>(i)), tokens[i]));
  }

  template <class Row>
  specdec::Token place(const Row& row, specdec::Token x) {
    const double p = row.probability(x);
    double before = specdec::uniform01(rng_) * p;
    for (specdec::Token y = 0; y < row.vocab_size(); ++y) {
      const double other = row.probability(y);
      if (other > p || (other == p && y < x)) before += other;
    }
    return static_cast<specdec::Token>(std::clamp(before * 4, 0.0, 3.0));
  }

  transformer::Transformer<float> oracle_ = trained_pair<float>().target;
  decltype(generate::sampled(oracle_, 1)) sampled_oracle_ = generate::sampled(oracle_, 1);
  Decode decode_;
  std::vector<std::vector<specdec::Token>> prompts_;
  std::mt19937_64 rng_;
  std::size_t texts_ = 0;
  std::deque<specdec::Token> places_;
};

/// Whether what decode writes follows the target's distribution, with a false-alarm rate of 1e-6.
template <class Decode>
specdec::testing::SampledReport check_trained(Decode decode) {
  specdec::testing::Law even;
  for (specdec::Token cell = 0; cell < 64; ++cell) even[{cell / 16, cell / 4 % 4, cell % 4}] = 1.0 / 64;
  return specdec::testing::check_sampled(Quarters<Decode>(std::move(decode), 7), even, 1000);
}

}  // namespace support
