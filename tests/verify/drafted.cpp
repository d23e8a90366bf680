// A draft is checked and looked up before a rule sees it: shapes, ids, q = 0, and numbers that are not probabilities.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/rules.hpp"

namespace test_verify_drafted {

using namespace specdec;
using support::AnyVerifier;
using support::message_of;
using support::RowMajor;

namespace {

constexpr float NaN = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

// γ = 2, V = 3, uniform rows.
struct Input {
  RowMajor<float> target = RowMajor<float>::Constant(3, 3, 1.f / 3);
  RowMajor<float> draft = RowMajor<float>::Constant(2, 3, 1.f / 3);
  std::vector<Token> tokens{0, 2};

  Verdict judge(AnyVerifier rule) const {
    std::mt19937_64 rng{42};
    return rule(target, draft, tokens, rng);
  }
  std::string complaint(const AnyVerifier& rule) const {
    return message_of([&] { judge(rule); });
  }
};

}  // namespace

TEST_CASE("wrong shapes and ids are named in the error") {
  for (const AnyVerifier& rule : support::all_rules) {
    INFO(rule.name());
    Input good;
    CHECK_NOTHROW(good.judge(rule));
    {
      Input in;
      in.target.conservativeResize(2, 3);
      CHECK(in.complaint(rule) == "specdec: target has 2 rows, expected gamma + 1 = 3");
    }
    {
      Input in;
      in.draft.conservativeResize(1, 3);
      CHECK(in.complaint(rule) == "specdec: draft has 1 rows, expected gamma = 2, one per token");
    }
    {
      Input in;
      std::swap(in.target, in.draft);
      CHECK(in.complaint(rule) ==
            "specdec: draft has 3 rows, expected gamma = 2, one per token: are target and draft swapped?");
    }
    {
      Input in;
      in.tokens.push_back(1);
      CHECK(in.complaint(rule) == "specdec: draft has 2 rows, expected gamma = 3, one per token");
    }
    {
      Input in;
      in.target.resize(3, 0);
      CHECK(in.complaint(rule) == "specdec: target has an empty vocabulary");
    }
    for (const Token bad : {-1, 3, 1000000, std::numeric_limits<Token>::min()}) {
      Input in;
      in.tokens[1] = bad;
      CHECK(in.complaint(rule) ==
            "specdec: tokens[1] = " + std::to_string(bad) + " is outside the vocabulary 0..2");
    }
  }
}

TEST_CASE("a drafted token with q = 0 is an error, never accepted") {
  for (const AnyVerifier& rule : support::ratio_rules) {
    INFO(rule.name());
    Input in;
    in.draft.row(1) << 0.5f, 0.5f, 0.0f;
    CHECK(in.complaint(rule) ==
          "specdec: tokens[1] = 2 has probability 0 in draft row 1, so it was not drawn from it");
    in.draft(1, 2) = std::numeric_limits<float>::denorm_min();
    CHECK_NOTHROW(in.judge(rule));  // p/q does not overflow
  }
}

TEST_CASE("when a list with ids out of order hides a drafted token, the error names the list") {
  const auto complaint = [](const std::vector<Token>& ids) {
    const std::vector<double> p{0.25, 0.25, 0.5};
    const std::vector<SparseRow<double>> rows(1, {ids, p, 3});
    const Eigen::MatrixXd target = Eigen::MatrixXd::Constant(2, 3, 1.0 / 3);
    const std::vector<Token> tokens{2};
    return message_of([&] { Drafted drafted(target, RowSpan(rows, 3), tokens); });
  };
  CHECK(complaint({0, 1, 2}).empty());
  CHECK(complaint({2, 0, 1}) ==
        "specdec: draft row 0: the ids of a sparse row do not ascend: ids[1] = 0, after ids[0] = 2");
  CHECK(complaint({0, 1, 7}) == "specdec: draft row 0: id 7 is outside the vocabulary 0..2");
}

TEST_CASE("a number that is not a probability is named in the error if a decision needs it") {
  for (const AnyVerifier& rule : support::ratio_rules) {
    INFO(rule.name());
    for (const float bad : {NaN, inf, -0.5f, 2.0f}) {
      std::ostringstream value;
      value << bad;
      Input in;
      in.draft(1, 2) = bad;
      CHECK(in.complaint(rule) == "specdec: draft row 1: the probability of token 2 is " + value.str());
      in = {};
      in.target(0, 0) = bad;
      CHECK(in.complaint(rule) == "specdec: target row 0: the probability of token 0 is " + value.str());
    }
  }
}

TEST_CASE("a row of NaN is never turned into a token") {
  for (const AnyVerifier& rule : support::all_rules) {
    INFO(rule.name());
    for (Index row = 0; row < 3; ++row) {
      Input in;
      in.target.row(row).setConstant(NaN);
      // A row is read only if the verdict depends on it. With p = q every token is accepted, so every row matters.
      if (rule.greedy_decoding() && row > 0) in.tokens = {0, 0};
      if (std::holds_alternative<SampleMatchVerifier>(rule.rule) && row > 0) {
        in.target.topRows(2).setZero();
        in.target(0, 0) = in.target(1, 2) = 1;
        in.target.row(row).setConstant(NaN);
      }
      const std::string message = in.complaint(rule);
      CHECK(message.starts_with("specdec: target row " + std::to_string(row) + ": "));
    }
  }
}

TEST_CASE("a row of zeros is never turned into a token") {
  for (const AnyVerifier& rule : support::all_rules) {
    INFO(rule.name());
    Input in;
    in.target.setZero();
    CHECK(in.complaint(rule).starts_with("specdec: target row 0: "));
  }
}

TEST_CASE("without a draft the token is drawn from the only row") {
  for (const AnyVerifier& rule : support::all_rules) {
    INFO(rule.name());
    Input in;
    in.tokens.clear();
    in.draft.resize(0, 3);
    in.target.resize(1, 3);
    in.target << 0, 1, 0;
    CHECK(in.judge(rule) == Verdict{0, 1});
    in.draft.resize(0, 0);
    CHECK(in.judge(rule) == Verdict{0, 1});
  }
}

TEST_CASE("a vocabulary of one token works") {
  for (const AnyVerifier& rule : support::all_rules) {
    INFO(rule.name());
    Input in;
    in.target.setOnes(3, 1);
    in.draft.setOnes(2, 1);
    in.tokens = {0, 0};
    CHECK(in.judge(rule) == Verdict{2, 0});
  }
}

TEST_CASE("p = q accepts everything") {
  for (const AnyVerifier& rule : support::ratio_rules) {
    INFO(rule.name());
    std::mt19937_64 rng{4};
    for (int n = 0; n < 200; ++n) {
      Input in;
      for (float& p : in.draft.reshaped()) p = static_cast<float>(uniform01(rng));
      in.target.topRows(2) = in.draft;
      AnyVerifier verifier = rule;
      CHECK(verifier(in.target, in.draft, in.tokens, rng).accepted == 2);
    }
  }
}

TEST_CASE("with disjoint supports nothing is accepted, and the correction is drawn from the target") {
  for (const AnyVerifier& rule : support::sampling_rules) {
    INFO(rule.name());
    Input in;
    in.draft << 1, 0, 0, 0, 0, 1;
    in.target << 0, 1, 0, 1, 0, 0, 1, 0, 0;
    CHECK(in.judge(rule) == Verdict{0, 1});
  }
}

TEST_CASE("no token of probability 0 comes out, whatever numbers the rows hold") {
  const int drafts = support::bound(20000) / support::every(4);
  for (const AnyVerifier& rule : support::all_rules) {
    INFO(rule.name());
    // Rows of garbage of every kind: the answer is an error, or a token with positive mass in its row.
    std::mt19937_64 rng{8};
    const float kinds[] = {0,     0,   0,   0.5f, 1, 0.25f, 1e-30f, std::numeric_limits<float>::denorm_min(),
                           3e38f, inf, NaN, -1};
    int verdicts = 0, errors = 0;
    for (int n = 0; n < drafts; ++n) {
      Input in;
      const auto garbage = [&](auto& matrix) {
        const double mildness = uniform01(rng);
        for (Index k = 0; k < matrix.size(); ++k)
          matrix.data()[k] = kinds[static_cast<int>(uniform01(rng) * (mildness < 0.7 ? 8 : 12))];
      };
      garbage(in.target);
      garbage(in.draft);
      try {
        AnyVerifier verifier = rule;
        const Verdict v = verifier(in.target, in.draft, in.tokens, rng);
        ++verdicts;
        REQUIRE(v.accepted >= 0);
        REQUIRE(v.accepted <= 2);
        REQUIRE(v.token >= 0);
        REQUIRE(v.token < 3);
        REQUIRE(in.target(v.accepted, v.token) > 0);
      } catch (const std::invalid_argument&) {
        ++errors;
      }
    }
    CHECK(verdicts > drafts / 20);
    CHECK(errors > drafts / 20);
  }
}

TEST_CASE("a token that only the drafter knows is rejected, and the correction token is the target's") {
  for (const AnyVerifier& rule : support::all_rules) {
    INFO(rule.name());
    Input in;
    in.draft.setConstant(2, 5, 0.2f);
    for (const std::vector<Token>& tokens : {std::vector<Token>{4, 0}, {3, 4}, {0, 4}, {2, 3}}) {
      in.tokens = tokens;
      const Index foreign = tokens[0] >= 3 ? 0 : 1;
      for (std::uint64_t seed = 0; seed < 200; ++seed) {
        std::mt19937_64 rng{seed};
        AnyVerifier verifier = rule;
        const Verdict v = verifier(in.target, in.draft, in.tokens, rng);
        REQUIRE(v.accepted <= foreign);
        REQUIRE(v.token >= 0);
        REQUIRE(v.token < 3);
      }
    }
    in.tokens = {0, 5};
    CHECK(in.complaint(rule) == "specdec: tokens[1] = 5 is outside the vocabulary 0..4");
    in.tokens = {0, -1};
    CHECK(in.complaint(rule) == "specdec: tokens[1] = -1 is outside the vocabulary 0..4");
  }
}

TEST_CASE("a token that only the target knows was not drawn from the draft") {
  for (const AnyVerifier& rule : support::ratio_rules) {
    INFO(rule.name());
    Input in;
    in.draft.setConstant(2, 2, 0.5f);
    CHECK(in.complaint(rule) ==
          "specdec: tokens[1] = 2 has probability 0 in draft row 1, so it was not drawn from it");
    in.tokens = {0, 1};
    CHECK_NOTHROW(in.judge(rule));
    in.tokens = {0, 3};
    CHECK(in.complaint(rule) == "specdec: tokens[1] = 3 is outside the vocabulary 0..2");
  }
}

TEST_CASE("rules that need no q take a draft of any vocabulary size") {
  Input in;
  in.draft.setConstant(2, 2, 0.5f);
  in.target << 1, 0, 0, 0, 0, 1, 0, 1, 0;
  CHECK(in.judge({ArgmaxVerifier{}}) == Verdict{2, 1});
  CHECK(in.judge({SampleMatchVerifier{}}) == Verdict{2, 1});
}

TEST_CASE("an id outside the target's vocabulary has no one-hot row") {
  const Input in;
  std::mt19937_64 rng{1};
  const std::vector<Token> tokens{0, 3}, others{1, 1}, good{0, 2};
  for (AnyVerifier rule : support::all_rules) {
    INFO(rule.name());
    CHECK(message_of([&] { rule(in.target, OneHotRows(tokens), tokens, rng); }) ==
          "specdec: tokens[1] = 3 is outside the vocabulary 0..2");
  }
  for (AnyVerifier rule : support::ratio_rules) {
    INFO(rule.name());
    CHECK(message_of([&] { rule(in.target, OneHotRows(others), good, rng); }) ==
          "specdec: tokens[0] = 0 has probability 0 in draft row 0, so it was not drawn from it");
  }
}

namespace {

// Dense rows with everything that may be awkward about a row. Making a row is counted and may throw. Each row holds a
// shared pointer. A probability takes a pass over the row. Until that pass every token counts as possible, as in a row
// of logits before its chain of steps removes tokens.
struct HandmadeRow {
  std::span<const double> p;
  std::shared_ptr<int> held;
  Index vocab_size() const { return std::ssize(p); }
  bool possible(Token) const { return true; }
  double probability(Token x) const { return p[static_cast<std::size_t>(x)]; }
  auto sampler() const { return DenseRow<double>(p.data(), vocab_size()).sampler(); }
};
struct HandmadeRows {
  const RowMajor<double>* numbers;
  std::vector<int>* made;
  std::shared_ptr<int> held = std::make_shared<int>();
  Index breaks_at = -1;

