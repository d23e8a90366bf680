// The trie of contexts against a direct count of what follows what.
// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <specdec/more/models/ngram_counts.hpp>
#include <vector>

#include "support/catch.hpp"

namespace test_more_models_ngram_counts {

using specdec::Index;
using specdec::Token;
using Counts = specdec::detail::NgramCounts;
using Tokens = std::vector<Token>;

namespace {

using Following = std::map<Token, Index>;

// What follows each context of up to order − 1 tokens.
std::map<Tokens, Following> count(const Tokens& text, Index order) {
  std::map<Tokens, Following> counts;
  for (std::size_t i = 0; i < text.size(); ++i)
    for (std::size_t k = 0; k < static_cast<std::size_t>(order) && k <= i; ++k)
      ++counts[Tokens(text.begin() + static_cast<std::ptrdiff_t>(i - k),
                      text.begin() + static_cast<std::ptrdiff_t>(i))][text[i]];
  return counts;
}

Index find(const Counts& counts, const Tokens& context) {
  Index node = Counts::root;
  for (auto x = context.rbegin(); x != context.rend() && node != Counts::none; ++x)
    node = counts.child(node, *x);
  return node;
}

Following successors(const Counts& counts, Index node) {
  Following out;
  Token last = -1;
  for (const auto& [token, n] : counts.successors(node)) {
    CHECK(token > last);
    last = token;
    out[token] = n;
  }
  return out;
}

}  // namespace

TEST_CASE("every context of the text is a node that knows what follows it, and there are no other nodes") {
  std::mt19937 rng{1};
  for (const unsigned vocab_size : {1u, 2u, 5u})
    for (const std::size_t size : {0u, 1u, 2u, 3u, 40u})
      for (const Index order : {1, 2, 4, 50}) {
        Tokens text(size);
        for (Token& x : text) x = static_cast<Token>(rng() % vocab_size);
        const Counts counts(text, order, vocab_size);
        CAPTURE(vocab_size, size, order);
        CHECK(counts.order() == order);
        CHECK(counts.vocab_size() == static_cast<Index>(vocab_size));
        CHECK(counts.parent(Counts::root) == Counts::none);
        const auto expected = count(text, order);
        for (const auto& [context, following] : expected) {
          const Index node = find(counts, context);
          REQUIRE(node != Counts::none);
          CHECK(successors(counts, node) == following);
          Index total = 0;
          for (const auto& [token, n] : following) total += n;
          CHECK(counts.total(node) == total);
          if (context.empty()) continue;
          CHECK(counts.parent(node) == find(counts, Tokens(context.begin() + 1, context.end())));
          for (Token x = 0; x < static_cast<Token>(vocab_size); ++x) {
            Tokens longer{x};
            longer.insert(longer.end(), context.begin(), context.end());
            CHECK((counts.child(node, x) == Counts::none) == !expected.contains(longer));
          }
        }
      }
}

TEST_CASE("an empty text leaves only the root") {
  const Counts counts(Tokens{}, 3, 4);
  CHECK(counts.total(Counts::root) == 0);
  CHECK(counts.successors(Counts::root).empty());
  for (Token x = 0; x < 4; ++x) CHECK(counts.child(Counts::root, x) == Counts::none);
}

}  // namespace test_more_models_ngram_counts
