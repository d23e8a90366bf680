// The first law for every kind of row: however target and draft store their distributions, the output has the law that
// the target's rows mean. The shipped templates are enumerated exactly.
//
// What a rule does with a row depends on what the row offers: only look-ups, a list, segments to sum, a cut, one
// token. The mixes below take every such path under every rule, in the types that users have. The other kinds of rows
// differ only in how they answer. Their law is checked through AnyRows, for which the loop is compiled once, and their
// own types must give the verdicts of AnyRows.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/any_rows.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/models.hpp"
#include "support/rules.hpp"

namespace law_rows {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using Half = Eigen::half;
using BFloat = Eigen::bfloat16;

// Arithmetic in double, on numbers that are stored exactly or that have their exponentials taken in double.
constexpr double exact = 1e-12;
// Rows that sum their exponentials in float: each probability is right to a few units of float's last place, 2^-24 =
// 6e-8, and an output is a product of five such probabilities.
constexpr double in_float = 1e-6;

// ---- The loop as it stands, with caches and copies of rows ----

// Proposes the likeliest continuation in a table: a draft without probabilities.
class Guesser {
 public:
  explicit Guesser(TableModel<> table) : table_(std::move(table)) {}
  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, auto&) {
    tokens_.clear();
    std::vector<Token> all(context.begin(), context.end());
    for (Index i = 0; i < gamma; ++i) {
      tokens_.push_back(table_.distribution(all).argmax());
      all.push_back(tokens_.back());
    }
    return {tokens_, OneHotRows(tokens_)};
  }
  void truncate(Index) {}

 private:
  TableModel<> table_;
  std::vector<Token> tokens_;
};

struct AsOneHot {};

// Rows of one of two kinds; which one is known only at run time.
struct AsVariant {
  using Scalar = double;
  AsSparse<double> sparse;
  AsLogits<double> logits;
  bool listed = false;
  void hold(const RowMajor<double>& m) {
    listed = m(0, 0) > 0.3;
    if (listed) sparse.hold(m);
    else logits.hold(m);
  }
  struct View {
    const AsVariant* from;
    using Row = VariantRow<RowOf<decltype(sparse.view())>, RowOf<decltype(logits.view())>>;
    Index rows() const { return from->listed ? from->sparse.view().rows() : from->logits.view().rows(); }
    Index vocab_size() const {
      return from->listed ? from->sparse.view().vocab_size() : from->logits.view().vocab_size();
    }
    Row row(Index i) const {
      if (from->listed) return Row(std::in_place_index<0>, from->sparse.view().row(i));
      return Row(std::in_place_index<1>, from->logits.view().row(i));
    }
  };
  View view() const { return {this}; }
};

// The two likeliest tokens of logits, and all tokens that tie with the second.
struct AsTopTwo {
  using Scalar = double;
  AsLogits<double> logits;
  void hold(const RowMajor<double>& m) { logits.hold(m); }
  auto view() const { return ProcessedRows{logits.held, Chain{TopK(2)}}; }
  static Eigen::RowVectorXd means(const RowMajor<double>& row) {
    Eigen::RowVectorXd sorted = row;
    std::sort(sorted.begin(), sorted.end(), std::greater{});
    const double second = sorted[std::min<Index>(1, sorted.size() - 1)];
    const Eigen::RowVectorXd kept = (row.array() >= second).select(row, 0.0);
    return kept / kept.sum();
  }
};

// Rows that answer look-ups and nothing else.
struct AsLookUps {
  using Scalar = double;
  RowMajor<double> held;
  void hold(const RowMajor<double>& m) { held = m; }
  AnyRows view() const { return AnyRows(distributions(held)); }
};

template <class Layout>
auto model(Index vocab_size, std::mt19937_64& rng) {
  return LayoutModel<Layout>(coarse_model<typename Layout::Scalar>(vocab_size, 2, rng));
}

template <class Layout>
auto drafter(Index vocab_size, std::mt19937_64& rng) {
  if constexpr (std::is_same_v<Layout, AsOneHot>) return Guesser(coarse_model(vocab_size, 2, rng));
  else return ModelDrafter{model<Layout>(vocab_size, rng)};
}

// The findings about one rule over many pairs of models.
struct Findings {
  double difference = 0, drafted = 0, accepted = 0;
  std::string where;
};