  Index rows() const { return numbers->rows(); }
  Index vocab_size() const { return numbers->cols(); }
  HandmadeRow row(Index i) const {
    if (i == breaks_at) throw std::runtime_error("the device is gone");
    ++made->at(static_cast<std::size_t>(i));
    return {{numbers->row(i).data(), static_cast<std::size_t>(vocab_size())}, held};
  }
};
static_assert(!constant_time_probability<HandmadeRow>);

}  // namespace

TEST_CASE("if only a pass over its row shows that a drafted token has q = 0, reading q is an error") {
  const RowMajor<double> uniform = RowMajor<double>::Constant(3, 3, 1.0 / 3);
  RowMajor<double> cut = uniform.topRows(2);
  cut.row(1) << 0.5, 0.5, 0;
  const std::vector<Token> tokens{0, 2}, drawn{0, 1};
  std::vector<int> made(3);
  const HandmadeRows target{&uniform, &made}, draft{&cut, &made};
  std::mt19937_64 rng{1};
  const std::string undrawn =
      "specdec: tokens[1] = 2 has probability 0 in draft row 1, so it was not drawn from it";
  CHECK(message_of([&] { BlockVerifier{}(target, draft, tokens, rng); }) == undrawn);
  CHECK(message_of([&] { BlockVerifier{}(target, draft, drawn, rng); }).empty());
  const Drafted drafted(target, draft, tokens);  // reads no row
  CHECK(message_of([&] { drafted.ratio(1); }) == undrawn);
  CHECK(message_of([&] { drafted.q(1); }) == undrawn);
  CHECK(drafted.ratio(0) == 1);
}

TEST_CASE("a rule sees the draft, and nothing beyond its end") {
  Input in;
  in.target << 0.5f, 0.25f, 0.25f, 0, 0, 1, 1, 0, 0;
  const Drafted drafted(in.target, in.draft, in.tokens);
  CHECK(drafted.gamma() == 2);
  CHECK(drafted.vocab_size() == 3);
  CHECK(drafted.token(1) == 2);
  CHECK(drafted.p(0) == 0.5);
  CHECK(drafted.p(1) == 1);
  CHECK(drafted.q(1) == Approx(1.0 / 3));
  CHECK(drafted.ratio(0) == Approx(1.5));
  CHECK(drafted.target(2).probability(0) == 1);
  CHECK(drafted.draft(1).probability(0) == Approx(1.0 / 3));
  std::mt19937_64 rng{1};
  RandomChance chance{rng};
  CHECK(drafted.draw(chance, 2) == 0);
  CHECK(drafted.race(chance, 1.0, 1) == Token{2});
  CHECK(drafted.race(chance, 1.0, 2) == Token{0});
  CHECK_FALSE(drafted.race(chance, 0.0, 2));
  const auto beyond = [](Index i, Index end) {
    return "specdec: a rule asks for number " + std::to_string(i) + ", outside 0.." + std::to_string(end) +
           " of the draft";
  };
  for (const Index i : {-1, 2, 1000}) {
    CHECK(message_of([&] { drafted.token(i); }) == beyond(i, 1));
    CHECK(message_of([&] { drafted.p(i); }) == beyond(i, 1));
    CHECK(message_of([&] { drafted.q(i); }) == beyond(i, 1));
    CHECK(message_of([&] { drafted.ratio(i); }) == beyond(i, 1));
    CHECK(message_of([&] { drafted.draft(i); }) == beyond(i, 1));
    CHECK(message_of([&] { drafted.looked_up(i); }) == beyond(i, 1));
  }
  for (const Index i : {-1, 3}) {
    CHECK(message_of([&] { drafted.target(i); }) == beyond(i, 2));
    CHECK(message_of([&] { drafted.draw(chance, i); }) == beyond(i, 2));
    CHECK(message_of([&] { drafted.race(chance, 1.0, i); }) == beyond(i, 2));
  }
}

namespace {

// Rows on the other side of a wire. They are asked for the probabilities of all tokens at once, and count these calls.
struct RemoteRows {
  const RowMajor<float>* numbers;
  int* trips;
  Index rows() const { return numbers->rows(); }
  Index vocab_size() const { return numbers->cols(); }
  HandmadeRow row(Index) const { throw std::logic_error("a trip for a row"); }
  void probabilities(TokenIds tokens, std::span<double> out) const {
    ++*trips;
    for (Index i = 0; i < tokens.size(); ++i)
      out[static_cast<std::size_t>(i)] =
          tokens[i] < vocab_size() ? static_cast<double>((*numbers)(i, tokens[i])) : 0.0;
  }
};

}  // namespace

TEST_CASE("a row that can look up all its tokens together is asked once") {
  Input in;
  in.draft.setConstant(2, 4, 0.25f);
  in.tokens = {0, 3};
  int target_trips = 0, draft_trips = 0;
  const Drafted drafted(RemoteRows{&in.target, &target_trips}, RemoteRows{&in.draft, &draft_trips},
                        in.tokens);
  drafted.look_up_all();
  CHECK(drafted.ratio(0) == Approx(4.0 / 3));
  CHECK(drafted.p(1) == 0);
  CHECK(drafted.all_looked_up());
  CHECK(target_trips == 1);
  CHECK(draft_trips == 1);
  in.draft(1, 3) = 0;
  CHECK(message_of([&] {
          Drafted(RemoteRows{&in.target, &target_trips}, RemoteRows{&in.draft, &draft_trips}, in.tokens);
        }) == "specdec: tokens[1] = 3 has probability 0 in draft row 1, so it was not drawn from it");
}

TEST_CASE("statistics see the values that were looked up, and look nothing up themselves") {
  const RowMajor<double> uniform = RowMajor<double>::Constant(3, 3, 1.0 / 3);
  RowMajor<double> ruled_out = uniform;
  ruled_out(1, 2) = 0;
  const RowMajor<double> q = uniform.topRows(2);
  const std::vector<Token> tokens{0, 2};
  std::vector<int> made(3), drafted_rows(2);
  const HandmadeRows draft{&q, &drafted_rows};
  {
    const Drafted drafted(HandmadeRows{&uniform, &made}, draft, tokens);
    CHECK_FALSE(drafted.all_looked_up());
    CHECK_FALSE(drafted.looked_up(0));
    drafted.p(0);
    CHECK_FALSE(drafted.looked_up(0));
    drafted.q(0);
    CHECK(drafted.looked_up(0));
    CHECK(drafted.p(0) == 1.0 / 3);
    CHECK(drafted.q(0) == 1.0 / 3);
    CHECK_FALSE(drafted.all_looked_up());
    CHECK(made == std::vector<int>{1, 0, 0});
    drafted.q(1);
    CHECK_FALSE(drafted.looked_up(1));  // p without q is not enough
    drafted.look_up_all();
    CHECK(drafted.all_looked_up());
    CHECK(drafted.looked_up(1));
  }
  {  // look-ups end at a token that the target rules out
    const std::vector<Token> three{0, 2, 0};
    RowMajor<double> longer(4, 3), q_longer = RowMajor<double>::Constant(3, 3, 1.0 / 3);
    longer << ruled_out, Eigen::RowVector3d::Constant(1.0 / 3);
    std::vector<int> target_rows(4), draft_rows(3);
    const Drafted drafted(HandmadeRows{&longer, &target_rows}, HandmadeRows{&q_longer, &draft_rows}, three);
    drafted.look_up_all();
    CHECK(drafted.all_looked_up());
    CHECK(drafted.looked_up(1));
    CHECK(drafted.p(1) == 0);
    CHECK(drafted.q(1) == 1.0 / 3);
    CHECK_FALSE(drafted.looked_up(2));
    CHECK(target_rows == std::vector<int>{1, 1, 0, 0});
  }
  const Input in;
  CHECK(Drafted(in.target, in.draft, in.tokens).all_looked_up());
}

namespace {

// Token verification as a user writes it after the README.
struct Mine {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i)
      if (!chance.coin(drafted.ratio(i))) return {i, *drafted.race(chance, 1.0, i)};
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};
// A rule that reads beyond the draft.
struct Careless {
  Verdict judge(const auto& drafted, auto& chance) const {
    return {0, drafted.draw(chance, drafted.gamma() + 1)};
  }
};
struct Answer {
  Verdict verdict;
  Verdict judge(const auto&, auto&) const { return verdict; }
};

}  // namespace

