// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <specdec/more/models/common_tokens.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"

namespace test_draft_strategies_line {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

// Overwrites its one row at every call, as engines do, and counts the tokens that it is fed.
class OverwritingModel {
 public:
  explicit OverwritingModel(TableModel<> table) : table_(std::move(table)), row_(table_.vocab_size()) {}
  Index vocab_size() const { return table_.vocab_size(); }
  auto forward(std::span<const Token> tokens, Index rows) {
    fed += static_cast<Index>(tokens.size());
    row_ = table_.forward(tokens, rows).row(rows - 1);
    return Eigen::Map<const Eigen::RowVectorXd>(row_.data(), row_.size());
  }
  void truncate(Index length) { table_.truncate(length); }
  auto distribution(std::span<const Token> context) const { return table_.distribution(context); }
  std::span<const Token> context() const { return table_.context(); }
  Index fed = 0;

 private:
  TableModel<> table_;
  Eigen::RowVectorXd row_;
};

// Its rows never move.
class StableModel {
 public:
  static constexpr bool stable_rows = true;
  explicit StableModel(TableModel<> table) : table_(std::move(table)) {}
  Index vocab_size() const { return table_.vocab_size(); }
  auto forward(std::span<const Token> tokens, Index rows) {
    table_.forward(tokens, rows);
    const auto row = table_.distribution(table_.context());
    return Eigen::Map<const Eigen::RowVectorXd>(row.segment(0, 0).data(), vocab_size());
  }
  void truncate(Index length) { table_.truncate(length); }
  auto distribution(std::span<const Token> context) const { return table_.distribution(context); }
  std::span<const Token> context() const { return table_.context(); }
  Index fed = 0;

 private:
  TableModel<> table_;
};

static_assert(OneTextDrafter<ModelDrafter<OverwritingModel>> &&
              !drafts_trees<ModelDrafter<OverwritingModel>>);
static_assert(has_stable_rows<StableModel>);
static_assert(!has_stable_rows<OverwritingModel>);

}  // namespace

namespace {

// How far the drafts are from the truth, over all their outcomes.
struct Deviations {
  bool shapes = true;        // three tokens, and three rows over four tokens
  double rows = 0;           // largest difference of a row from the model's
  double probabilities = 0;  // of a draft's probability from the product of its rows
  double sum = -1;           // of the sum of all drafts' probabilities from 1
};

// Exact: the law of each drafted token is its row, after whatever tokens.
template <class Model>
Deviations deviations() {
  std::mt19937_64 seed{1};
  Model model(TableModel<>::random(4, 2, seed));
  ModelDrafter drafter{model};
  const std::vector<Token> context{2, 0, 3};
  Deviations out;
  enumerate([&](Enumerator& chance) {
    drafter.truncate(0);
    const auto draft = drafter.draft(context, {3}, chance);
    const auto rows = distributions(draft.rows);
    if (draft.tokens.size() != 3 || rows.rows() != 3 || rows.vocab_size() != 4) {
      out.shapes = false;
      return;
    }
    std::vector<Token> so_far = context;
    double product = 1;
    for (Index i = 0; i < 3; ++i) {
      const auto row = rows.row(i), expected = model.distribution(so_far);
      for (Token x = 0; x < 4; ++x)
        out.rows = std::max(out.rows, std::abs(row.probability(x) - expected.probability(x)));
      const Token x = draft.tokens[static_cast<std::size_t>(i)];
      product *= row.probability(x);
      so_far.push_back(x);
    }
    out.probabilities = std::max(out.probabilities, std::abs(chance.probability() / product - 1));
    out.sum += chance.probability();
  });
  return out;
}

}  // namespace

TEST_CASE("the reported rows are the rows that were drawn from") {
  for (const Deviations& found : {deviations<OverwritingModel>(), deviations<StableModel>()}) {
    CHECK(found.shapes);
    CHECK(found.rows == 0);
    CHECK(found.probabilities < 1e-14);
    CHECK(std::abs(found.sum) < 1e-12);
  }
}

