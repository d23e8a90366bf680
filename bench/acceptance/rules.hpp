// The rules that are compared. A verifier of your own enters by one line here.
#pragma once

#include <string_view>
#include <tuple>

#include "acceptance/prefix_coins.hpp"
#include "specdec/specdec.hpp"
#include "specdec/testing.hpp"

namespace acceptance {

/// A verifier under a name, and what its text is held against.
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

/// Any specdec::Verifier. The second column of every result says whether it
/// kept the law: nothing is taken on trust.
inline const std::tuple rules{
    Rule{"token", specdec::TokenVerifier{}},
    Rule{"block", specdec::BlockVerifier{}},
    Rule{"greedy_block", specdec::GreedyBlockVerifier{}},
    Rule{"sample_match", specdec::SampleMatchVerifier{}},
    Rule{"argmax", specdec::ArgmaxVerifier{}, specdec::testing::Reference::greedy},
    Rule{"lenient", specdec::LenientVerifier{0.7}},
    Rule{"prefix_coins", PrefixCoins{}},
};

/// Whether the rule can be compared at this temperature of sampling: one that writes the target's likeliest
/// tokens is no rival of those that sample, except where that is what sampling does.
template <class V>
bool has_place(const Rule<V>& rule, double temperature) {
  return rule.reference == specdec::testing::Reference::sampling || temperature == 0;
}

}  // namespace acceptance
