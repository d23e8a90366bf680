// Drafts as engines lay them out are judged as each is alone.
// SPDX-License-Identifier: MIT
#include "specdec/verify/draft_layout.hpp"

#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_verify_draft_layout {

using namespace specdec;
using support::message_of;
using Rows = support::RowMajor<double>;

static_assert(DraftLayout<PackedDrafts> && DraftLayout<FedDrafts> && DraftLayout<PaddedDrafts>);
static_assert(!std::is_constructible_v<PackedDrafts, std::vector<Index>> &&
              !std::is_constructible_v<FedDrafts, std::vector<std::int32_t>>);  // they would dangle
static_assert(std::is_constructible_v<PackedDrafts, std::span<const Index>> &&
              std::is_constructible_v<FedDrafts, std::vector<std::int32_t>&>);

namespace {

constexpr Index vocab = 5;

Rows random_rows(Index rows, std::mt19937_64& rng) {
  Rows matrix(rows, vocab);
  for (double& p : matrix.reshaped()) p = 0.01 + uniform01(rng);
  return matrix.array().colwise() / matrix.rowwise().sum().array();
}

// Some requests with drafts of 0 to 4 tokens, each for itself.
struct Requests {
  std::vector<std::vector<std::int64_t>> tokens;
  std::vector<Rows> target, draft;

  explicit Requests(std::mt19937_64& rng) {
    for (const Index gamma : {2, 0, 4, 1, 3, 4, 2}) {
      target.push_back(random_rows(gamma + 1, rng));
      draft.push_back(random_rows(gamma, rng));
      tokens.emplace_back();
      for (Index k = 0; k < gamma; ++k)
        tokens.back().push_back(RandomChance(rng).draw(DenseRow(DenseRows(draft.back()).row(k))));
    }
  }
  std::size_t size() const { return tokens.size(); }

  Verdict alone(std::size_t i, bool one_hot) const {
    Philox rng{i};
    if (one_hot) return verify(BlockVerifier{}, target[i], OneHotRows(tokens[i]), tokens[i], rng);
    return verify(BlockVerifier{}, target[i], draft[i], tokens[i], rng);
  }
};

std::vector<Philox> sources(std::size_t count) {
  std::vector<Philox> out;
  for (std::size_t i = 0; i < count; ++i) out.emplace_back(i);
  return out;
}

void check_as_alone(const Requests& requests, std::span<const BatchVerdict> verdicts, bool one_hot = false) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    REQUIRE_FALSE(verdicts[i].error);
    CHECK(verdicts[i].verdict == requests.alone(i, one_hot));
  }
}

// What a call was fed: each request's last token, 99, then its draft, padded with −1 to one more than it has.
struct Fed {
  std::vector<std::int32_t> cu{0};
  std::vector<std::int64_t> ids;
  Rows target, in_place, compact;

  Fed(const Requests& requests, Index padding, std::mt19937_64& rng) {
    for (const auto& tokens : requests.tokens) {
      ids.push_back(99);
      ids.insert(ids.end(), tokens.begin(), tokens.end());
      ids.insert(ids.end(), static_cast<std::size_t>(padding), -1);
      cu.push_back(static_cast<std::int32_t>(ids.size()));
    }
    const auto n = std::ssize(ids), drafts = std::ssize(requests.tokens);
    target = random_rows(n, rng);  // what is not written below is never read
    in_place = random_rows(n, rng);
    compact = random_rows(n - drafts, rng);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Index first = cu[i], gamma = std::ssize(requests.tokens[i]);
      target.middleRows(first, gamma + 1) = requests.target[i];
      in_place.middleRows(first + 1, gamma) = requests.draft[i];
      compact.middleRows(first - static_cast<Index>(i), gamma) = requests.draft[i];
    }
  }
};

// Tensors [B, n] and [B, n + 1, V].
struct Padded {
  Index longest;
  std::vector<std::int64_t> ids;
  Rows target, draft;

