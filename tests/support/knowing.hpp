// Targets that show hidden states.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"

namespace support {

// A table that shows hidden states. A state depends on the whole context. All numbers are small integers, so every sum is
// exact.
struct Knowing {
  using Index = specdec::Index;
  using Token = specdec::Token;
  using Table = specdec::testing::TableModel<>;

  Table table;
  std::vector<Token> context = {}, tree = {};

  Index vocab_size() const { return table.vocab_size(); }
  Index context_size() const { return 40; }
  const Table::Rows& forward(std::span<const Token> tokens, Index rows) {
    const auto& output = table.forward(tokens, rows);
    context.insert(context.end(), tokens.begin(), tokens.end());
    return output;
  }
  const Table::Rows& forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    const auto& output = table.forward(tokens, parents, rows);
    tree.insert(tree.end(), tokens.begin(), tokens.end());
    return output;
  }
  void keep(std::span<const Index> path) {
    table.keep(path);
    for (const Index node : path) context.push_back(tree[static_cast<std::size_t>(node)]);
    tree.clear();
  }
  void truncate(Index length) {
    table.truncate(length);
    context.resize(std::min(context.size(), static_cast<std::size_t>(length)));
    tree.clear();
  }

  Index length() const { return std::ssize(context); }
  Eigen::Vector2f hidden() const { return hidden_of(context); }
  Eigen::Vector2f hidden_at(Index token) const {
    REQUIRE((token >= 0 && token < length()));
    return hidden_of(std::span(context).first(static_cast<std::size_t>(token + 1)));
  }

  static Eigen::Vector2f hidden_of(std::span<const Token> tokens) {
    REQUIRE(!tokens.empty());
    int value = 5;
    for (const Token x : tokens) value = (3 * value + x + 1) % 97;
    return {static_cast<float>(value), static_cast<float>(tokens.size())};
  }
};

inline Knowing knowing(specdec::Index vocab_size, unsigned seed = 1) {
  std::mt19937_64 rng{seed};
  return {Knowing::Table::random(vocab_size, 2, rng)};
}

// The largest difference between the law of a text with drafts of draft_model(target) and the target's law. Counts what was
// accepted.
template <class DraftModel, class Strategy, class V>
double law_difference(const DraftModel& draft_model, const Strategy& strategy, const V& rule,
                      double& accepted) {
  using namespace specdec::testing;
  double worst = 0;
  for (unsigned seed = 1; seed <= 6; seed += static_cast<unsigned>(every(3))) {
    const specdec::Options options{.max_new_tokens = 4, .gamma = 2};
    const std::vector<specdec::Token> prompt{0, 2};
    Law law;
    enumerate([&](Enumerator& chance) {
      Knowing target = knowing(3, seed);
      auto model = draft_model(target);
      specdec::SpecDec decoder{target, specdec::ModelDrafter{model, strategy}, V(rule)};
      const specdec::Result result = decoder.generate(prompt, options, chance);
      const double p = chance.probability();
      law[result.tokens] += p;
      accepted += p * static_cast<double>(result.stats.accepted);
    });
    const Law expected = target_law(knowing(3, seed).table, prompt, options);
    worst = std::max(worst, largest_difference(law, expected).size);
  }
  return worst;
}

// Many texts, each on a Knowing of its own.
struct ManyKnowing {
  using Index = specdec::Index;
  using BatchFeed = specdec::BatchFeed;

  Knowing fresh;
  std::map<Index, Knowing> texts = {};
  Knowing::Table::Rows rows = {};

  Index vocab_size() const { return fresh.vocab_size(); }
  Index context_size() const { return fresh.context_size(); }
  const Knowing::Table::Rows& forward(std::span<const BatchFeed> feeds) {
    Eigen::MatrixXd all(0, vocab_size());
    for (const BatchFeed& feed : feeds) {
      Knowing& text = texts.try_emplace(feed.sequence, fresh).first->second;
      REQUIRE(text.length() == feed.from);
      const Index least = std::max<Index>(feed.rows, 1), before = all.rows();
      const auto& output = feed.parents.empty() ? text.forward(feed.tokens, least)
                                                : text.forward(feed.tokens, feed.parents, least);
      all.conservativeResize(before + feed.rows, vocab_size());
      all.bottomRows(feed.rows) = output.topRows(feed.rows);
    }
    rows = all;
    return rows;
  }
  void keep(Index sequence, Index length) {
    if (const auto text = texts.find(sequence); text != texts.end()) text->second.truncate(length);
  }
  void keep(Index sequence, std::span<const Index> path) {
    if (const auto text = texts.find(sequence); text != texts.end()) text->second.keep(path);
  }
  void release(Index sequence) { texts.erase(sequence); }
  void fork(Index from, Index to) {
    REQUIRE(!texts.contains(to));
    Knowing& twin = texts.emplace(to, texts.at(from)).first->second;
    twin.truncate(twin.length());  // without an open tree
  }

  Index length(Index sequence) const {
    const auto text = texts.find(sequence);
    return text == texts.end() ? 0 : text->second.length();
  }
  Eigen::Vector2f hidden(Index sequence) const { return texts.at(sequence).hidden(); }
  Eigen::Vector2f hidden_at(Index sequence, Index token) const { return texts.at(sequence).hidden_at(token); }
};

// Targets with a prefix of which they have no states.
struct Prefixed : Knowing {
  Index first = 0;
  Index states_from() const { return first; }
};
struct ManyPrefixed : ManyKnowing {
  std::map<Index, Index> first = {};
  Index states_from(Index sequence) const { return first.at(sequence); }
};

}  // namespace support
