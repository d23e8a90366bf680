// The compared rules. To add a verifier of your own, write one line here.
// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>
#include <tuple>

#include "acceptance/prefix_coins.hpp"
#include "specdec/specdec.hpp"
#include "specdec/testing.hpp"

namespace acceptance {

/// A verifier with its name, and the reference for the law of its text.
template <class V>
struct Rule {
  std::string_view name;
  V verifier;
  specdec::testing::Reference reference = specdec::testing::Reference::sampling;
};

template <class V>
Rule(std::string_view, V) -> Rule<V>;
template <class V>
Rule(std::string_view, V, specdec::testing::Reference) -> Rule<V>;

/// Any specdec::Verifier may stand here. Every result says whether the rule keeps the law; this is checked, not
/// assumed.
inline const std::tuple rules{
    Rule{"token", specdec::TokenVerifier{}},
    Rule{"block", specdec::BlockVerifier{}},
    Rule{"greedy_block", specdec::GreedyBlockVerifier{}},
    Rule{"sample_match", specdec::SampleMatchVerifier{}},
    Rule{"argmax", specdec::ArgmaxVerifier{}, specdec::testing::Reference::greedy},
    Rule{"lenient", specdec::LenientVerifier{0.7}},
    Rule{"prefix_coins", PrefixCoins{}},
};

/// Whether the rule can be compared at this temperature. A rule that writes the target's likeliest tokens is compared at
/// temperature 0 only, where sampling writes them, too.
template <class V>
bool has_place(const Rule<V>& rule, double temperature) {
  return rule.reference == specdec::testing::Reference::sampling || temperature == 0;
}

}  // namespace acceptance