  Padded(const Requests& requests, Index longest_, std::mt19937_64& rng) : longest(longest_) {
    const auto drafts = std::ssize(requests.tokens);
    ids.assign(static_cast<std::size_t>(drafts * longest), -1);
    target = random_rows(drafts * (longest + 1), rng);
    draft = random_rows(drafts * longest, rng);
    for (Index i = 0; i < drafts; ++i) {
      const auto& tokens = requests.tokens[static_cast<std::size_t>(i)];
      std::copy(tokens.begin(), tokens.end(), ids.begin() + i * longest);
      target.middleRows(i * (longest + 1), std::ssize(tokens) + 1) =
          requests.target[static_cast<std::size_t>(i)];
      draft.middleRows(i * longest, std::ssize(tokens)) = requests.draft[static_cast<std::size_t>(i)];
    }
  }
};

}  // namespace

TEST_CASE("drafts among the tokens that were fed get the verdicts that they get alone") {
  std::mt19937_64 rng{1};
  const Requests requests(rng);
  for (const Index padding : {0, 2}) {
    const Fed fed(requests, padding, rng);
    const FedDrafts layout{fed.cu};
    std::vector<BatchVerdict> verdicts(requests.size());
    auto rngs = sources(requests.size());
    verify_batch(BlockVerifier{}, fed.target, fed.in_place, fed.ids, layout, rngs, verdicts);
    check_as_alone(requests, verdicts);
    rngs = sources(requests.size());
    verify_batch(BlockVerifier{}, fed.target, fed.compact, fed.ids, layout, rngs, verdicts);
    check_as_alone(requests, verdicts);
    rngs = sources(requests.size());
    verify_batch(BlockVerifier{}, fed.target, OneHotRows(fed.ids), fed.ids, layout, rngs, verdicts);
    check_as_alone(requests, verdicts, true);
  }
}

TEST_CASE("padded drafts get the verdicts that they get alone") {
  std::mt19937_64 rng{2};
  const Requests requests(rng);
  for (const Index longest : {4, 6}) {
    const Padded padded(requests, longest, rng);
    std::vector<BatchVerdict> verdicts(requests.size());
    auto rngs = sources(requests.size());
    const PaddedDrafts layout{std::ssize(requests.tokens), longest};
    verify_batch(BlockVerifier{}, padded.target, padded.draft, padded.ids, layout, rngs, verdicts);
    check_as_alone(requests, verdicts);
    for (std::size_t i = 0; i < rngs.size(); ++i) CHECK(rngs[i].offset() > 0);  // what a request keeps

    // What an engine wants back: [B, n + 1] tokens and a number for each request.
    std::vector<std::int32_t> emitted(requests.size() * static_cast<std::size_t>(longest + 1), 7);
    std::vector<std::int64_t> accepted(requests.size());
    write_emitted(padded.ids, layout, padded.draft.rows(), verdicts, emitted, accepted);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Verdict verdict = requests.alone(i, false);
      CHECK(accepted[i] == verdict.accepted);
      for (Index k = 0; k <= longest; ++k)
        CHECK(emitted[i * static_cast<std::size_t>(longest + 1) + static_cast<std::size_t>(k)] ==
              (k < verdict.accepted    ? requests.tokens[i][static_cast<std::size_t>(k)]
               : k == verdict.accepted ? verdict.token
                                       : -1));
    }
  }
}

TEST_CASE("greedy and sampled requests are judged in one call") {
  std::mt19937_64 rng{3};
  const Requests requests(rng);
  const Padded padded(requests, 4, rng);
  const Rows logits = padded.target.array().log();
  std::vector<LogitsRow<double>> rows;
  for (Index i = 0; i < logits.rows(); ++i)
    rows.emplace_back(NumberRow<double>(logits.row(i).data(), vocab), (i / 5) % 2 == 0 ? 0.0 : 1.0);
  std::vector<BatchVerdict> verdicts(requests.size());
  auto rngs = sources(requests.size());
  verify_batch(BlockVerifier{}, RowSpan(rows, vocab), padded.draft, padded.ids,
               PaddedDrafts{std::ssize(requests.tokens), 4}, rngs, verdicts);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Philox again{i};
    const Verdict expected = i % 2 == 0 ? verify(ArgmaxVerifier{}, requests.target[i], requests.draft[i],
                                                 requests.tokens[i], again)
                                        : requests.alone(i, false);
    CHECK(verdicts[i].verdict == expected);
  }
}