// V of the target and V of the drafter. A draft with a token that only one of them knows is never accepted whole.
using Sizes = std::vector<std::pair<Index, Index>>;
const Sizes equal_sizes{{2, 2}, {3, 3}};
const Sizes other_sizes{{2, 3}, {2, 5}, {1, 2}, {3, 4}, {3, 2}, {4, 2}, {2, 1}};

template <class Rule, class MakeTarget, class MakeDrafter>
Findings law_of(const Rule& rule, const MakeTarget& make_target, const MakeDrafter& make_drafter,
                const Sizes& sizes, int pairs) {
  const std::vector<Token> prompt{0, 0};
  Findings found;
  std::mt19937_64 rng{61};
  for (int pair = 0; pair < pairs; ++pair)
    for (const auto& [target_size, draft_size] : sizes)
      for (const Index gamma : {1, 2, 3}) {
        auto target = make_target(target_size, rng);
        SpecDec decoder{target, make_drafter(draft_size, rng), rule};
        const Options options{.max_new_tokens = target_size == 2 && draft_size == 2 ? 5 : 4, .gamma = gamma};
        const GenerationLaw got = enumerate_generate(decoder, prompt, options);
        const bool greedy = std::is_same_v<Rule, ArgmaxVerifier>;
        const Difference difference = largest_difference(
            got.law, greedy ? greedy_law(target, prompt, options) : target_law(target, prompt, options));
        found.drafted += got.drafted;
        found.accepted += got.accepted;
        if (!(difference.size <= found.difference)) {
          found.difference = difference.size;
          found.where = "V = " + std::to_string(target_size) + " and " + std::to_string(draft_size) +
                        ", gamma = " + std::to_string(gamma) + ", output " + to_string(difference.tokens);
        }
      }
  return found;
}

template <class TargetLayout, class DraftLayout, class Rule>
Findings law_of_mix(const Rule& rule, const Sizes& sizes = equal_sizes) {
  return law_of(rule, model<TargetLayout>, drafter<DraftLayout>, sizes, sizes == equal_sizes ? 5 : 2);
}

void check(const Findings& found, double tolerance, const char* rule = "") {
  INFO(rule << " " << found.where);
  CHECK(found.difference < tolerance);
  CHECK(found.drafted > 1);
  CHECK(found.accepted > 0.1);
  CHECK(found.drafted - found.accepted > 0.1);
}

template <class TargetLayout, class DraftLayout>
void check_rules(double tolerance, const Sizes& sizes = equal_sizes) {
  for (const AnyVerifier& rule : sampling_rules)
    check(law_of_mix<TargetLayout, DraftLayout>(for_loops(rule), sizes), tolerance, rule.name());
}

}  // namespace

TEST_CASE("every rule is lossless, for everything that a row may offer", "[law]") {
  check_rules<AsStridedPointers<float>, AsNarrow<BFloat>>(exact);
  check_rules<AsSparse<double>, AsSparse<float, std::int64_t>>(exact);
  check_rules<AsSparse<Half>, AsLogits<double>>(exact);
  check_rules<AsLogits<double, 70>, AsSparse<double>>(exact);
  check_rules<AsNormalisedLogits<double>, AsLogits<Half>>(in_float);
  check_rules<AsRowMajor<double>, AsOneHot>(exact);
  check_rules<AsTopTwo, AsTopTwo>(exact);
  check_rules<AsLookUps, AsLookUps>(exact);
}

TEST_CASE("block verification by SpecDec itself is lossless", "[law]") {
  check(law_of_mix<AsLogits<float>, AsVariant>(BlockVerifier{}), in_float);
  check(law_of_mix<AsSparse<double>, AsRowMajor<double>>(BlockVerifier{}), exact);
  check(law_of_mix<AsTopTwo, AsOneHot>(BlockVerifier{}), exact);
}

TEST_CASE("vocabularies of target and drafter may differ without loss", "[law]") {
  check_rules<AsSparse<double>, AsSparse<float, std::int64_t>>(exact, other_sizes);
  check_rules<AsLogits<double, 70>, AsSparse<double>>(exact, other_sizes);
}

