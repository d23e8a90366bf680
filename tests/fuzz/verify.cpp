// Rules on rows of every kind, called several times in a row, with any numbers. A verdict is valid and its token has
// positive probability. If the input cannot be judged, the call is an error that leaves the rule as it was.
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
using specdec::Verdict;

using Rule = std::variant<specdec::BlockVerifier, specdec::TokenVerifier, specdec::GreedyBlockVerifier,
                          specdec::SampleMatchVerifier, specdec::LenientVerifier, specdec::ArgmaxVerifier>;

Rule rule_of(Bytes& bytes) {
  switch (bytes.up_to(5)) {
    case 1:
      return specdec::TokenVerifier{};
    case 2:
      return specdec::GreedyBlockVerifier{};
    case 3:
      return specdec::SampleMatchVerifier{};
    case 4:
      return specdec::LenientVerifier{static_cast<double>(1 + bytes.up_to(9)) / 10};
    case 5:
      return specdec::ArgmaxVerifier{};
    default:
      return specdec::BlockVerifier{};
  }
}

// The verdict, or nothing if the input is refused.
template <class Target, class Draft>
std::optional<Verdict> judged(Rule& rule, const Target& target, const Draft& draft,
                              const std::vector<Token>& tokens, std::uint64_t seed) {
  const Rule before = rule;
  try {
    specdec::SplitMix64 source(seed);
    return std::visit(
        [&](auto& verifier) { return specdec::verify(verifier, target, draft, tokens, source); }, rule);
  } catch (const std::invalid_argument&) {
    require(rule == before);
    return {};
  }
}

template <class Target, class Draft>
void check(Bytes& bytes, Rule& rule, const Target& target, const Draft& draft,
           const std::vector<Token>& tokens, bool exact) {
  const std::uint64_t seed = bytes.byte();
  Rule again = rule;
  const auto verdict = judged(rule, target, draft, tokens, seed);
  require(judged(again, target, draft, tokens, seed) == verdict && again == rule);
  if (!verdict) return;
  const auto rows = specdec::distributions(target);
  require(verdict->accepted >= 0 && verdict->accepted <= std::ssize(tokens));
  require(verdict->token >= 0 && verdict->token < rows.vocab_size());
  if (exact) require(rows.row(verdict->accepted).probability(verdict->token) > 0);
}

std::vector<Token> tokens_of(Bytes& bytes, Index gamma, Index vocab_size) {
  std::vector<Token> tokens;
  const bool fair = bytes.up_to(7) != 0;
  for (Index i = 0; i < gamma; ++i)
    tokens.push_back(fair ? static_cast<Token>(bytes.up_to(vocab_size - 1))
                          : static_cast<Token>(bytes.size()));
  return tokens;
}

struct Shape {
  Index gamma, target_rows, draft_rows, vocab_size, draft_vocab_size;

  explicit Shape(Bytes& bytes) {
    gamma = bytes.up_to(7);
    if (gamma == 7) gamma = 60 + bytes.up_to(8);
    target_rows = gamma + 1;
    draft_rows = gamma;
    vocab_size = 1 + bytes.up_to(7);
    draft_vocab_size = vocab_size;
    const Index wrong = bytes.up_to(31);  // mostly nothing is wrong
    if (wrong == 1) draft_vocab_size = 1 + bytes.up_to(9);
    if (wrong == 2) target_rows = bytes.up_to(8);
    if (wrong == 3) draft_rows = bytes.up_to(8);
  }
};

// Whether a look-up must find a probability for the verdict's token. Lists out of order are trusted, so a look-up may
// miss it. The likeliest token needs no log-sum-exp, so a given one may be wrong.
template <class Target>
bool exact(const Target& target, const Rule& rule) {
  if constexpr (requires { target.ordered; }) return target.ordered;
  else if constexpr (requires { target.log_sum_exp; })
    return target.log_sum_exp.empty() || !std::holds_alternative<specdec::ArgmaxVerifier>(rule);
  else return true;
}

// A draft of one-hot rows.
struct OneHot {
  const std::vector<Token>& tokens;
  auto view() const { return specdec::OneHotRows(tokens); }
};

template <class Target, class Draft>
void run(Bytes& bytes, Rule& rule) {
  const Shape shape(bytes);
  const std::vector<Token> tokens = tokens_of(bytes, shape.gamma, shape.vocab_size);
  const Target target(bytes, shape.target_rows, shape.vocab_size);
  const auto draft = [&] {
    if constexpr (std::same_as<Draft, OneHot>) return OneHot{tokens};
    else return Draft(bytes, shape.draft_rows, shape.draft_vocab_size);
  }();
  try {
    check(bytes, rule, target.view(), draft.view(), tokens, exact(target, rule));
  } catch (const std::invalid_argument&) {  // an invalid temperature or top-k: there is no view
  }
}

}  // namespace

void fuzz::verify(std::span<const std::uint8_t> data) {
  Bytes bytes(data);
  Rule rule = rule_of(bytes);
  while (!bytes.empty()) {
    switch (bytes.up_to(9)) {
      case 0:
        run<Dense<RowMajor<float>>, Dense<RowMajor<float>>>(bytes, rule);
        break;
      case 1:
        run<Dense<RowMajor<float>>, Lists>(bytes, rule);
        break;
      case 2:
        run<Dense<RowMajor<float>>, OneHot>(bytes, rule);
        break;
      case 3:
        run<Lists, Lists>(bytes, rule);
        break;
      case 4:
        run<LogitsOf, LogitsOf>(bytes, rule);
        break;
      case 5:
        run<LogitsOf, OneHot>(bytes, rule);
        break;
      case 6:
        run<Processed, Processed>(bytes, rule);
        break;
      case 7:
        run<Dense<RowMajor<Eigen::half>>, Dense<ColMajor<double>>>(bytes, rule);
        break;
      case 8:
        run<Sampled, Pointers>(bytes, rule);
        break;
      default:
        run<Pointers, LogitsOf>(bytes, rule);
        break;
    }
  }
}
