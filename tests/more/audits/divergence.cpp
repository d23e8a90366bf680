// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <specdec/more/audits/divergence.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_more_audits_divergence {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

// After x, the logits of x + 1 and x + 2 are the largest two, and nearly equal. Each further row in a call moves the
// logit of x + 2. The model records what it is fed.
template <class Scalar>
struct Wavering {
  double behind = 0x1p-10, moves = 0;
  double above = 0;              // added to all logits
  bool lets_pass = false;        // calls for one row allow a token that is otherwise forbidden
  std::vector<Token> text = {};  // what the context must be the beginning of, if it is not empty

  std::vector<Token> context = {};
  RowMajor<Scalar> logits = {};

  Index vocab_size() const { return 6; }
  const RowMajor<Scalar>& forward(std::span<const Token> tokens, Index rows) {
    context.insert(context.end(), tokens.begin(), tokens.end());
    if (!text.empty()) CHECK(std::ranges::equal(context, std::span(text).first(context.size())));
    logits = RowMajor<Scalar>::Constant(rows, 6, Scalar(static_cast<float>(above - 8)));
    for (Index i = 0; i < rows; ++i) {
      const Token x = context[context.size() - static_cast<std::size_t>(rows - i)];
      logits(i, (x + 1) % 6) = Scalar(static_cast<float>(above + 16));
      logits(i, (x + 2) % 6) =
          Scalar(static_cast<float>(above + 16 - behind + moves * static_cast<double>(rows - 1)));
      logits(i, (x + 3) % 6) =
          Scalar(lets_pass && rows == 1 ? -8.0f : -std::numeric_limits<float>::infinity());
    }
    return logits;
  }
  void truncate(Index length) { context.resize(static_cast<std::size_t>(length)); }
};

using Kind = Divergence::Kind;
const std::vector<Token> prompt{5, 0};
const std::vector<Token> counts{1, 2, 3, 4, 5, 0}, skips{1, 2, 3, 5, 0, 1}, jumps{1, 2, 3, 0, 1, 2},
    stays{1, 2, 3, 3, 4, 5};

}  // namespace

TEST_CASE("Texts that agree up to the end of the shorter one do not diverge") {
  Wavering<float> model;
  CHECK(explain_divergence(model, prompt, counts, counts).kind == Kind::none);
  const Divergence shorter = explain_divergence(model, prompt, counts, std::span(counts).first(2));
  CHECK(shorter.kind == Kind::shorter);
  CHECK(shorter);
  CHECK(shorter.position == -1);
  std::ostringstream words;
  words << explain_divergence(model, prompt, counts, counts) << ", " << shorter;
  CHECK(words.str() == "the texts do not part, one text is the beginning of the other");
}

TEST_CASE("A divergence is explained by numbers only if calls of other shapes move the logits as much") {
  Wavering<double> still{.moves = 0};
  const Divergence wrong = explain_divergence(still, prompt, counts, skips);
  CHECK(wrong.kind == Kind::right);
  CHECK_FALSE(wrong);
  CHECK(wrong.position == 3);
  CHECK(wrong.left == 4);
  CHECK(wrong.right == 5);
  CHECK(wrong.left_short == 0);
  CHECK(wrong.right_short == 0x1p-10);
  CHECK(wrong.moved == 0);
  CHECK(explain_divergence(still, prompt, skips, counts).kind == Kind::left);
  CHECK(explain_divergence(still, prompt, stays, jumps).kind == Kind::both);
  CHECK(still.context.empty());

  Wavering<double> moving{.moves = 0.625 * 0x1p-10};
  CHECK(explain_divergence(moving, prompt, counts, skips, {.call_sizes = {1}}).kind == Kind::right);
  const Divergence seen = explain_divergence(moving, prompt, counts, skips, {.call_sizes = {1, 3}});
  CHECK(seen.kind == Kind::numbers);
  CHECK(seen.moved == 1.25 * 0x1p-10);
  CHECK(seen.calls.size() == 3);
  CHECK(seen.calls[0].left == 16);
  CHECK(seen.calls[0].right < 16);
  CHECK(seen.calls[1].right > 16);
  CHECK(seen.calls[2].right > 16);
  CHECK(explain_divergence(moving, prompt, stays, counts).kind == Kind::left);

  // The logit never becomes the larger one, but it moves by more than it is short.
  Wavering<double> near{.moves = 0.375 * 0x1p-10};
  const Divergence close = explain_divergence(near, prompt, counts, skips, {.call_sizes = {1, 3}});
  CHECK(close.kind == Kind::numbers);
  CHECK(close.right_short == 0.25 * 0x1p-10);
  CHECK(close.moved == 0.75 * 0x1p-10);
}

