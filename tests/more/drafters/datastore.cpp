// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <specdec/chance/random.hpp>
#include <specdec/more/drafters/datastore.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_draft_datastore {

using namespace specdec;
using support::message_of;
using Tokens = std::vector<Token>;

namespace {

Tokens random_text(std::mt19937_64& rng, Token vocab, int size) {
  Tokens text;
  for (int k = 0; k < size; ++k)
    text.push_back(uniform01(rng) < 0.05 ? Datastore::separator : static_cast<Token>(uniform01(rng) * vocab));
  return text;
}

// How often each token follows the string, by a scan.
std::map<Token, Index> scanned(const Tokens& text, std::span<const Token> string) {
  std::map<Token, Index> found;
  for (std::size_t end = string.size(); end < text.size(); ++end)
    if (text[end] != Datastore::separator &&
        std::equal(string.begin(), string.end(),
                   text.begin() + static_cast<std::ptrdiff_t>(end - string.size())))
      ++found[text[end]];
  return found;
}

std::map<Token, Index> searched(const Datastore& store, const Datastore::Places& places) {
  std::map<Token, Index> found;
  store.each_continuation(places, [&](Token x, Index count) { found[x] += count; });
  return found;
}

}  // namespace

TEST_CASE("a datastore finds every occurrence of a string, and what follows it") {
  std::mt19937_64 rng{1};
  for (int k = 0; k < 60; ++k) {
    const Tokens text = random_text(rng, 1 + k % 4, 1 + k * 3);
    const auto order = Datastore::sorted(text);
    const Datastore store(text, order);
    CHECK(store.size() == std::ssize(text));
    for (int string = 0; string < 40; ++string) {
      Tokens wanted = random_text(rng, 1 + k % 4, static_cast<int>(rng() % 5));
      std::erase(wanted, Datastore::separator);
      const Datastore::Places places = store.find(wanted);
      CHECK(searched(store, places) == scanned(text, wanted));
      CHECK(places.length == std::ssize(wanted));
    }
  }
}

TEST_CASE("the longest match is the longest end of the context that has a token after it") {
  std::mt19937_64 rng{2};
  for (int k = 0; k < 200; ++k) {
    const Tokens text = random_text(rng, 3, 60);
    const auto order = Datastore::sorted(text);
    const Datastore store(text, order);
    Tokens context = random_text(rng, 3, 8);
    std::erase(context, Datastore::separator);
    const Index most = static_cast<Index>(rng() % 9);
    const Datastore::Places found = store.longest_match(context, most);
    Index longest = std::min(most, std::ssize(context));
    while (longest > 0 && scanned(text, std::span(context).last(static_cast<std::size_t>(longest))).empty())
      --longest;
    REQUIRE(found.length == longest);
    CHECK(found == store.find(std::span(context).last(static_cast<std::size_t>(longest))));
  }
}

namespace {

// Documents that begin with one string of so many tokens and go on in three ways, each for long.
Tokens that_begin_alike(std::mt19937_64& rng, int length, int documents) {
  Tokens beginning, text;
  for (int k = 0; k < length; ++k) beginning.push_back(static_cast<Token>(rng() % 2));
  for (int n = 0; n < documents; ++n) {
    text.insert(text.end(), beginning.begin(), beginning.end());
    const auto next = static_cast<Token>(rng() % 3);
    for (int k = 0; k < 4; ++k) text.push_back((next + static_cast<Token>(k)) % 3);
    text.push_back(Datastore::separator);
  }
  return text;
}

}  // namespace

TEST_CASE("strings up to the depth of the order are found at all of their places") {
  std::mt19937_64 rng{4};
  const int depth = static_cast<int>(Datastore::sorted_depth);
  for (int length = 17; length < depth; ++length) {
    const Tokens text = that_begin_alike(rng, length, 30);
    const auto order = Datastore::sorted(text);
    const Datastore store(text, order);
    const Tokens string(text.begin(), text.begin() + length);
    const auto expected = scanned(text, string);
    REQUIRE(expected.size() == 3);
    CHECK(searched(store, store.find(string)) == expected);
  }
}

