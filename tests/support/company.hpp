// Drafters for many sequences, compared with a drafter for each.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <vector>

#include "support/any_strategy.hpp"
#include "support/bookkeeper.hpp"
#include "support/catch.hpp"
#include "support/models.hpp"
#include "support/tree_models.hpp"

namespace support {

// A sequence, and the drafter that it would have alone.
struct Alone {
  WatchedTreeModel model;
  std::unique_ptr<OneDrafter> drafter;
  std::vector<Token> text;

  Alone(const specdec::testing::TableModel<>& table, Index most, const AnyStrategy& strategy,
        std::size_t prompt)
      : model(table, most), drafter(strategy.drafter(model)), text(prompt, 2) {}
};

// Sequences come and go, and some of them ask for drafts. Calls fail, and are tried again with equal random numbers.
// Each draft must be what it is alone. Where no call fails, the model must be fed what it is fed alone. With `twins` some
// sequences begin as twins of others; then it must be fed less.
inline void check_company(const AnyStrategy& strategy, bool calls_fail, Index most = specdec::unlimited,
                          bool twins = false) {
  using specdec::SplitMix64;
  using Request = specdec::DraftRequest<SplitMix64>;
  std::mt19937_64 rng{21};
  const auto below = [&](Index n) { return static_cast<Index>(rng() % static_cast<std::uint64_t>(n)); };
  const auto table = coarse_model(4, 3, rng);
  ForkingBookkeeper model(table, most);
  const auto drafter = strategy.drafter(model);
  std::map<Index, std::unique_ptr<Alone>> sequences;
  Index next = 0, gone = 0, fed_to_gone = 0, drafts = 0;
  for (int step = 0; step < 220; ++step) {
    if (sequences.size() < 5 && below(3) == 0)
      sequences[next++] =
          std::make_unique<Alone>(table, most, strategy, static_cast<std::size_t>(1 + below(5)));
    while (twins && !sequences.empty() && sequences.size() < 7 && below(3) == 0) {
      const auto& [number, parent] = *std::next(sequences.begin(), below(std::ssize(sequences)));
      auto twin = std::make_unique<Alone>(table, most, strategy, 0);
      twin->text = parent->text;
      if (below(2) == 0) {  // the two have gone on since
        twin->text.resize(static_cast<std::size_t>(1 + below(std::ssize(twin->text))));
        twin->text.push_back(static_cast<Token>(below(4)));
        twin->text.push_back(static_cast<Token>(below(4)));
      }
      model.refuses = calls_fail && below(4) == 0;
      try {
        drafter->fork_context(number, next, specdec::detail::common_length(twin->text, parent->text));
      } catch (const Bookkeeper::Failure&) {
        REQUIRE(model.refuses);
      }
      sequences[next++] = std::move(twin);
    }
    if (!sequences.empty() && below(12) == 0) {
      const auto leaves = std::next(sequences.begin(), below(std::ssize(sequences)));
      fed_to_gone += leaves->second->model.fed;
      drafter->release(leaves->first);
      CHECK_FALSE(model.contexts.contains(leaves->first));
      sequences.erase(leaves);
      ++gone;
    }
    std::vector<Request> requests;
    std::vector<SplitMix64> sources;
    const std::uint64_t seed = rng();
    for (const auto& [number, sequence] : sequences)
      if (below(4) > 0)
        requests.push_back({.sequence = number,
                            .context = sequence->text,
                            .limits = {.nodes = below(12), .depth = 1 + below(4)}});
    bool drafted = false, again = true;
    while (!drafted && again) {
      sources.clear();
      for (const Request& request : requests)
        sources.emplace_back(seed + static_cast<std::uint64_t>(request.sequence));
      for (std::size_t i = 0; i < requests.size(); ++i) requests[i].source = &sources[i];
      if (calls_fail) {
        model.fails_at = model.calls + 1 + below(6);
        model.fails_behind = model.calls + 1 + below(6);
        model.one_row_short_at = model.calls + 1 + below(6);
      }
      try {
        drafter->draft(std::span<Request>(requests));
        drafted = true;
      } catch (const Bookkeeper::Failure&) {
      } catch (const std::invalid_argument&) {  // a call that returned a row too few
        if (!calls_fail) throw;
      }
      again = below(3) > 0;  // else other drafts are asked for
    }
    if (!drafted) {  // the texts go on without a draft
      for (const Request& request : requests)
        for (Index more = below(4); more > 0; --more)
          sequences.at(request.sequence)->text.push_back(static_cast<Token>(below(4)));
      continue;
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Request& request = requests[i];
      REQUIRE_FALSE(request.error);
      Alone& own = *sequences.at(request.sequence);
      SplitMix64 source(seed + static_cast<std::uint64_t>(request.sequence));
      const KeptTree tree = drafter->drafted(request.sequence);
      REQUIRE(tree == own.drafter->draft(own.text, request.limits, source));
      REQUIRE(source() == sources[i]());
      drafts += tree.tokens.size() > 1;
      const Index node = below(std::ssize(tree.tokens) + 1) - 1;
      own.text = text_before(own.text, tree.tokens, tree.parents, node);
      own.drafter->truncate(std::ssize(own.text));
      drafter->keep(request.sequence, std::ssize(own.text));
      own.text.push_back(static_cast<Token>(below(5)));  // perhaps a token that the model does not know
    }
  }
  CHECK(gone > 2);
  CHECK(drafts > (most == specdec::unlimited ? 50 : 10));
  CHECK((model.failures > 20) == calls_fail);
  if (calls_fail) return;
  for (const auto& [number, sequence] : sequences) fed_to_gone += sequence->model.fed;
  CHECK((model.forks > 10) == twins);
  if (twins) CHECK(model.fed < fed_to_gone);
  else CHECK(model.fed == fed_to_gone);
}

}  // namespace support
