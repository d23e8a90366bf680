// must say: a rule of ratios would bias the text with them
// A coin that is flipped by hand.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>

#ifdef FIXED
using Source = std::mt19937_64;
#else
using Source = specdec::Keyed;
#endif

bool use() {
  Source source{42};
  auto&& chance = specdec::as_chance(source);
  return chance.coin(0.5);
}