TEST_CASE("no match is longer than its continuations are in order") {
  std::mt19937_64 rng{5};
  const int depth = static_cast<int>(Datastore::sorted_depth);
  for (const int length : {depth - 1, depth, depth + 6}) {
    const Tokens text = that_begin_alike(rng, length, 30);
    const auto order = Datastore::sorted(text);
    const Datastore store(text, order);
    const Tokens context(text.begin(), text.begin() + length);
    const Datastore::Places match = store.longest_match(context, depth + 16);
    CHECK(match.length == depth - 1);
    CHECK(searched(store, match) ==
          scanned(text, std::span(context).last(static_cast<std::size_t>(depth - 1))));
  }
}

TEST_CASE("an empty datastore has no match") {
  const Datastore store;
  const Tokens context{1, 2};
  CHECK(store.size() == 0);
  CHECK(store.find(context).count() == 0);
  CHECK(store.longest_match(context, 4) == store.all());
}

TEST_CASE("a datastore file is read where it lies") {
  std::mt19937_64 rng{3};
  const Tokens text = random_text(rng, 5, 300);
  std::ostringstream file;
  Datastore::write(file, text);
  const std::string bytes = file.str();
  std::vector<std::uint32_t> aligned(bytes.size() / 4);
  REQUIRE(bytes.size() == 4 * aligned.size());
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  const Datastore store(std::as_bytes(std::span(aligned)));
  CHECK(store.size() == 300);
  for (const Tokens& string : {Tokens{}, Tokens{1}, Tokens{2, 3}})
    CHECK(searched(store, store.find(string)) == scanned(text, string));
}

TEST_CASE("a file that is no datastore, or is cut, is refused") {
  std::ostringstream file;
  Datastore::write(file, Tokens{1, 2, 3});
  const std::string bytes = file.str();
  alignas(std::uint32_t) char copy[128];
  std::memcpy(copy, bytes.data(), bytes.size());
  const auto error = [&](std::size_t from, std::size_t size) {
    return message_of([&] { Datastore{std::as_bytes(std::span(copy).subspan(from, size))}; });
  };
  CHECK(error(0, bytes.size()).empty());
  CHECK(error(0, 10) == "specdec: a datastore file has only 10 bytes");
  CHECK(error(0, bytes.size() - 4) == "specdec: a datastore file of 3 tokens has 40 bytes, expected 44");
  CHECK(error(0, bytes.size() + 1) == "specdec: a datastore file of 3 tokens has 45 bytes, expected 44");
  std::memmove(copy + 1, copy, bytes.size());
  CHECK(error(1, bytes.size()) ==
        "specdec: the bytes of a datastore file are not aligned for 32-bit numbers");
  std::memcpy(copy, bytes.data(), bytes.size());
  copy[12] ^= 1;
  CHECK(error(0, bytes.size()) ==
        "specdec: the file is no datastore, or of a machine with another order of bytes");
}

TEST_CASE("bad texts and lists are named") {
  CHECK(message_of([] {
          static_cast<void>(Datastore::sorted(Tokens{1, -2}));
        }) == "specdec: tokens[1] = -2 is negative");
  const Tokens text{1, 2};
  const std::vector<std::uint32_t> order{0};
  CHECK(message_of([&] { Datastore(text, order); }) ==
        "specdec: a datastore has 2 tokens, but an order of 1");
  std::ostringstream closed;
  closed.setstate(std::ios::badbit);
  CHECK(message_of<std::runtime_error>([&] { Datastore::write(closed, text); }) ==
        "specdec: the datastore could not be written");
}

TEST_CASE("an order of places beyond the text reads nothing beyond it") {
  const Tokens text{1, 2};
  const std::vector<std::uint32_t> wrong{4000000000U, 7};
  const Datastore store(text, wrong);
  CHECK(store.longest_match(Tokens{1}, 4).length == 0);
}

}  // namespace test_draft_datastore
