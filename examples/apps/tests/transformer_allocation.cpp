// The transformer allocates nothing after warm-up: neither by operator new, which this program counts, nor by Eigen, which
// uses malloc. Eigen can be compiled to check each allocation. So this is a program of its own: its Eigen differs from the
// other tests' Eigen.
// SPDX-License-Identifier: MIT
#include <stdexcept>
#define EIGEN_RUNTIME_NO_MALLOC
#define eigen_assert(condition) \
  if (!(condition)) throw std::logic_error(#condition)

#include <Eigen/Core>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <specdec/more/heads/eagle_model.hpp>
#include <string>
#include <vector>

#include "small_transformer.hpp"
#include "support/catch.hpp"
#include "support/counted_allocations.hpp"
#include "support/temporary_file.hpp"
#include "transformer/batch.hpp"
#include "transformer/eagle.hpp"
#include "transformer/eagle_batch.hpp"
#include "transformer/medusa.hpp"
#include "transformer/online_model.hpp"
#include "transformer/sublayers.hpp"
#include "transformer/transformer.hpp"

namespace test_examples_transformer_allocation {

namespace {

using Eigen::Index;
using transformer::Sublayers;
using transformer::Token;
using transformer::Transformer;

/// While an object lives, Eigen's allocations throw std::logic_error.
struct NoMalloc {
  NoMalloc() { Eigen::internal::set_is_malloc_allowed(false); }
  ~NoMalloc() { Eigen::internal::set_is_malloc_allowed(true); }
};

// Whether the call allocates memory.
template <class Call>
bool allocates(Call&& call) {
  const std::size_t before = allocations;
  try {
    const NoMalloc no_malloc;
    call();
  } catch (const std::logic_error&) {
    return true;
  }
  return allocations != before;
}

}  // namespace

TEMPLATE_TEST_CASE("a transformer allocates nothing once it has been asked for as much", "", float,
                   Eigen::half) {
  // One key head for each query head, for some, and for all; vectors that fill panels and vectors that do not.
  for (const transformer::Shape& shape :
       {transformer::Shape{32, 48, 2, 2, 2, 40, 64, true}, transformer::Shape{96, 70, 2, 6, 2, 50, 64, false},
        transformer::Shape{40, 33, 1, 4, 1, 129, 64, true}}) {
    INFO(shape);
    const support::TemporaryFile file(support::RandomModel(shape, 1).versioned<float>());
    Transformer<TestType> model(file.path());
    const std::vector<Token> tokens(50, 2);
    const std::vector<Index> parents{-1, 0, 0, 1, -1}, path{0, 1, 3};
    const auto one = Sublayers::first(1), some = Sublayers::first(shape.n_layers).without(1);
    model.forward(tokens, 20);
    model.truncate(0);
    model.peek(tokens, 1, some);
    CHECK_FALSE(allocates([&] {
      model.truncate(0);
      model.forward(tokens, 20);               // a prompt
      for (const Index count : {9, 1, 4, 10})  // calls over drafts
        for (const Index rows : {Index{1}, count}) {
          const auto next = std::span(tokens).first(static_cast<std::size_t>(count));
          for (const Sublayers* const sublayers : {&one, &some}) {
            model.truncate(50);
            model.peek(next, 1, *sublayers);
            model.forward(next, rows);
          }
        }
      for (int calls = 0; calls < 4; ++calls) {
        model.truncate(30);
        model.forward(std::span(tokens).first(5), parents, 5);
        model.forward(std::span(tokens).first(5), parents, 1);
        model.keep(path);
      }
    }));
  }
}

TEST_CASE("a transformer of many contexts allocates nothing, though sequences come and go") {
  const support::TemporaryFile file(
      support::RandomModel({32, 48, 2, 2, 2, 40, 64, true}, 3).versioned<float>());
  transformer::TransformerBatch<float> model(file.path());
  const std::vector<Token> tokens(10, 2);
  const std::vector<Index> parents{-1, 0, 0, 1}, path{0, 1, 3};
  std::vector<specdec::BatchFeed> feeds(4);
  const auto call = [&](Index count, Index rows, std::span<const Index> branches) {
    for (specdec::BatchFeed& feed : feeds) {
      feed.tokens = std::span(tokens).first(static_cast<std::size_t>(count));
      feed.from = model.length(feed.sequence);
      feed.rows = rows;
      feed.parents = branches;
    }
    model.forward(feeds);
  };
  const auto generation = [&](Index first) {
    for (std::size_t i = 0; i < feeds.size(); ++i) feeds[i].sequence = first + static_cast<Index>(i);
    call(10, 0, {});
    call(4, 4, {});
    call(4, 4, parents);
    for (const specdec::BatchFeed& feed : feeds) model.keep(feed.sequence, path);
    call(1, 1, {});
    for (const specdec::BatchFeed& feed : feeds) model.release(feed.sequence);
  };
  CHECK(allocates([&] { generation(0); }));
  generation(4);
  CHECK_FALSE(allocates([&] {
    for (Index n = 2; n < 10; ++n) generation(4 * n);
  }));
}

namespace {

// A small EAGLE layer, all of zeros.
transformer::Eagle<float> eagle_of_zeros() {
  std::string weights;
  for (const std::int32_t word : {0x6c676165, 1, 40, 16, 32, 2, 1, 48, 64, 2, 1, 2})
    support::append(weights, word);
  const int norms = 32 + 5 * 32,
            matrices = 32 * 32 + 40 * 32 + 32 * 64 + 32 * (32 + 16 + 16 + 32) + 3 * 48 * 32;
  weights.resize(256 + 2 * (norms + matrices));
  const support::TemporaryFile file(weights);
  return transformer::Eagle<float>(file.path());
}

}  // namespace

TEST_CASE("an EAGLE layer allocates nothing, though its context grows and is cut") {
  transformer::Eagle<float> layer = eagle_of_zeros();
  const std::vector<Token> tokens(6, 2);
  const std::vector<Index> parents{-1, 0, 0, 1, -1, 3}, path{0, 1, 3};
  const Eigen::VectorXf hidden = Eigen::VectorXf::Ones(32);
  Eigen::MatrixXf states(32, 6), next(32, 6);
  const auto draft = [&](Index rows) {
    for (Index i = 0; i < 6; ++i) layer.begin(hidden, states.col(i));
    layer.forward(states, tokens, next, rows);
    layer.forward(states, tokens, parents, next, rows);
    layer.keep(path);
    layer.truncate(2);
  };
  draft(4);
  CHECK_FALSE(allocates([&] {
    draft(4);
    draft(1);
  }));
}

TEST_CASE("an EAGLE layer for many texts allocates nothing, though sequences come and go") {
  transformer::EagleBatch<float> layer(eagle_of_zeros().weights());
  const std::vector<Token> tokens(6, 2);
  const std::vector<Index> parents{-1, 0, 0, 1, -1, 3}, path{0, 1, 3};
  const Eigen::VectorXf hidden = Eigen::VectorXf::Ones(32);
  Eigen::MatrixXf states(32, 12), next(32, 12);
  const auto draft = [&](Index sequence, Index rows) {
    std::array<specdec::BatchFeed, 2> feeds{{{{tokens, 0, rows}, sequence}, {{tokens, 0, 6}, sequence + 1}}};
    for (Index i = 0; i < 12; ++i) layer.begin(hidden, states.col(i));
    layer.forward(states, feeds, next);
    for (specdec::BatchFeed& feed : feeds) feed.from = 6, feed.parents = parents;
    layer.forward(states, feeds, next);
    layer.keep(sequence, path);
    layer.keep(sequence + 1, 2);
    for (const specdec::BatchFeed& feed : feeds) layer.release(feed.sequence);
  };
  CHECK(allocates([&] { draft(0, 4); }));
  draft(0, 4);
  CHECK_FALSE(allocates([&] {
    draft(2, 4);
    draft(1, 0);
  }));
}

TEST_CASE("an EAGLE layer that drafts for many texts allocates nothing in steady state") {
  const support::TemporaryFile file(
      support::RandomModel({16, 48, 2, 2, 2, 40, 64, true}, 6).versioned<float>());
  transformer::TransformerBatch<float> target(file.path());
  transformer::EagleBatch<float> layer(eagle_of_zeros().weights());
  target.show_hidden(layer.layers());
  specdec::EagleModel eagle{target, layer};
  const std::vector<Token> tokens(6, 2);
  const std::vector<Index> parents{-1, 0, 0, 1, -1, 3}, path{0, 1, 3};
  std::array<specdec::BatchFeed, 2> feeds{{{{tokens, 0, 1}, 0}, {{tokens, 0, 1}, 1}}};
  const auto begin = [&] {
    target.forward(feeds);
    eagle.forward(feeds);
  };
  begin();
  const auto draft = [&] {
    for (specdec::BatchFeed& feed : feeds) feed.from = 6, feed.rows = 6;
    eagle.forward(feeds);
    for (specdec::BatchFeed& feed : feeds) feed.from = 12, feed.parents = parents;
    eagle.forward(feeds);
    eagle.keep(0, path);
    for (specdec::BatchFeed& feed : feeds) {
      feed.parents = {};
      eagle.keep(feed.sequence, 6);
    }
  };
  CHECK(allocates(draft));
  draft();
  CHECK_FALSE(allocates([&] {
    for (int step = 0; step < 5; ++step) draft();
  }));
}

TEST_CASE("Medusa's heads allocate nothing, though hidden states change") {
  const support::TemporaryFile model(
      support::RandomModel({32, 48, 2, 2, 2, 40, 64, true}, 4).versioned<float>());
  std::string weights;
  for (const std::int32_t word : {0x7564656d, 1, 40, 32, 3, 20, 5}) support::append(weights, word);
  weights.resize(256 + 2 * (32 + 2 * 3 * 20 * 32 + 2 * 40 * 5));  // all are zero
  const support::TemporaryFile file(weights);
  transformer::Medusa<float> medusa(file.path(), Transformer<float>(model.path()));
  const std::vector<Token> tokens(6, 2);
  const Eigen::VectorXf one = Eigen::VectorXf::Ones(32), zero = Eigen::VectorXf::Zero(32);
  Eigen::MatrixXf states(33, 6), next(33, 6);
  const auto draft = [&](const Eigen::VectorXf& hidden, Index rows) {
    for (Index i = 0; i < 6; ++i) medusa.begin(hidden, states.col(i));
    medusa.forward(states, tokens, next, rows);
  };
  draft(one, 4);
  CHECK_FALSE(allocates([&] {
    draft(zero, 4);
    draft(one, 1);
  }));
}

TEST_CASE("a draft model that learns allocates nothing") {
  const support::TemporaryFile file(
      support::RandomModel({32, 48, 2, 2, 2, 40, 64, true}, 5).versioned<float>());
  const Eigen::ArrayXf row = Eigen::ArrayXf::Constant(40, 1.0F / 40);
  for (const double temperature : {0.0, 0.8}) {
    transformer::OnlineModel<float> model(Transformer<float>(file.path()), {.temperature = temperature});
    const std::vector<Token> tokens(6, 2);
    model.forward(tokens, 4);
    CHECK_FALSE(allocates([&] {
      for (Index length = 3; length <= 6; ++length) model.learn(length, row);
      model.truncate(2);
      model.forward(std::span(tokens).first(3), 3);
    }));
  }
}

TEST_CASE("that check notices memory for a longer call, for more rows, and from operator new") {
  const support::TemporaryFile file(
      support::RandomModel({32, 48, 2, 2, 2, 40, 64, true}, 2).versioned<float>());
  Transformer<float> model(file.path());
  const std::vector<Token> tokens(10, 2);
  CHECK(allocates([&] { model.forward(tokens, 1); }));
  model.forward(tokens, 1);
  CHECK_FALSE(allocates([&] { model.forward(tokens, 1); }));
  CHECK(allocates([&] { model.forward(tokens, 2); }));
  std::vector<Token> copy;
  CHECK(allocates([&] { copy = tokens; }));
}

}  // namespace test_examples_transformer_allocation
