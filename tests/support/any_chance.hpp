// Random numbers or an enumeration, as one type. Code over it is compiled once for both.
// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

namespace support {

class AnyChance {
 public:
  explicit(false) AnyChance(specdec::SplitMix64& random) : random_(&random) {}
  explicit(false) AnyChance(specdec::testing::Enumerator& all) : all_(&all) {}

  bool coin(double h) { return all_ ? all_->coin(h) : specdec::RandomChance(*random_).coin(h); }
  specdec::Token draw(const auto& row, specdec::Index place = 0) {
    return all_ ? all_->draw(row, place) : specdec::RandomChance(*random_).draw(row, place);
  }
  specdec::Token draw_again(auto& sampler, const auto& row) {
    return all_ ? all_->draw_again(sampler, row) : specdec::RandomChance(*random_).draw_again(sampler, row);
  }
  std::optional<specdec::Token> race(double w, const auto&... rows) {
    return all_ ? all_->race(w, rows...) : specdec::RandomChance(*random_).race(w, rows...);
  }

 private:
  specdec::SplitMix64* random_ = nullptr;
  specdec::testing::Enumerator* all_ = nullptr;
};

}  // namespace support
