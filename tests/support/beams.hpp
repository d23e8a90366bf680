// Plain beam search, to compare with.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <random>
#include <specdec/more/search/beam_search.hpp>
#include <specdec/testing/table_model.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"

namespace support {

// Plain beam search, written from its definition: all continuations by all tokens are sorted.
struct PlainSearch {
  const specdec::testing::TableModel<>& target;
  std::vector<Token> prompt;
  specdec::BeamOptions options;

  struct Candidate {
    std::size_t parent;
    Token token;
    specdec::Beam beam;
  };

  std::vector<specdec::Beam> beams() const {
    std::vector<specdec::Beam> kept{{}};
    for (specdec::Index level = 0; level < options.max_new_tokens; ++level) {
      if (std::all_of(kept.begin(), kept.end(), [](const specdec::Beam& beam) { return beam.stopped; }))
        break;
      kept = next(kept);
    }
    return kept;
  }

  std::vector<specdec::Beam> next(const std::vector<specdec::Beam>& kept) const {
    std::vector<Candidate> all;
    for (std::size_t b = 0; b < kept.size(); ++b) {
      if (kept[b].stopped) all.push_back({b, -1, kept[b]});
      else add_continuations(b, kept[b], all);
    }
    std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
      if (a.beam.log_probability != b.beam.log_probability)
        return a.beam.log_probability > b.beam.log_probability;
      return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
    });
    std::vector<specdec::Beam> best;
    for (const Candidate& candidate : all)
      if (std::ssize(best) < options.width) best.push_back(candidate.beam);
    return best;
  }

  void add_continuations(std::size_t parent, const specdec::Beam& beam, std::vector<Candidate>& all) const {
    std::vector<Token> context = prompt;
    context.insert(context.end(), beam.tokens.begin(), beam.tokens.end());
    const auto row = target.distribution(context);
    for (Token x = 0; x < target.vocab_size(); ++x) {
      if (!(row.probability(x) > 0)) continue;
      specdec::Beam longer = beam;
      longer.tokens.push_back(x);
      longer.log_probability += std::log(row.probability(x));
      longer.stopped = options.stop_tokens.contains(x);
      all.push_back({parent, x, longer});
    }
  }
};

inline std::string told(const std::vector<specdec::Beam>& beams) {
  std::string text;
  for (const specdec::Beam& beam : beams) {
    for (const Token x : beam.tokens) text += std::to_string(x) + " ";
    text += specdec::detail::message(beam.log_probability, beam.stopped ? " stopped" : "", "\n");
  }
  return text;
}

// The texts equal those of plain search, to the last bit of their log-probabilities.
inline void check_equal(const specdec::BeamResult& found, const std::vector<specdec::Beam>& expected) {
  CAPTURE(told(found.beams), told(expected));
  REQUIRE(found.beams.size() == expected.size());
  for (std::size_t b = 0; b < expected.size(); ++b) {
    REQUIRE(found.beams[b].tokens == expected[b].tokens);
    REQUIRE(found.beams[b].log_probability == expected[b].log_probability);
    REQUIRE(found.beams[b].stopped == expected[b].stopped);
  }
}

inline specdec::BeamOptions random_options(std::mt19937_64& rng, specdec::Index vocab_size) {
  const auto up_to = [&rng](specdec::Index n) {
    return static_cast<specdec::Index>(rng() % static_cast<unsigned>(n + 1));
  };
  specdec::BeamOptions options{
      .max_new_tokens = up_to(9), .width = 1 + up_to(4), .draft_width = 1 + up_to(6), .gamma = up_to(4)};
  if (rng() % 2 == 0) options.stop_tokens.push_back(static_cast<Token>(up_to(vocab_size - 1)));
  return options;
}

// A processor: no token follows itself.
struct NoDoubles {
  std::vector<Token> seen = {};

  bool push(Token x) {
    if (!seen.empty() && seen.back() == x) return false;
    seen.push_back(x);
    return true;
  }
  void pop(Index n) { seen.resize(seen.size() - static_cast<std::size_t>(n)); }
  void apply(auto logits) const {
    if (!seen.empty()) logits[seen.back()] = -std::numeric_limits<float>::infinity();
  }
};

}  // namespace support