TEST_CASE("a draft that is padded in its middle costs no other") {
  std::mt19937_64 rng{4};
  const Requests requests(rng);
  Padded padded(requests, 4, rng);
  padded.ids[2 * 4 + 1] = -1;
  std::vector<BatchVerdict> verdicts(requests.size());
  auto rngs = sources(requests.size());
  const PaddedDrafts layout{std::ssize(requests.tokens), 4};
  verify_batch(BlockVerifier{}, padded.target, padded.draft, padded.ids, layout, rngs, verdicts);
  CHECK(verdicts[1].verdict == requests.alone(1, false));
  CHECK(verdicts[3].verdict == requests.alone(3, false));
  REQUIRE(verdicts[2].error);
  CHECK(message_of([&] { std::rethrow_exception(verdicts[2].error); }) ==
        "specdec: tokens[2] = " + std::to_string(padded.ids[10]) + " comes after padding, tokens[1] = -1");

  std::vector<std::int32_t> emitted(requests.size() * 5);
  std::vector<std::int32_t> accepted(requests.size());
  write_emitted(padded.ids, layout, padded.draft.rows(), verdicts, std::span(emitted), std::span(accepted),
                -7);
  CHECK(accepted[2] == -1);
  for (std::size_t k = 10; k < 15; ++k) CHECK(emitted[k] == -7);
}

TEST_CASE("arrays that do not fit their layout are named") {
  std::mt19937_64 rng{5};
  const std::vector<std::int32_t> cu{0, 2, 3}, empty{0, 2, 2, 3};
  const std::vector<Token> ids{9, 1, 9};
  const auto fed = [&](const std::vector<std::int32_t>& offsets, Index target_rows, Index draft_rows) {
    return message_of([&] { FedDrafts{offsets}.check_sizes(ids, target_rows, draft_rows); });
  };
  CHECK(fed(cu, 3, 3).empty());
  CHECK(fed(cu, 3, 1).empty());
  CHECK(fed(cu, 4, 3) == "specdec: target has 4 rows, expected 3");
  CHECK(fed(cu, 3, 2) ==
        "specdec: draft has 2 rows, expected 3, one at each token, or 1, one for each drafted token");
  CHECK(fed(empty, 3, 3) == "specdec: cu_num_logits[2] = 2: request 1 has no row, expected one at least");
  CHECK(fed({0, 2}, 3, 3) == "specdec: cu_num_logits[1] = 2, expected 3, the number of tokens");
  CHECK(fed({}, 3, 3) == "specdec: cu_num_logits is empty, expected 0 at least");

  const PaddedDrafts padded{2, 3};
  const std::vector<Token> six(6);
  CHECK(message_of([&] { padded.check_sizes(ids, 8, 6); }) == "specdec: tokens has 3 ids, expected 6");
  CHECK(message_of([&] { padded.check_sizes(six, 6, 6); }) == "specdec: target has 6 rows, expected 8");
  CHECK(message_of([&] { padded.check_sizes(six, 8, 8); }) == "specdec: draft has 8 rows, expected 6");
  CHECK(message_of([] { PaddedDrafts{-1, 3}; }) == "specdec: drafts = -1 is negative");
  CHECK(message_of([] { PaddedDrafts{1, -3}; }) == "specdec: longest = -3 is negative");

  const std::vector<BatchVerdict> verdicts{{{2, 5}}, {{0, 4}}};
  std::vector<Token> out(4);
  std::vector<Index> accepted(2);
  const auto write = [&](std::span<Token> emitted, std::span<Index> counts) {
    return message_of([&] { write_emitted(six, padded, 6, verdicts, emitted, counts); });
  };
  CHECK(write(out, accepted) == "specdec: emitted has room for 2 tokens of each draft, but draft 0 emits 3");
  CHECK(write(std::span(out).first(3), accepted) ==
        "specdec: emitted has 3 entries, expected a multiple of 2, the number of drafts");
  CHECK(write(out, std::span(accepted).first(1)) == "specdec: accepted has 1 entries, expected 2");
  CHECK(out == std::vector<Token>(4));
}

