// Data that all benches on one pool share: its rows, the drafts that every rule judges, the baseline of all gains.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "acceptance/hashed_model.hpp"
#include "acceptance/one_step.hpp"
#include "acceptance/pool.hpp"
#include "acceptance/whole_loop.hpp"

namespace acceptance {

/// How much is measured: the number of drafts, and the number and length of generations.
struct Effort {
  Index drafts;
  Length length;

  static Effort quick() { return {500, {16, 40}}; }
  static Effort full(Index vocab_size) {
    if (vocab_size > 100'000) return {2'000, {32, 100}};
    if (vocab_size > 10'000) return {10'000, {64, 250}};
    return {20'000, {64, 1000}};
  }
};

class Shared {
 public:
  /// Drafts will have up to `longest` tokens.
  Shared(const PoolSetting& setting, const Effort& effort, Index longest)
      : pool_(setting), effort_(effort), longest_(longest) {}

  // Not copyable: the members point into the pool.
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  const Pool& pool() const { return pool_; }

  const Drafts& drafts() {
    if (!drafts_) drafts_.emplace(pool_, order, longest_, effort_.drafts, seed(1));
    return *drafts_;
  }

  template <class V>
  Measured one_step(const V& verifier, Index gamma) {
    return acceptance::one_step(verifier, drafts(), gamma, seed(2));
  }

  template <class V>
  Measured whole_loop(const V& verifier, Index gamma) {
    return acceptance::whole_loop(verifier, target_, draft_, gamma, effort_.length, seed(3), token(gamma));
  }

 private:
  static constexpr Index order = 2;  // number of tokens that choose the context

  std::uint64_t seed(std::uint64_t of) const { return mixed(pool_.setting().seed, of << 32); }

  // Token verification over whole generations: the baseline.
  const Collector& token(Index gamma) {
    const auto found = token_.find(gamma);
    if (found != token_.end()) return found->second;
    return token_
        .emplace(gamma, generate(specdec::TokenVerifier{}, target_, draft_, gamma, effort_.length, seed(3)))
        .first->second;
  }

  Pool pool_;
  Effort effort_;
  Index longest_;
  HashedModel target_{pool_, Side::target, order}, draft_{pool_, Side::draft, order};
  std::optional<Drafts> drafts_;
  std::map<Index, Collector> token_;
};

}  // namespace acceptance
