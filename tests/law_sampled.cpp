// The first law again, by sampling: real generators, real draws, and the race as it runs. Each check has a false-alarm
// rate of 1e-6; the seeds are fixed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
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

void check(const char* rule, const SampledReport& report) {
  INFO(rule << ": " << report);
  CHECK(report.accepted);
  CHECK(report.degrees > 20);
}

template <class Scalar, class V, class Generator>
SampledReport joint_law(const V& verifier, Index gamma, Generator rng) {
  std::mt19937_64 models{51};
  auto target = TableModel<Scalar>::random(3, 2, models);
  ModelDrafter drafter{TableModel<Scalar>::random(3, 2, models)};
  SpecDec decoder{target, drafter, verifier};
  const std::vector<Token> prompt{2, 1};
  const Options options{.max_new_tokens = 5, .gamma = gamma};
  return check_sampled([&] { return decoder.generate(prompt, options, rng).tokens; },
                       target_law(target, prompt, options), 15000);
}

}  // namespace

TEST_CASE("the sampled joint law of five tokens is the target's", "[law][sampled]") {
  for (const AnyVerifier& rule : sampling_rules)
    for (const Index gamma : {1, 2, 3, 4})
      check(rule.name(),
            joint_law<double>(for_loops(rule), gamma, std::mt19937_64{static_cast<unsigned>(gamma)}));
  // A small generator of 31 bits. Its successive numbers are not independent.
  check("block", joint_law<float>(BlockVerifier{}, 3, std::minstd_rand{4}));
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