TEST_CASE("a user's rule gets the errors that the library's rules get") {
  std::mt19937_64 rng{42};
  const auto by = [&](const auto& rule, const Input& in) {
    return message_of([&] { (void)verify(rule, in.target, in.draft, in.tokens, rng); });
  };
  std::vector<Input> bad(6);
  bad[0].draft(1, 2) = 0;
  bad[1].target.conservativeResize(2, 3);
  bad[2].draft.conservativeResize(1, 3);
  bad[3].tokens[1] = 3;
  bad[4].target(0, 0) = NaN;
  bad[5].draft(1, 2) = NaN;
  for (const Input& in : bad) {
    const std::string expected = in.complaint({TokenVerifier{}});
    CHECK_FALSE(expected.empty());
    CHECK(by(Mine{}, in) == expected);
  }
  const Input good;
  CHECK(by(Mine{}, good).empty());
  CHECK(by(Careless{}, good) == "specdec: a rule asks for number 3, outside 0..2 of the draft");
  CHECK(by(Answer{{3, 0}}, good) ==
        "specdec: verdict.accepted = 3 is outside 0..2, the number of drafted tokens");
  CHECK(by(Answer{{0, 3}}, good) == "specdec: verdict.token = 3 is outside the vocabulary 0..2");
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 a{seed}, b{seed};
    Input in;
    in.target.row(0) << 0.125f, 0.5f, 0.375f;
    CHECK(verify(Mine{}, in.target, in.draft, in.tokens, a) ==
          TokenVerifier{}(in.target, in.draft, in.tokens, b));
  }
}

