// One text of a model for many texts as a model for one text, and a model for one text as a model for many: for a single text,
// or by a copy for each.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/strict.hpp"

namespace support {

inline constexpr specdec::Index only_sequence = 7;

// A model for one text as a model for many texts, of which there is one. The expectations of
// a wrapper around the model for one text then test the wrapper for many texts.
template <class M>
class OnlyText {
 public:
  using Token = specdec::Token;
  using Index = specdec::Index;

  explicit OnlyText(M&& model) : model_(std::forward<M>(model)) {}

  Index vocab_size() const { return model_.vocab_size(); }
  Index context_size() const { return specdec::context_size(model_); }

  decltype(auto) forward(std::span<const specdec::BatchFeed> feeds) {
    REQUIRE(feeds.size() == 1);
    const specdec::BatchFeed& feed = feeds.front();
    REQUIRE(feed.sequence == only_sequence);
    REQUIRE(feed.from == cached_);
    decltype(auto) output = call(feed);
    if (feed.parents.empty()) cached_ += std::ssize(feed.tokens);
    return output;
  }
  void keep(Index sequence, Index length) {
    if (sequence != only_sequence) return;
    model_.truncate(length);
    cached_ = std::clamp<Index>(length, 0, cached_);
  }
  void keep(Index sequence, std::span<const Index> path)
    requires specdec::takes_trees<std::remove_reference_t<M>>
  {
    REQUIRE(sequence == only_sequence);
    model_.keep(path);
    cached_ += std::ssize(path);
  }
  void release(Index sequence) { keep(sequence, Index{0}); }

 private:
  decltype(auto) call(const specdec::BatchFeed& feed) {
    if constexpr (specdec::takes_trees<std::remove_reference_t<M>>)
      if (!feed.parents.empty()) return model_.forward(feed.tokens, feed.parents, feed.rows);
    return model_.forward(feed.tokens, feed.rows);
  }

  M model_;
  Index cached_ = 0;
};
template <class M>
OnlyText(M&&) -> OnlyText<M>;

// A model for many texts, called with one text, as a model for one text.
template <class M>
class AsOneText {
 public:
  using Token = specdec::Token;
  using Index = specdec::Index;

  explicit AsOneText(M&& model) : model_(std::forward<M>(model)) {}

  Index vocab_size() const { return model_.vocab_size(); }
  Index context_size() const { return specdec::context_size(model_); }

  decltype(auto) forward(std::span<const Token> tokens, Index rows) {
    decltype(auto) output = call(tokens, {}, rows);
    cached_ += std::ssize(tokens);
    return output;
  }
  decltype(auto) forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows)
    requires specdec::takes_trees<std::remove_reference_t<M>>
  {
    return call(tokens, parents, rows);
  }
  void truncate(Index length) {
    model_.keep(only_sequence, length);
    cached_ = std::clamp<Index>(length, 0, cached_);
  }
  void keep(std::span<const Index> path)
    requires specdec::takes_trees<std::remove_reference_t<M>>
  {
    model_.keep(only_sequence, path);
    cached_ += std::ssize(path);
  }

 private:
  decltype(auto) call(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    const specdec::BatchFeed feed{{.tokens = tokens, .from = cached_, .rows = rows, .parents = parents},
                                  only_sequence};
    return model_.forward(std::span(&feed, 1));
  }

  M model_;
  Index cached_ = 0;
};
template <class M>
AsOneText(M&&) -> AsOneText<M>;

// A model of numbers for many texts: each text has a copy of one for one text. All rows of a call are in one matrix.
template <class M>
class CopyPerText {
 public:
  using Index = specdec::Index;
  using Numbers =
      std::remove_cvref_t<decltype(std::declval<M&>().forward(std::span<const specdec::Token>{}, Index{1}))>;

  explicit CopyPerText(M prototype) : prototype_(std::move(prototype)) {}

  Index vocab_size() const { return prototype_.vocab_size(); }
  Index reach() const
    requires requires(const M& model) { model.reach(); }
  {
    return prototype_.reach();
  }
  const Numbers& forward(std::span<const specdec::BatchFeed> feeds) {
    numbers_.resize(specdec::detail::rows_of(feeds), vocab_size());
    Index row = 0;
    for (const specdec::BatchFeed& feed : feeds) {
      Text& text = texts_.try_emplace(feed.sequence, prototype_).first->second;
      check_feed(feed, text.length, text.nodes, vocab_size());
      const Index rows = std::max<Index>(feed.rows, 1);
      const Numbers& output = feed.parents.empty() ? text.model.forward(feed.tokens, rows)
                                                   : text.model.forward(feed.tokens, feed.parents, rows);
      (feed.parents.empty() ? text.length : text.nodes) += std::ssize(feed.tokens);
      numbers_.middleRows(row, feed.rows) = output.bottomRows(feed.rows);
      row += feed.rows;
    }
    return numbers_;
  }
  void keep(Index sequence, Index length) {
    const auto found = texts_.find(sequence);
    if (found == texts_.end()) return;
    Text& text = found->second;
    text.model.truncate(length);
    text.length = std::min(text.length, length);
    text.nodes = 0;
  }
  void keep(Index sequence, std::span<const Index> path) {
    Text& text = texts_.at(sequence);
    text.model.keep(path);
    text.length += std::ssize(path);
    text.nodes = 0;
  }
  void release(Index sequence) { texts_.erase(sequence); }

  // How many texts there are.
  Index size() const { return std::ssize(texts_); }

 private:
  struct Text {
    explicit Text(const M& prototype) : model(prototype) {}
    M model;
    Index length = 0, nodes = 0;  // of the context, and of the tree that is open after it
  };

  M prototype_;
  std::map<Index, Text> texts_;
  Numbers numbers_;
};

// Checks that each text of a batch is the text that a decoder of `alone` writes, with the text's own seed.
template <class Batch, class Alone>
void check_texts_alone(Batch& batch, const Alone& alone, specdec::Index gamma = 3) {
  const auto prompt = [](specdec::Index number) {
    std::vector<specdec::Token> tokens(static_cast<std::size_t>(1 + 7 * (number % 4)));
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<specdec::Token>((i * i + static_cast<std::size_t>(number)) % 3);
    return tokens;
  };
  const specdec::Options options{.max_new_tokens = 40, .gamma = gamma};
  for (specdec::Index number = 0; number < 10; ++number) {
    batch.add(prompt(number), options, std::mt19937_64(static_cast<std::uint64_t>(number)));
    batch.step();
  }
  batch.cancel(9);
  std::size_t texts = 0;
  for (const specdec::Finished& finished : batch.run()) {
    if (finished.error) std::rethrow_exception(finished.error);
    std::mt19937_64 rng(static_cast<std::uint64_t>(finished.sequence));
    CHECK(finished.result.tokens == alone().generate(prompt(finished.sequence), options, rng).tokens);
    CHECK(finished.result.tokens.size() == 40);
    ++texts;
  }
  CHECK(texts == 9);
}

}  // namespace support
