// Rules for trees on rows of every kind, called several times in a row, with any rows and parents. A verdict is a path
// from the context and a token of positive probability after it. If the input cannot be judged, the call is an error
// that leaves the rule as it was.
// SPDX-License-Identifier: MIT
#include <concepts>
#include <optional>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <variant>
#include <vector>

#include "fuzz/bytes.hpp"
#include "fuzz/rows.hpp"
#include "fuzz/target.hpp"

namespace {

using namespace fuzz;
using specdec::TreeVerdict;
using specdec::TrunkAndSpares;

using Rule =
    std::variant<specdec::TraversalVerifier, specdec::RecursiveRejectionVerifier, specdec::KSeqVerifier,
                 TrunkAndSpares<specdec::BlockVerifier>, TrunkAndSpares<specdec::SampleMatchVerifier>>;

template <std::size_t I = 0>
Rule rule_of(Index which) {
  if constexpr (I + 1 < std::variant_size_v<Rule>)
    if (which != I) return rule_of<I + 1>(which);
  return Rule(std::in_place_index<I>);
}

struct Tree {
  std::vector<Token> tokens;
  std::vector<Index> parents;
};

// The verdict, or nothing if the input is refused.
template <class Target, class Draft>
std::optional<TreeVerdict> judged(Rule& rule, const Target& target, const Draft& draft, const Tree& tree,
                                  std::uint64_t seed) {
  const Rule before = rule;
  try {
    specdec::SplitMix64 source(seed);
    return std::visit(
        [&](auto& verifier) {
          return specdec::verify(verifier, target, draft, tree.tokens, tree.parents, source);
        },
        rule);
  } catch (const std::invalid_argument&) {
    require(rule == before);
    return {};
  }
}

template <class Target, class Draft>
void check(Bytes& bytes, Rule& rule, const Target& target, const Draft& draft, const Tree& tree, bool exact) {
  const std::uint64_t seed = bytes.byte();
  Rule again = rule;
  const auto verdict = judged(rule, target, draft, tree, seed);
  require(judged(again, target, draft, tree, seed) == verdict && again == rule);
  if (!verdict) return;
  Index last = -1;
  for (const Index k : verdict->path) {
    require(k > last && k < std::ssize(tree.tokens));
    require(tree.parents[static_cast<std::size_t>(k)] == last);
    last = k;
  }
  const auto rows = specdec::distributions(target);
  require(verdict->token >= 0 && verdict->token < rows.vocab_size());
  if (exact) require(rows.row(last + 1).probability(verdict->token) > 0);
}

Tree tree_of(Bytes& bytes, Index size, Index vocab_size) {
  Tree tree;
  const bool fair = bytes.up_to(7) != 0;
  for (Index k = 0; k < size; ++k) {
    tree.tokens.push_back(fair ? static_cast<Token>(bytes.up_to(vocab_size - 1))
                               : static_cast<Token>(bytes.size()));
    tree.parents.push_back(fair ? bytes.up_to(k) - 1 : bytes.size());
  }
  if (!fair && size > 0 && bytes.flag()) tree.parents.pop_back();
  return tree;
}

// A draft of one-hot rows.
struct OneHot {
  const std::vector<Token>& tokens;
  auto view() const { return specdec::OneHotRows(tokens); }
};

template <class Target, class Draft>
void run(Bytes& bytes, Rule& rule) {
  Index size = bytes.up_to(9);
  if (size == 9) size = 60 + bytes.up_to(8);
  const Index vocab_size = 1 + bytes.up_to(7), wrong = bytes.up_to(31);
  const Tree tree = tree_of(bytes, size, vocab_size);
  const Target target(bytes, wrong == 1 ? bytes.up_to(8) : size + 1, vocab_size);
  const auto draft = [&] {
    if constexpr (std::same_as<Draft, OneHot>) return OneHot{tree.tokens};
    else
      return Draft(bytes, wrong == 2 ? bytes.up_to(8) : size, wrong == 3 ? 1 + bytes.up_to(9) : vocab_size);
  }();
  bool ordered = true;
  if constexpr (requires { target.ordered; }) ordered = target.ordered;
  try {
    check(bytes, rule, target.view(), draft.view(), tree, ordered);
  } catch (const std::invalid_argument&) {  // an invalid temperature: there is no view
  }
}

}  // namespace

void fuzz::tree(std::span<const std::uint8_t> data) {
  Bytes bytes(data);
  Rule rule = rule_of(bytes.up_to(std::variant_size_v<Rule> - 1));
  while (!bytes.empty()) {
    switch (bytes.up_to(5)) {
      case 0:
        run<Dense<RowMajor<float>>, Dense<RowMajor<float>>>(bytes, rule);
        break;
      case 1:
        run<Dense<RowMajor<float>>, OneHot>(bytes, rule);
        break;
      case 2:
        run<Lists, Lists>(bytes, rule);
        break;
      case 3:
        run<LogitsOf, LogitsOf>(bytes, rule);
        break;
      case 4:
        run<LogitsOf, OneHot>(bytes, rule);
        break;
      default:
        run<Pointers, Lists>(bytes, rule);
        break;
    }
  }
}
