// The first law again, by sampling: real generators, real draws, and the race as it runs. Each check has a false-alarm
// rate of 1e-6; the seeds are fixed. X² looks everywhere, and so sees little of what a mistake likely leaves: some texts of
// the draft model. Where two small models write, a second check looks for these alone: one of a hundred is convicted.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/rules.hpp"

namespace law_sampled {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using Text = std::vector<Token>;

// Whether texts lean towards the draft model's. The score of a text is the likelihood ratio q/p of the two models, up to a
// bound; its mean and its variance under the target are known. Bernstein's inequality says how far a sum may be above them.
class Leaning {
 public:
  Leaning(const Law& target, const Law& draft) {
    for (const auto& [text, p] : target) {
      const auto q = draft.find(text);
      const double score = p > 0 && q != draft.end() ? std::min(q->second / p, largest) : 0.0;
      scores_[text] = score;
      mean_ += p * score;
      square_ += p * score * score;
    }
  }

  void see(const Text& text) {
    const auto score = scores_.find(text);
    sum_ += score == scores_.end() ? 0.0 : score->second - mean_;
    ++texts_;
  }
  bool convicts() const {
    const double variance = texts_ * (square_ - mean_ * mean_);
    return sum_ > 0 && sum_ * sum_ / (2 * (variance + largest * sum_ / 3)) > std::log(1e6);
  }

 private:
  static constexpr double largest = 50;

  std::map<Text, double> scores_;
  double mean_ = 0, square_ = 0, sum_ = 0;
  int texts_ = 0;
};

void check(const char* rule, const SampledReport& report) {
  INFO(rule << ": " << report);
  CHECK(report.accepted);
  CHECK(report.degrees > 20);
}

// Two models, and the laws of five tokens.
template <class Scalar>
struct Pair {
  TableModel<Scalar> target, small;
  Law target_law, draft_law;

  explicit Pair(std::mt19937_64 rng)
      : target(TableModel<Scalar>::random(3, 2, rng)),
        small(TableModel<Scalar>::random(3, 2, rng)),
        target_law(testing::target_law(target, prompt, {.max_new_tokens = 5})),
        draft_law(testing::target_law(small, prompt, {.max_new_tokens = 5})) {}

  static inline const Text prompt{2, 1};
};

constexpr int joint_samples = 15000;

template <class Scalar, class V, class Generator>
void check_joint_law(const char* rule, const V& verifier, Index gamma, Generator rng) {
  const Pair<Scalar> pair(std::mt19937_64{51});
  Leaning leaning(pair.target_law, pair.draft_law);
  SpecDec decoder{TableModel<Scalar>(pair.target), ModelDrafter{TableModel<Scalar>(pair.small)}, verifier};
  const auto sample = [&] {
    const Text text = decoder.generate(pair.prompt, {.max_new_tokens = 5, .gamma = gamma}, rng).tokens;
    leaning.see(text);
    return text;
  };
  check(rule, check_sampled(sample, pair.target_law, joint_samples));
  CHECK_FALSE(leaning.convicts());
}

}  // namespace

TEST_CASE("the sampled joint law of five tokens is the target's", "[law][sampled]") {
  for (const AnyVerifier& rule : sampling_rules)
    for (const Index gamma : {1, 2, 3, 4})
      check_joint_law<double>(rule.name(), for_loops(rule), gamma,
                              std::mt19937_64{static_cast<unsigned>(gamma)});
  // A small generator of 31 bits. Its successive numbers are not independent.
  check_joint_law<float>("block", BlockVerifier{}, 3, std::minstd_rand{4});
}

TEST_CASE("one text of a hundred that is the draft model's is convicted", "[sampled]") {
  const Pair<double> pair(std::mt19937_64{51});
  for (const double share : {0.0, 0.01})
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      std::mt19937_64 rng{seed};
      Leaning leaning(pair.target_law, pair.draft_law);
      for (int n = 0; n < joint_samples; ++n) {
        const TableModel<>& model = uniform01(rng) < share ? pair.small : pair.target;
        Text text = pair.prompt;
        while (text.size() < 7) text.push_back(RandomChance(rng).draw(model.distribution(text)));
        leaning.see({text.begin() + 2, text.end()});
      }
      CHECK(leaning.convicts() == (share > 0));
    }
}