TEST_CASE("the model is fed only what it has not seen") {
  std::mt19937_64 rng{2};
  OverwritingModel model(TableModel<>::random(4, 2, rng));
  ModelDrafter drafter{model};
  std::vector<Token> context{1, 2, 3}, line;
  const auto fed_by = [&](Index gamma) {
    const Index before = model.fed;
    const auto draft = drafter.draft(context, {gamma}, rng);
    line.assign(draft.tokens.begin(), draft.tokens.end());
    CHECK(static_cast<Index>(line.size()) == gamma);
    return model.fed - before;
  };
  const auto go_on = [&](std::ptrdiff_t accepted) {
    context.insert(context.end(), line.begin(), line.begin() + accepted);
    drafter.truncate(std::ssize(context));
    context.push_back(1);  // Y
  };
  CHECK(fed_by(4) == 3 + 3);  // the context, then all drafted tokens but the last
  go_on(2);
  CHECK(fed_by(4) == 1 + 3);
  go_on(4);  // full acceptance: the model has not seen x_γ either
  CHECK(fed_by(2) == 2 + 1);
  CHECK(fed_by(0) == 0);  // no draft and no call: the text runs ahead of the cache
  go_on(0);
  context.push_back(2);  // a token that was not drafted
  CHECK(fed_by(1) == 2);
  CHECK(std::vector<Token>(model.context().begin(), model.context().end()) == context);
}

TEST_CASE("no more tokens are proposed than the model's context has room for") {
  std::mt19937_64 rng{4};
  ModelDrafter drafter{BoundedModel(TableModel<>::random(4, 2, rng), 6)};
  std::vector<Token> context{1, 2, 3};
  const auto proposed = [&](Index gamma) { return std::ssize(drafter.draft(context, {gamma}, rng).tokens); };
  CHECK(proposed(3) == 3);
  CHECK(proposed(9) == 4);  // the last token is not fed
  context.assign(6, 1);
  drafter.truncate(0);
  CHECK(proposed(2) == 1);
  context.push_back(1);
  CHECK(proposed(2) == 0);
}

TEST_CASE("a draft can be asked for again without a truncate() in between") {
  std::mt19937_64 rng{3};
  OverwritingModel model(TableModel<>::random(4, 2, rng));
  ModelDrafter drafter{model};
  const std::vector<Token> context{1, 2, 3};
  std::mt19937_64 a{7}, b{7};
  drafter.draft(context, {1}, rng);  // leaves only the context in the model
  const auto one = drafter.draft(context, {3}, a);
  const std::vector<Token> tokens(one.tokens.begin(), one.tokens.end());
  const auto two = drafter.draft(context, {3}, b);
  CHECK(std::vector<Token>(two.tokens.begin(), two.tokens.end()) == tokens);
}

TEST_CASE("a draft model's row that is not a distribution is named in the error") {
  Eigen::Matrix<double, 1, Eigen::Dynamic> row(2);
  row << 0.5, std::numeric_limits<double>::quiet_NaN();
  ModelDrafter drafter{TableModel<>::context_free(row)};
  std::mt19937_64 rng{1};
  CHECK(message_of([&] { drafter.draft(std::vector<Token>{0}, {2}, rng); }) ==
        "specdec: draft row 0: probabilities of tokens 0..1 sum to nan");
}

TEST_CASE("a row without a possible token ends the draft") {
  Eigen::Matrix<double, 1, Eigen::Dynamic> row(2);
  row << 0, 0;
  ModelDrafter drafter{TableModel<>::context_free(row)};
  std::mt19937_64 rng{1};
  CHECK(drafter.draft(std::vector<Token>{0}, {2}, rng).tokens.empty());
}

namespace {

// Lists its tokens out of order where the context is longer than one token.
struct DisorderedModel {
  std::vector<Token> ids;
  std::vector<double> p{0.5, 0.5};
  std::vector<SparseRow<double>> rows;
  Index seen = 0;
  Index vocab_size() const { return 4; }
  RowSpan<SparseRow<double>> forward(std::span<const Token> tokens, Index wanted) {
    seen += std::ssize(tokens);
    ids = seen > 1 ? std::vector<Token>{3, 1} : std::vector<Token>{1, 3};
    rows.assign(static_cast<std::size_t>(wanted), {ids, p, 4});
    return {rows, 4};
  }
  void truncate(Index length) { seen = length; }
};

}  // namespace

TEST_CASE("a row that the drafter cannot copy is named in the error") {
  const auto complaint = [](auto drafter) {
    std::mt19937_64 rng{1};
    return message_of<InvalidDistribution>(
        [&] { specdec::detail::ask_drafter(drafter, std::vector<Token>{0}, DraftLimits{2}, rng); });
  };
  const std::string words = "the ids of a sparse row do not ascend: ids[1] = 1, after ids[0] = 3";
  CHECK(complaint(ModelDrafter{DisorderedModel{}}) == "specdec: draft row 1: " + words);
  CHECK(
      complaint(ModelDrafter{CommonTokens{DisorderedModel{}, TokenMap{std::vector<Token>{0, 1, 2, 3}, 4}}}) ==
      "specdec: draft row 1: " + words);
}