namespace {

// The error of the block rule on rows of one kind, with some bad numbers. The rule looks up p and q of every token,
// and draws from the last row.
template <class Layout>
std::string complaint_of_kind(const RowMajor<double>& target, const RowMajor<double>& draft,
                              std::span<const Token> tokens) {
  Layout p, q;
  p.hold(target.cast<typename Layout::Scalar>());
  q.hold(draft.cast<typename Layout::Scalar>());
  std::mt19937_64 rng{42};
  return message_of([&] { BlockVerifier{}(std::as_const(p).view(), std::as_const(q).view(), tokens, rng); });
}

using Complaint = std::function<std::string(const RowMajor<double>&, const RowMajor<double>&)>;

// p = q accepts everything, so every row is read.
void check_names_nan(const Complaint& complaint, const RowMajor<double>& uniform) {
  const RowMajor<double> good = uniform.topRows(2);
  CHECK(complaint(uniform, good).empty());
  for (Index row = 0; row < 3; ++row) {
    RowMajor<double> target = uniform;
    target.row(row).setConstant(NaN);
    CHECK(complaint(target, good).starts_with("specdec: target row " + std::to_string(row) + ": "));
    if (row == 2) continue;
    RowMajor<double> draft = good;
    draft.row(row).setConstant(NaN);
    CHECK(complaint(uniform, draft).find("draft row " + std::to_string(row)) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("NaN in a row of any kind names the row") {
  const RowMajor<double> uniform = RowMajor<double>::Constant(3, 4, 0.25);
  const std::vector<Token> tokens{1, 3};
  for (const AnyVerifier& rule : support::ratio_rules) {
    INFO(rule.name());
    check_names_nan(
        [&](const auto& target, const auto& draft) {
          std::mt19937_64 rng{42};
          AnyVerifier verifier = rule;
          return message_of([&] { verifier(target, draft, tokens, rng); });
        },
        uniform);
  }
#ifndef SPECDEC_TEST_SOME
  const auto check_kind = [&](auto layout) {
    check_names_nan(
        [&](const auto& target, const auto& draft) {
          return complaint_of_kind<decltype(layout)>(target, draft, tokens);
        },
        uniform);
  };
  check_kind(support::AsStridedPointers<Eigen::half>{});
  check_kind(support::AsLogits<float>{});
  check_kind(support::AsSparse<double, std::int64_t>{});
#endif
  for (Index row = 0; row < 3; ++row) {  // sample-and-match has to be led to the row
    RowMajor<double> target = RowMajor<double>::Zero(3, 4);
    target(0, 1) = target(1, 3) = target(2, 0) = 1;
    target.row(row).setConstant(NaN);
    std::mt19937_64 rng{42};
    AnyVerifier rule{SampleMatchVerifier{}};
    const RowMajor<double> draft = uniform.topRows(2);
    CHECK(message_of([&] {
            rule(target, draft, tokens, rng);
          }).starts_with("specdec: target row " + std::to_string(row) + ": "));
  }
}

TEST_CASE("drafts longer than the inline storage for rows work, and make each row once") {
  // Each row may be made only once: making a row of logits reads it.
  for (const Index gamma : {1, 32, 63, 64, 65, 66, 130}) {
    CAPTURE(gamma);
    std::vector<int> made(static_cast<std::size_t>(gamma) + 1), drafted(made);
    std::vector<Token> tokens;
    for (Index i = 0; i < gamma; ++i) tokens.push_back(static_cast<Token>(i % 2));
    RowMajor<double> target = RowMajor<double>::Zero(gamma + 1, 2);
    for (Index i = 0; i <= gamma; ++i) target(i, i % 2) = 1;
    const RowMajor<double> draft = target.topRows(gamma);
    const Verdict all{gamma, static_cast<Token>(gamma % 2)};
    HandmadeRows rows{&target, &made}, draft_rows{&draft, &drafted};
    std::mt19937_64 rng{1};
    CHECK(BlockVerifier{}(rows, draft_rows, tokens, rng) == all);
    CHECK(made == std::vector<int>(made.size(), 1));
    CHECK(rows.held.use_count() == 1);  // all rows that were made have been destroyed
    rows.breaks_at = gamma / 2;
    CHECK_THROWS_AS(BlockVerifier{}(rows, draft_rows, tokens, rng), std::runtime_error);
    CHECK(rows.held.use_count() == 1);
    CHECK(draft_rows.held.use_count() == 1);
    for (AnyVerifier rule : support::all_rules) {
      INFO(rule.name());
      CHECK(rule(target, draft, tokens, rng) == all);
    }
  }
}

TEST_CASE("rows after a token that the target rules out are not read") {
  // As after a grammar: the target forbids token 0, and its rows after token 0 are unknown.
  std::mt19937_64 rng{1};
  const std::vector<Token> tokens{0, 1};
  const auto check = [&](const Verdict& verdict) {
    CHECK(verdict.accepted == 0);
    CHECK(verdict.token > 0);
  };
  for (const float unknown : {0.f, NaN}) {
    RowMajor<float> target = RowMajor<float>::Constant(3, 3, unknown);
    target.row(0) << 0, 0.5f, 0.5f;
    const RowMajor<float> draft = RowMajor<float>::Constant(2, 3, 1.f / 3);
    for (const AnyVerifier& rule : support::ratio_rules) {
      INFO(rule.name());
      for (int i = 0; i < 20; ++i) check(AnyVerifier(rule)(target, draft, tokens, rng));
    }
  }
  for (const float unknown : {-inf, NaN}) {
    RowMajor<float> target = RowMajor<float>::Constant(3, 3, unknown);
    target.row(0) << -inf, 0, 0;
    const RowMajor<float> draft = RowMajor<float>::Zero(2, 3);
    for (int i = 0; i < 20; ++i) check(BlockVerifier{}(Logits{target}, Logits{draft}, tokens, rng));
  }
}

TEST_CASE("a drafted token with logit NaN is told apart from one of probability 0") {
  RowMajor<float> target = RowMajor<float>::Zero(2, 2), draft = RowMajor<float>::Zero(1, 2);
  const std::vector<Token> tokens{0};
  std::mt19937_64 rng{1};
  const auto complaint = [&](float logit) {
    draft(0, 0) = logit;
    return message_of([&] { BlockVerifier{}(Logits{target}, Logits{draft}, tokens, rng); });
  };
  CHECK(complaint(NaN).starts_with("specdec: draft row 0: "));
  CHECK(complaint(-inf) ==
        "specdec: tokens[0] = 0 has probability 0 in draft row 0, so it was not drawn from it");
}

TEST_CASE(
    "a drafted token with logit -inf is found before the rule runs, even if the rule would not reach it") {
  RowMajor<float> target = RowMajor<float>::Zero(3, 2), draft = RowMajor<float>::Zero(2, 2);
  draft(1, 0) = -inf;
  const std::vector<Token> tokens{0, 0};
  CHECK(message_of([&] { Drafted(Logits{target}, Logits{draft}, tokens); }) ==
        "specdec: tokens[1] = 0 has probability 0 in draft row 1, so it was not drawn from it");
  const Drafted drafted(Logits{target}, Logits{draft}, tokens, detail::DraftRows::unused);
  CHECK(drafted.p(1) == 0.5);  // rules that need no q accept it
}

TEST_CASE("a one-hot id beyond 32 bits is not taken for another token") {
  const std::vector<std::int64_t> ids{(std::int64_t{1} << 32) + 1};
  const std::vector<Token> tokens{1};
  const RowMajor<float> target = RowMajor<float>::Constant(2, 2, 0.5f);
  std::mt19937_64 rng{1};
  AnyVerifier rule{BlockVerifier{}};
  CHECK(message_of([&] { rule(target, OneHotRows(ids), tokens, rng); }) ==
        "specdec: tokens[0] = 1 has probability 0 in draft row 0, so it was not drawn from it");
}

namespace {

// Rules with a mistake in their own arithmetic.
struct CoinOfNothing {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i)
      if (!chance.coin(i == 1 ? 0 * std::numeric_limits<double>::infinity() : 1.0)) return {i, 0};
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};
struct RaceOfNothing {
  Verdict judge(const auto& drafted, auto& chance) const {
    drafted.race(chance, std::numeric_limits<double>::quiet_NaN(), 1);
    return {};
  }
};

}  // namespace

TEST_CASE(
    "a rule that flips a coin with no valid probability gets an error that names the row it was judging") {
  const Eigen::MatrixXd target = Eigen::RowVector2d(0.75, 0.25).replicate(11, 1),
                        draft = Eigen::RowVector2d(0.5, 0.5).replicate(10, 1);
  const auto complaint = [&](auto rule, Index gamma) {
    const std::vector<Token> tokens(static_cast<std::size_t>(gamma), 1);
    std::mt19937_64 rng{1};
    return message_of<InvalidDistribution>(
        [&] { (void)verify(rule, target.topRows(gamma + 1), draft.topRows(gamma), tokens, rng); });
  };
  CHECK(complaint(CoinOfNothing{}, 2) ==
        "specdec: a coin has probability nan, where a rule judges tokens[0] with p = 0.25, q = 0.5, "
        "tokens[1] with p = "
        "0.25, q = 0.5");
  CHECK(complaint(CoinOfNothing{}, 10).ends_with("tokens[7] with p = 0.25, q = 0.5, ..."));
  CHECK(complaint(RaceOfNothing{}, 2) == "specdec: target row 1: a coin has probability nan");
}

namespace {

// Rules that read rows by themselves.
struct RaceByHand {
  Verdict judge(const auto& drafted, auto& chance) const {
    chance.race(std::numeric_limits<double>::quiet_NaN(), drafted.target(1), drafted.draft(0));
    return {};
  }
};
struct DrawFromResidual {
  Verdict judge(const auto& drafted, auto& chance) const {
    return {0, chance.draw(ResidualRow(1.0, drafted.target(1), 2.0, drafted.draft(1)))};
  }
};
struct Residual {
  Verdict judge(const auto& drafted, auto&) const {
    residual_mass(1.7e308, drafted.target(1), -1.7e308, drafted.draft(0));
    return {};
  }
};
struct Overlap {
  Verdict judge(const auto& drafted, auto&) const {
    lenient_overlap(drafted.target(0), drafted.draft(1), 1e-308);
    return {};
  }
};

}  // namespace

TEST_CASE("an error of what a rule computes from a row names the row, whoever asks") {
  const Eigen::MatrixXd target = Eigen::RowVector2d(0.75, 0.25).replicate(3, 1),
                        draft = Eigen::RowVector2d(0.5, 0.5).replicate(2, 1);
  const std::vector<Token> tokens{1, 1};
  const auto complaint = [&](auto rule, const Eigen::MatrixXd& p) {
    std::mt19937_64 rng{1};
    return message_of<InvalidDistribution>([&] { (void)verify(rule, p, draft, tokens, rng); });
  };
  CHECK(complaint(RaceByHand{}, target) == "specdec: target row 1: a coin has probability nan");
  CHECK(complaint(DrawFromResidual{}, target).starts_with("specdec: target row 1: probabilities"));
  CHECK(complaint(Residual{}, target) ==
        "specdec: target row 1: the residual of target and draft sums to inf");
  Eigen::MatrixXd broken = target;
  broken(0, 0) = std::numeric_limits<double>::quiet_NaN();
  CHECK(complaint(Overlap{}, broken) == "specdec: target row 0: the overlap of target and draft sums to nan");
}

TEST_CASE("numbers of rows and tokens are compared before there is memory for the tokens") {
  constexpr auto huge = static_cast<std::size_t>(std::numeric_limits<Index>::max() / 8);
  const Token token = 0;
  const TokenIds tokens{std::span<const Token>(&token, huge)};
  const RowMajor<double> rows = RowMajor<double>::Constant(1, 2, 0.5);
  std::mt19937_64 rng{1};
  CHECK(message_of<std::invalid_argument>([&] { BlockVerifier{}(rows, rows, tokens, rng); }) ==
        "specdec: draft has 1 rows, expected gamma = " + std::to_string(huge) + ", one per token");
  CHECK(message_of<std::invalid_argument>([&] {
          detail::TreeLinks(std::vector<Index>{-1}, static_cast<Index>(huge));
        }) == "specdec: parents has 1 numbers, expected one for each of " + std::to_string(huge) + " tokens");
}

// Rows of a temporary would not outlive it.
template <class D>
concept ShowsRows = requires(D&& drafted) { std::forward<D>(drafted).target(0); } ||
                    requires(D&& drafted) { std::forward<D>(drafted).draft(0); };
using DraftedRows = Drafted<DenseRows<RowPointers<double>>, DenseRows<RowPointers<double>>>;
static_assert(ShowsRows<const DraftedRows&> && !ShowsRows<DraftedRows>);
static_assert(!std::is_copy_constructible_v<DraftedRows> && !std::is_move_constructible_v<DraftedRows>);

}  // namespace test_verify_drafted