TEST_CASE("a layout that leaves the arrays is refused before they are read") {
  struct Somewhere {
    DraftPlace somewhere;
    Index drafts() const { return 1; }
    void check_sizes(TokenIds, Index, Index) const {}
    DraftPlace place(TokenIds, Index, Index) const { return somewhere; }
  };
  std::mt19937_64 rng{6};
  const Rows target = random_rows(3, rng), draft = random_rows(2, rng);
  const std::vector<Token> tokens{0, 1};
  std::vector<BatchVerdict> verdicts(1);
  auto rngs = sources(1);
  const auto complaint = [&](const DraftPlace& place) {
    verify_batch(BlockVerifier{}, target, draft, tokens, Somewhere{place}, rngs, verdicts);
    REQUIRE(verdicts[0].error);
    return message_of([&] { std::rethrow_exception(verdicts[0].error); });
  };
  CHECK(complaint({.token = 5, .gamma = 1}) ==
        "specdec: the layout places draft 0 at tokens[5] with gamma = 1, outside the 2 tokens");
  CHECK(complaint({.token = 1, .gamma = 2}) ==
        "specdec: the layout places draft 0 at tokens[1] with gamma = 2, outside the 2 tokens");
  CHECK_THAT(complaint({.token = -1, .gamma = 1}), Catch::Contains("at tokens[-1]"));
  CHECK_THAT(complaint({.gamma = -1}), Catch::Contains("with gamma = -1"));
  CHECK_THAT(complaint({.target = 3}), Catch::Contains("rows 3..3 are asked for of a matrix of 3"));

  constexpr Index largest = std::numeric_limits<Index>::max();
  for (const Index drafts : {Index{0}, Index{1}, Index{1} << 40})
    CHECK_THAT(message_of([&] { PaddedDrafts(drafts, drafts > 1 ? drafts : largest); }),
               Catch::Contains("more than any array holds"));
}

TEST_CASE("verdicts of other drafts are not written") {
  std::vector<Token> out(8, 7);
  std::vector<Index> accepted(2, 7);
  const auto write = [&](const std::vector<Token>& tokens, const std::vector<BatchVerdict>& verdicts) {
    return message_of([&] {
      write_emitted(tokens, PaddedDrafts{2, 3}, 6, verdicts, std::span(out), std::span(accepted));
    });
  };
  const std::vector<Token> ids{0, 1, 2, 0, 1, -1};
  CHECK(write(ids, {{{1, 5}}, {{3, 4}}}) == "specdec: verdicts[1] accepts 3 of 2 tokens");
  CHECK(write(ids, {{{1, 5}}, {{-1, 4}}}) == "specdec: verdicts[1] accepts -1 of 2 tokens");
  CHECK_THAT(write({0, 1, 2, 0, -1, 1}, {{{1, 5}}, {{0, 4}}}), Catch::Contains("comes after padding"));
  CHECK_THAT(write({0, 1, 2}, {{{1, 5}}, {{0, 4}}}),
             Catch::Contains("tokens[3] .. tokens[5], outside the 3 tokens"));
  const std::vector<Index> offsets{0, 3, 6};
  const std::vector<BatchVerdict> verdicts(2);
  CHECK_THAT(message_of([&] {
               write_emitted(std::vector<Token>{0, 1, 2}, PackedDrafts{offsets}, 6, verdicts, std::span(out),
                             std::span(accepted));
             }),
             Catch::Contains("places draft 1 at tokens[3] with gamma = 3, outside the 3 tokens"));
  CHECK(out == std::vector<Token>(8, 7));
  CHECK(accepted == std::vector<Index>(2, 7));
}

}  // namespace test_verify_draft_layout