namespace {

// The drafter's copies have the kind of the model's rows: logits are kept as logits, lists as lists.
template <class Layout>
using KeptRow =
    RowOf<decltype(std::declval<ModelDrafter<LayoutModel<Layout>>&>()
                       .draft(std::span<const Token>(), DraftLimits{1}, std::declval<std::mt19937_64&>())
                       .rows)>;
static_assert(std::is_same_v<KeptRow<AsLogits<float>>, LogitsRow<float>>);
static_assert(std::is_same_v<KeptRow<AsSparse<float, std::int64_t>>, SparseRow<double>>);
static_assert(std::is_same_v<KeptRow<AsColMajor<float>>, DenseRow<float>>);

}  // namespace

namespace {

// What a drafter reports of the rows of its draft: the tokens, the vocabulary size, every probability.
struct Drafted {
  std::vector<Token> tokens;
  Index vocab_size = 0;
  std::vector<std::vector<double>> rows = {};
};

// A drafter and its model, with rows of any kind.
struct AnyModelDrafter {
  std::function<Drafted(std::span<const Token>, Index, std::mt19937_64&)> draft;
  std::function<void(Index)> truncate;
  std::function<double(std::span<const Token>, Token)> meant;  // the model's probability
};

template <class Layout>
AnyModelDrafter drafter_of(LayoutModel<Layout>& model) {
  const auto drafter = std::make_shared<ModelDrafter<LayoutModel<Layout>&>>(model);
  const auto draft = [drafter](std::span<const Token> context, Index gamma, std::mt19937_64& rng) {
    const auto proposal = drafter->draft(context, {gamma}, rng);
    const auto rows = distributions(proposal.rows);
    Drafted out{{proposal.tokens.begin(), proposal.tokens.end()}, rows.vocab_size()};
    for (Index i = 0; i < rows.rows(); ++i) {
      const auto row = rows.row(i);
      std::vector<double>& p = out.rows.emplace_back();
      for (Token x = 0; x < row.vocab_size(); ++x) p.push_back(row.probability(x));
    }
    return out;
  };
  return {draft, [drafter](Index length) { drafter->truncate(length); },
          [&model](std::span<const Token> context, Token x) {
            return model.distribution(context).probability(x);
          }};
}

void check_rows(const AnyModelDrafter& drafter, std::mt19937_64& seed) {
  const std::vector<Token> context{2, 0, 3};
  for (int n = 0; n < 20; ++n) {
    drafter.truncate(n % 3);
    const Index gamma = 1 + n % 5;
    const Drafted draft = drafter.draft(context, gamma, seed);
    REQUIRE(std::ssize(draft.rows) == gamma);
    REQUIRE(draft.vocab_size == 4);
    std::vector<Token> so_far = context;
    for (std::size_t i = 0; i < draft.rows.size(); ++i) {
      REQUIRE(draft.rows[i].size() == 4);
      for (Token x = 0; x < 4; ++x)
        CHECK(draft.rows[i][static_cast<std::size_t>(x)] == Approx(drafter.meant(so_far, x)).epsilon(1e-6));
      so_far.push_back(draft.tokens[i]);
      CHECK(draft.rows[i][static_cast<std::size_t>(so_far.back())] > 0);
    }
  }
}

template <class Layout>
void check_layout() {
  std::mt19937_64 seed{6};
  // Every call of the model overwrites its rows, so they survive only in the drafter's copies.
  LayoutModel<Layout> model(coarse_model<typename Layout::Scalar>(4, 2, seed));
  check_rows(drafter_of(model), seed);
}

}  // namespace

TEST_CASE("rows of every kind are reported as they were drawn from") {
  check_layout<AsColMajor<float>>();
  check_layout<AsStridedPointers<double>>();
  check_layout<AsLogits<float, 70>>();
  check_layout<AsNormalisedLogits<double>>();
  check_layout<AsSparse<double>>();
  check_layout<AsSparse<float, std::int64_t>>();
}

TEST_CASE("a draft model's logits of NaN are named in the error") {
  struct Model {
    Eigen::MatrixXf logits = Eigen::MatrixXf::Constant(1, 4, std::numeric_limits<float>::quiet_NaN());
    Index vocab_size() const { return 4; }
    auto forward(std::span<const Token>, Index) const { return Logits{logits}; }
    void truncate(Index) {}
  };
  std::mt19937_64 rng{1};
  ModelDrafter drafter{Model{}};
  const std::vector<Token> context{0};
  CHECK(message_of([&] { drafter.draft(context, {2}, rng); }) ==
        "specdec: draft row 0: the largest logit is nan");
}

}  // namespace test_draft_strategies_line
