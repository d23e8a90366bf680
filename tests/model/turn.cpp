// Turns: an object that refers to a model learns that another one has used the model.
// SPDX-License-Identifier: MIT
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <specdec/model/turn.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/threads.hpp"

namespace test_model_turn {

using namespace specdec;
using detail::Turn;
using detail::Turns;

TEST_CASE("a turn lasts until the next one is taken") {
  int model = 0;
  Turns turns = Turns::of<int>(model);
  Turn a, b;
  CHECK_FALSE(a.lasts(turns));
  a.take(turns);
  CHECK(a.lasts(turns));
  CHECK_FALSE(b.lasts(turns));
  b.take(turns);
  CHECK_FALSE(a.lasts(turns));
  CHECK(b.lasts(turns));
  a.take(turns);
  CHECK(a.lasts(turns));
}

TEST_CASE("a copy does not have the turn, and a moved object takes the turn along") {
  int model = 0;
  Turns turns = Turns::of<int>(model);
  Turn a;
  a.take(turns);
  Turn assigned;
  assigned.take(turns);
  a.take(turns);
  const Turn copied(a);
  assigned = a;
  CHECK(a.lasts(turns));
  CHECK_FALSE(copied.lasts(turns));
  CHECK_FALSE(assigned.lasts(turns));
  Turn moved(std::move(a));
  CHECK(moved.lasts(turns));
  CHECK_FALSE(a.lasts(turns));  // NOLINT: use after move is intended
  Turn last;
  last = std::move(moved);
  CHECK(last.lasts(turns));
  CHECK_FALSE(moved.lasts(turns));  // NOLINT
}

TEST_CASE("objects that refer to one model share turns, objects that hold a model have their own") {
  int first = 0, second = 0;
  Turns a = Turns::of<int&>(first), b = Turns::of<int&>(first), other = Turns::of<int&>(second);
  Turns held = Turns::of<int>(first);
  Turn turn, elsewhere, own;
  turn.take(a);
  elsewhere.take(other);
  own.take(held);
  CHECK(turn.lasts(a));
  CHECK(turn.lasts(b));
  Turn theirs;
  theirs.take(b);
  CHECK_FALSE(turn.lasts(a));
  CHECK(elsewhere.lasts(other));
  CHECK(own.lasts(held));
}

TEST_CASE("a copy of a holder has its own turns, and a copy of a reference shares them") {
  int model = 0;
  Turns held = Turns::of<int>(model), referred = Turns::of<int&>(model);
  Turns held_copy = held, referred_copy = referred;
  Turn own, shared, other;
  own.take(held);
  shared.take(referred);
  other.take(held_copy);
  CHECK(own.lasts(held));
  other.take(referred_copy);
  CHECK_FALSE(shared.lasts(referred));
  held_copy = referred;
  shared.take(held_copy);
  CHECK(shared.lasts(referred));
}

TEST_CASE("another model at an address that was used before is another model") {
  alignas(int) std::byte place[sizeof(int)];
  int* model = new (place) int(1);
  Turn turn;
  {
    Turns turns = Turns::of<int&>(*model);
    turn.take(turns);
    turn.take(turns);
  }
  Turns again = Turns::of<int&>(*model);
  CHECK_FALSE(turn.lasts(again));
}

TEST_CASE("the table of addresses forgets those that nobody uses any more") {
  const auto known_with_one_more = [] {
    int model = 0;
    const Turns turns = Turns::of<int&>(model);
    return Turns::known();
  };
  const std::size_t before = known_with_one_more();
  {
    const std::vector<int> models(100);
    std::vector<Turns> users;
    for (const int& model : models)
      for (int user = 0; user < 2; ++user) users.push_back(Turns::of<const int&>(model));
    CHECK(Turns::known() >= before - 1 + 100);
    CHECK(Turns::known() <= before + 100);
  }
  CHECK(known_with_one_more() == before);
}

TEST_CASE("decoders may be made on two threads, each over models of its own and one that both know") {
  const int shared = 0;
  std::atomic<int> lost = 0;
  support::TwoThreads{}(2, [&](Index) {
    const std::vector<int> own(8);  // on this thread only
    for (std::size_t i = 0; i < 50'000; ++i) {
      const int& model = own[i % own.size()];
      Turns first = Turns::of<const int&>(model), second = Turns::of<const int&>(model);
      const Turns of_both = Turns::of<const int&>(shared);
      Turn before, after;
      before.take(first);
      after.take(second);
      lost += before.lasts(first) || !after.lasts(first);
    }
  });
  CHECK(lost == 0);
}

namespace {

// What an engine's context is to C++: a handle, of which several may be made.
struct Handle {
  testing::TableModel<>* context;

  Index vocab_size() const { return context->vocab_size(); }
  auto forward(std::span<const Token> tokens, Index rows) { return context->forward(tokens, rows); }
  void truncate(Index length) { context->truncate(length); }
  std::vector<const void*> identities() const { return {context}; }
};

}  // namespace

TEST_CASE("handles of one context that say so take turns, and write what each writes alone") {
  std::mt19937_64 seed{1};
  auto context = testing::TableModel<>::random(5, 2, seed), small = testing::TableModel<>::random(5, 2, seed);
  const std::vector<Token> prompt{0, 1};
  const Options options{.max_new_tokens = 20, .gamma = 3};
  const auto alone = [&](std::uint64_t source) {
    std::mt19937_64 rng{source};
    return SpecDec{Handle{&context}, ModelDrafter{Handle{&small}}}.generate(prompt, options, rng).tokens;
  };
  const std::vector<std::vector<Token>> expected{alone(1), alone(2)};
  SpecDec one{Handle{&context}, ModelDrafter{Handle{&small}}},
      two{Handle{&context}, ModelDrafter{Handle{&small}}};
  auto first = one.start(prompt, options), second = two.start(prompt, options);
  std::mt19937_64 of_first{1}, of_second{2};
  while (!first.done() || !second.done()) {
    first.step(of_first);
    second.step(of_second);
  }
  CHECK(first.result().tokens == expected[0]);
  CHECK(second.result().tokens == expected[1]);
}

TEST_CASE("a wrapper that refers to a model has that model's identity, and one that holds a model its own") {
  struct Logits {
    Index vocab_size() const { return 2; }
    Eigen::MatrixXf forward(std::span<const Token>, Index rows) { return Eigen::MatrixXf::Zero(rows, 2); }
    void truncate(Index) {}
  };
  Logits model;
  ProcessedModel a{model, Chain{Temperature{1}}}, b{model, Chain{Temperature{0.5}}};
  ProcessedModel own{Logits{}, Chain{Temperature{1}}};
  using Addresses = std::vector<const void*>;
  CHECK(identities(a) == Addresses{&model});
  CHECK(identities(b) == identities(a));
  CHECK(identities(own) == Addresses{&own});
  using Refers = ProcessedModel<Logits&, Chain<Temperature>>;
  using Holds = ProcessedModel<Logits, Chain<Temperature>>;
  CHECK(detail::shared_identities<Refers>(a) == Addresses{&model});
  CHECK(detail::shared_identities<Refers&>(a) == Addresses{&model});
  CHECK(detail::shared_identities<Holds>(own).empty());
  CHECK(detail::shared_identities<Holds&>(own) == Addresses{&own});
}

}  // namespace test_model_turn