namespace {

// ---- Every kind of row, in its own type and inside AnyRows ----

struct Kind {
  std::string name;
  double tolerance;
  AnyModel (*model)(Index vocab_size, std::mt19937_64& rng);
  // Verdicts on the rows p and q, stored as this kind stores them: {in their own types, by look-ups alone}.
  std::pair<std::vector<Verdict>, std::vector<Verdict>> (*verdicts)(const RowMajor<double>& p,
                                                                    const RowMajor<double>& q);
};

template <class Rule>
void judge(Rule rule, const auto& target, const auto& draft, std::vector<Verdict>& verdicts) {
  std::mt19937_64 rng{7};
  RandomChance chance{rng};
  std::vector<Token> tokens(3);
  for (int n = 0; n < 200; ++n) {
    for (Index i = 0; i < 3; ++i) tokens[static_cast<std::size_t>(i)] = chance.draw(draft.row(i));
    verdicts.push_back(rule(target, draft, tokens, rng));
  }
}

template <class Layout>
Kind kind(std::string name, double tolerance = exact) {
  return {std::move(name), tolerance,
          [](Index vocab_size, std::mt19937_64& rng) {
            return AnyModel::of<Layout>(coarse_model<typename Layout::Scalar>(vocab_size, 2, rng));
          },
          [](const RowMajor<double>& p, const RowMajor<double>& q) {
            Layout target, draft;
            target.hold(p.template cast<typename Layout::Scalar>());
            draft.hold(q.template cast<typename Layout::Scalar>());
            const auto p_rows = distributions(std::as_const(target).view());
            const auto q_rows = distributions(std::as_const(draft).view());
            std::pair<std::vector<Verdict>, std::vector<Verdict>> out;
            judge(BlockVerifier{}, p_rows, q_rows, out.first);
            judge(BlockVerifier{}, AnyRows(p_rows), AnyRows(q_rows), out.second);
            return out;
          }};
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      kind<AsRowMajor<float>>("row-major float"),
      kind<AsColMajor<double>>("column-major double"),
      kind<AsPointers<float>>("pointers to float"),
      kind<AsNarrow<Half>>("half"),
      kind<AsLogits<float>>("logits of float", in_float),
      kind<AsLogits<BFloat, 70>>("logits of bfloat16, T = 0.7", in_float),
      kind<AsNormalisedLogits<float>>("logits of float with their log-sum-exp", in_float),
      kind<AsSparse<float>>("lists of float"),
      kind<AsList<double>>("lists of structs"),
      kind<AsTopTwo>("the likeliest two of logits"),
      kind<AsVariant>("one of two kinds"),
  };
  return all;
}

}  // namespace

TEST_CASE("every kind of row is lossless, with its own kind and with others", "[law]") {
  for (std::size_t t = 0; t < kinds().size(); ++t)
    for (const std::size_t step : {0u, 1u, 3u}) {
      const Kind &target = kinds()[t], &draft = kinds()[(t + step) % kinds().size()];
      INFO("target: " << target.name << ", draft: " << draft.name);
      const auto drafter = [&](Index vocab_size, std::mt19937_64& rng) {
        return ModelDrafter{draft.model(vocab_size, rng)};
      };
      for (const AnyVerifier& rule : sampling_rules)
        check(law_of(for_loops(rule), target.model, drafter, equal_sizes, 1),
              std::max(target.tolerance, draft.tolerance), rule.name());
      check(law_of(ArgmaxVerifier{}, target.model, drafter, equal_sizes, 1),
            std::max(target.tolerance, draft.tolerance), "argmax");
    }
}

TEST_CASE("every kind of row gives the verdicts that its look-ups alone give, for the same random numbers",
          "[law]") {
  std::mt19937_64 rng{71};
  const auto random_rows = [&](Index rows) {
    RowMajor<double> m(rows, 700);  // long enough that a row is summed in several segments
    for (double& p : m.reshaped()) p = uniform01(rng) < 0.5 ? 0.0 : uniform01(rng) * uniform01(rng);
    for (Index i = 0; i < rows; ++i) {
      m(i, 40 * i) += 20;
      m.row(i) /= m.row(i).sum();
    }
    return m;
  };
  const RowMajor<double> p = random_rows(4), q = random_rows(3);
  for (const Kind& kind : kinds()) {
    INFO(kind.name);
    const auto [direct, by_look_ups] = kind.verdicts(p, q);
    CHECK(direct.size() == 200);
    CHECK(direct == by_look_ups);
    const auto accepted = [](const Verdict& v) { return v.accepted == 3; };
    CHECK(std::ranges::count_if(direct, accepted) > 5);
    CHECK(std::ranges::count_if(direct, accepted) < 195);
  }
}

}  // namespace law_rows