TEST_CASE("The calls at the divergence have the shapes of verification calls, wherever it is") {
  for (const Index position : {0, 1, 2, 3, 89, 90, 91, 92, 180}) {
    Wavering<double> moving{.moves = 0.625 * 0x1p-10};
    std::vector<Token> alone, other;
    for (Index i = 0; i < 200; ++i) alone.push_back(static_cast<Token>((i + 1) % 6));
    other.assign(alone.begin(), alone.begin() + position);
    other.push_back((alone[static_cast<std::size_t>(position)] + 1) % 6);
    moving.text = prompt;
    moving.text.insert(moving.text.end(), alone.begin(), alone.end());
    const Divergence found = explain_divergence(moving, prompt, alone, other);
    CHECK(found.position == position);
    CHECK(found.kind == Kind::numbers);
    CHECK(found.calls.size() == 9);
    Index shapes = 0;  // calls with more than one row
    for (const CallAtParting& call : found.calls) shapes += call.right > call.left;
    CHECK(shapes >= 3);
  }
}

TEST_CASE(
    "A difference in the last bit of a half is explained by numbers, the same difference between floats is "
    "not") {
  Wavering<Eigen::half> half{.behind = 0.01};
  Wavering<float> single{.behind = 0.01};
  CHECK(explain_divergence(half, prompt, counts, skips).kind == Kind::numbers);
  CHECK(explain_divergence(single, prompt, counts, skips).kind == Kind::right);
  CHECK(explain_divergence(single, prompt, counts, skips, {.precision = 0x1p-11}).kind == Kind::numbers);
  half.above = single.above = -32;  // as for logarithms of probabilities
  CHECK(explain_divergence(half, prompt, counts, skips).kind == Kind::numbers);
  CHECK(explain_divergence(single, prompt, counts, skips).kind == Kind::right);
}

TEST_CASE("A token that cannot come out is never explained by numbers") {
  Wavering<float> model{.moves = 0.125};
  const Divergence never = explain_divergence(model, prompt, counts, jumps);
  CHECK(never.kind == Kind::right);
  CHECK(never.right_short == std::numeric_limits<double>::infinity());
  Wavering<float> passing{.lets_pass = true};
  CHECK(explain_divergence(passing, prompt, counts, jumps).kind == Kind::right);
  std::ostringstream words;
  words << never;
  CHECK(words.str() ==
        "the texts part after 3 tokens: 4 is 0 below the largest logit, 0 is inf; calls of other shapes move "
        "logits by 0.499023, rounding may by 1.96684e-06: the second text is not greedy");
}

TEST_CASE("Texts that cannot be compared are refused") {
  Wavering<float> model;
  const auto refusal = [&](const std::vector<Token>& before, const std::vector<Token>& right,
                           const DivergenceOptions& options) {
    return message_of<std::invalid_argument>(
        [&] { explain_divergence(model, before, counts, right, options); });
  };
  CHECK(refusal({}, skips, {}) == "specdec: prompt is empty: there is nothing to continue");
  CHECK(refusal(prompt, {6}, {}).find("right[0] = 6") != std::string::npos);
  CHECK(refusal(prompt, skips, {.call_sizes = {}}) == "specdec: call_sizes is empty: nothing would be asked");
  CHECK(refusal(prompt, skips, {.call_sizes = {1, 0}}) == "specdec: call_sizes[1] = 0 is below 1");
}

}  // namespace test_more_audits_divergence