namespace {

// Rows of many segments. Most of the mass lies on three tokens. The other tokens fall into four cells by their id, and
// each cell has tokens in every segment of a row. So a draw that strays to a wrong token is noticed in three of four
// cases.
constexpr Index row_size = 5000;
constexpr Token heads[] = {3, 2500, 4999};
constexpr Token cells = 7;

Token cell_of(Token x) {
  const auto found = std::ranges::find(heads, x);
  return found == std::end(heads) ? 3 + x % 4 : static_cast<Token>(found - std::begin(heads));
}

RowMajor<double> peaked_rows(Index rows, std::mt19937_64& rng) {
  RowMajor<double> m(rows, row_size);
  for (Index i = 0; i < rows; ++i) {
    double share[4];  // of the four cells besides the three heads; each row has its own shares
    for (double& s : share) s = uniform01(rng);
    for (Token x = 0; x < row_size; ++x)
      m(i, x) = uniform01(rng) < 0.2 ? share[x % 4] * uniform01(rng) / 600 : 0.0;
    for (const Token x : heads) m(i, x) += 0.1 + 0.3 * uniform01(rng);
    m.row(i) /= m.row(i).sum();
  }
  return m;
}

Eigen::Matrix<double, Eigen::Dynamic, cells> cell_masses(const RowMajor<double>& rows) {
  Eigen::Matrix<double, Eigen::Dynamic, cells> masses =
      Eigen::Matrix<double, Eigen::Dynamic, cells>::Zero(rows.rows(), cells);
  for (Token x = 0; x < row_size; ++x) masses.col(cell_of(x)) += rows.col(x);
  return masses;
}

// Two steps, and draws from the target that complete the text to three tokens. Under every lossless rule this text has
// the target's law (Sun et al., Lemma 2 for one step). Here that law is a product of rows, because a row depends only
// on its position. Greedy block verification needs the second step: it corrects what the first step left owing.
template <class TargetLayout, class DraftLayout>
void check_long_rows(std::uint64_t seed, int samples) {
  std::mt19937_64 rng{seed};
  TargetLayout target[3];  // the rows after 0, 1 and 2 tokens
  DraftLayout draft[3];
  const RowMajor<double> p = peaked_rows(3, rng), q = peaked_rows(2, rng);
  for (Index i = 0; i < 3; ++i) {
    target[i].hold(p.bottomRows(3 - i).template cast<typename TargetLayout::Scalar>());
    draft[i].hold(q.bottomRows(2 - std::min<Index>(i, 2)).template cast<typename DraftLayout::Scalar>());
  }
  const auto masses = cell_masses(p);
  Law expected;
  for (Token a = 0; a < cells; ++a)
    for (Token b = 0; b < cells; ++b)
      for (Token c = 0; c < cells; ++c) expected[{a, b, c}] = masses(0, a) * masses(1, b) * masses(2, c);
  RandomChance chance{rng};
  for (const AnyVerifier& rule : sampling_rules) {
    const auto sample = [&] {
      AnyVerifier verifier = rule;
      std::vector<Token> text;
      while (text.size() < 3) {
        const std::size_t done = text.size();
        const auto& drafts = std::as_const(draft[done]).view();
        std::vector<Token> tokens;
        for (Index i = 0; i < 2 - static_cast<Index>(done); ++i)
          tokens.push_back(chance.draw(distributions(drafts).row(i)));
        const Verdict v = verifier(std::as_const(target[done]).view(), drafts, tokens, rng);
        text.insert(text.end(), tokens.begin(), tokens.begin() + v.accepted);
        text.push_back(v.token);
      }
      for (Token& x : text) x = cell_of(x);
      return text;
    };
    check(rule.name(), check_sampled(sample, expected, samples));
  }
}

}  // namespace

TEST_CASE("the sampled law over 5000 tokens is the target's, for every kind of row", "[law][sampled]") {
  const int samples = 8000;
  check_long_rows<AsPointers<float>, AsStridedPointers<float>>(5, samples);
  check_long_rows<AsSparse<double>, AsRowMajor<float>>(6, samples);
  check_long_rows<AsLogits<float>, AsSparse<float, std::int64_t>>(7, samples);
  check_long_rows<AsNormalisedLogits<float>, AsLogits<float, 70>>(8, samples);
}

}  // namespace law_sampled
