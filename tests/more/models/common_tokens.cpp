// Models of another vocabulary: their rows depend only on the text, tokens are drawn from these rows, and no law
// changes.
// SPDX-License-Identifier: MIT
#include "specdec/more/models/common_tokens.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
#include "specdec/more/drafters/confident_tree.hpp"
#include "specdec/more/models/windowed.hpp"
#include "specdec/more/text/match_tokens.hpp"

#include "support/catch.hpp"
#include "support/copied_rows.hpp"
#include "support/many_texts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/one_of_drafters.hpp"
#include "support/rules.hpp"
#include "support/tree_models.hpp"

namespace test_more_models_common_tokens {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

using Tokens = std::vector<Token>;
constexpr Token none = TokenMap::none;

static_assert(Model<CommonTokens<TableModel<>>> && Model<CommonTokens<TableModel<>&>>);
static_assert(takes_trees<CommonTokens<TableModel<>>> && !takes_trees<CommonTokens<BoundedModel>>);
static_assert(BatchModel<CommonTokens<ModelPerSequence<TableModel<>>>>);
static_assert(Model<CommonTokens<Windowed<TableModel<>>>> && Model<Windowed<CommonTokens<TableModel<>>>>);
static_assert(takes_trees<CommonTokens<PathByPath<BoundedModel>>>);
static_assert(has_stable_rows<CommonTokens<StableModel>> && !has_stable_rows<CommonTokens<TableModel<>>>);

namespace {

// The target's pieces, and the draft model's.
constexpr std::array<std::string_view, 3> pieces{"a", "b", "ab"};
constexpr std::array<std::string_view, 3> draft_pieces{"b", "ba", "a"};

TokenMap common_map() {
  return TokenMap{match_tokens(
                      3, [](Token d) { return draft_pieces[static_cast<std::size_t>(d)]; }, 3,
                      [](Token x) { return pieces[static_cast<std::size_t>(x)]; }),
                  3};
}

// How token 2 of the target, "ab", is spelled for the draft model. With an empty spelling the model is fed token 0.
const std::vector<Tokens> spellings{{0}, {2, 0}, {}, {1, 0, 2}};
auto spelled_as(const Tokens& spelling) {
  return [&spelling](Token) { return spelling; };
}

// The definition of what the draft model is fed.
Tokens shown(std::span<const Token> text, const Tokens& spelling) {
  const TokenMap map = common_map();
  Tokens tokens;
  for (const Token x : text) {
    if (x == 2 && !spelling.empty()) tokens.insert(tokens.end(), spelling.begin(), spelling.end());
    else tokens.push_back(map.from(x) == none ? 0 : map.from(x));
  }
  return tokens;
}

// A, b, ab: "b" has the lowest id in the draft model, but no mass.
const Eigen::RowVector3d without_mass(0, 1, 0);

Eigen::RowVector3d expected_row(const TableModel<>& model, std::span<const Token> text,
                                const Tokens& spelling) {
  const auto row = model.distribution(shown(text, spelling));
  Eigen::RowVector3d p(row.probability(2), row.probability(0), 0);
  return p.sum() > 0 ? Eigen::RowVector3d(p / p.sum()) : without_mass;
}

bool near(const Eigen::RowVector3d& p, const Eigen::RowVector3d& q) {
  return (p - q).cwiseAbs().maxCoeff() < 1e-12;
}

// A random draft model. Sometimes it gives mass only to tokens that the target does not have.
TableModel<> draft_model(Index order, std::mt19937_64& rng, double foreign = 0.25) {
  TableModel<>::Rows table(order == 2 ? 16 : 64, 3);
  for (Index i = 0; i < table.rows(); ++i) {
    const double share = uniform01(rng) < foreign ? 1 : static_cast<int>(8 * uniform01(rng)) / 8.0;
    const double rest = static_cast<int>(5 * uniform01(rng)) / 4.0;
    table.row(i) << (1 - share) * rest, share, (1 - share) * (1 - rest);
  }
  return TableModel<>(table, order);
}

// Accepts calls that ask for no row, too.
class Inner : public WatchedTreeModel {
 public:
  using WatchedTreeModel::WatchedTreeModel;
  const RowMajor<double>& forward(std::span<const Token> tokens, Index rows) {
    const RowMajor<double>& all = WatchedTreeModel::forward(tokens, std::max<Index>(rows, 1));
    return rows == 0 ? no_rows_ : all;
  }
  const RowMajor<double>& forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    const RowMajor<double>& all = WatchedTreeModel::forward(tokens, parents, std::max<Index>(rows, 1));
    return rows == 0 ? no_rows_ : all;
  }

 private:
  RowMajor<double> no_rows_{0, 3};
};

// Wraps a model for one text, or a model for many texts with one text in it.
CopiedRows wrapped(Inner& model, const Tokens& spelling, bool for_many) {
  if (for_many)
    return CopiedRows(AsOneText{CommonTokens{OnlyText{model}, common_map(), spelled_as(spelling)}});
  return CopiedRows(CommonTokens{model, common_map(), spelled_as(spelling)});
}

// A text and its tree as told to a model, and the model that must follow them.
struct Told {
  const TableModel<>& table;
  Inner& inner;
  CopiedRows& model;
  const Tokens& spelling;
  Index most;
  std::mt19937_64& rng;
  Tokens text = {}, tree = {};
  std::vector<Index> parents = {};
  int rows = 0, empty = 0, failures = 0;

  Index below(Index n) { return static_cast<Index>(rng() % static_cast<std::uint64_t>(n)); }
  Tokens some_tokens(Index count) {
    Tokens tokens(static_cast<std::size_t>(count));
    for (Token& x : tokens) x = static_cast<Token>(below(5));  // two of these are not in the map
    return tokens;
  }

  void feed_line() {
    const Tokens tokens = some_tokens(1 + below(4));
    const Index wanted = 1 + below(std::ssize(tokens));
    if (!attempt([&] { check_rows(model.forward(tokens, wanted), joined(text, tokens), wanted); })) return;
    text = joined(text, tokens);
  }
  void feed_tree() {
    const Tokens tokens = some_tokens(1 + below(4));
    const Index wanted = 1 + below(std::ssize(tokens));
    const auto before = tree.size();
    tree.insert(tree.end(), tokens.begin(), tokens.end());
    for (std::size_t k = before; k < tree.size(); ++k)
      parents.push_back(below(static_cast<Index>(k) + 1) - 1);
    const auto whom = std::span<const Index>(parents).subspan(before);
    if (!attempt([&] { check_nodes(model.forward(tokens, whom, wanted), wanted); })) clear();
  }
  void keep_path() {
    std::vector<Index> path;
    for (Index node = below(std::ssize(tree) + 1) - 1; node >= 0;
         node = parents[static_cast<std::size_t>(node)])
      path.insert(path.begin(), node);
    model.keep(path);
    text = text_before(text, tree, parents, path.empty() ? -1 : path.back());
    clear();
  }
  void truncate() {
    const Index length = below(std::ssize(text) + 2);
    model.truncate(length);
    text.resize(std::min(text.size(), static_cast<std::size_t>(length)));
    clear();
  }

 private:
  static Tokens joined(Tokens text, const Tokens& tokens) {
    text.insert(text.end(), tokens.begin(), tokens.end());
    return text;
  }
  void clear() {
    tree.clear();
    parents.clear();
  }
  bool attempt(const std::function<void()>& call) {
    inner.fails_at = below(6) == 0 ? inner.calls : -1;
    try {
      call();
      return true;
    } catch (const std::runtime_error&) {
      ++failures;
      return false;
    }
  }
  void check_rows(const RowMajor<double>& output, const Tokens& all, Index wanted) {
    REQUIRE(output.rows() == wanted);
    for (Index i = 0; i < wanted; ++i) {
      const auto before = std::span(all).first(all.size() - static_cast<std::size_t>(wanted - 1 - i));
      const bool fits = std::ssize(shown(before, spelling)) <= most;
      check(output.row(i), fits ? expected_row(table, before, spelling) : without_mass);
    }
  }
  // Every node of a tree takes room in the context.
  void check_nodes(const RowMajor<double>& output, Index wanted) {
    REQUIRE(output.rows() == wanted);
    Index all = std::ssize(shown(text, spelling));
    for (const Token x : tree) all += std::max<Index>(x == 2 ? std::ssize(spelling) : 1, 1);
    for (Index i = 0; i < wanted; ++i) {
      const Tokens before = text_before(text, tree, parents, std::ssize(tree) - wanted + i);
      const Eigen::RowVector3d found = output.row(i);
      if (all > most && found == without_mass) ++empty;
      else check(found, expected_row(table, before, spelling));
    }
  }
  void check(const Eigen::RowVector3d& found, const Eigen::RowVector3d& expected) {
    CHECK(near(found, expected));
    ++rows;
    empty += expected == without_mass;
  }
};

}  // namespace

TEST_CASE("common tokens: a row depends on the text only, however the text came about and whatever fails") {
  const bool for_many = GENERATE(false, true);
  INFO((for_many ? "for many texts" : "for one text"));
  std::mt19937_64 rng{1};
  for (const Tokens& spelling : spellings)
    for (const Index most : {unlimited, Index{9}}) {
      const auto table = draft_model(3, rng);
      Inner inner(table, most);
      CopiedRows model = wrapped(inner, spelling, for_many);
      CHECK(model.vocab_size() == 3);
      CHECK(model.context_size() == most);
      Told told{table, inner, model, spelling, most, rng};
      for (int step = 0; step < 600; ++step) {
        const Index dice = told.below(8);
        if (dice == 0 || told.text.size() > 12) told.truncate();
        else if (dice == 1) told.keep_path();
        else if (told.tree.empty() && dice < 5) told.feed_line();
        else told.feed_tree();
      }
      CHECK(told.rows > 200);
      CHECK(told.empty > 20);
      CHECK(told.failures > 20);
    }
}

TEST_CASE("common tokens: only new tokens are fed, each once") {
  std::mt19937_64 rng{2};
  Inner inner(draft_model(3, rng));
  CommonTokens model{inner, common_map(), spelled_as(spellings[1])};
  const auto fed = [&](const Tokens& tokens, Index rows) {
    inner.fed = 0;
    model.forward(tokens, rows);
    return inner.fed;
  };
  const auto grown = [&](const Tokens& tokens, const std::vector<Index>& parents) {
    inner.fed = 0;
    model.forward(tokens, parents, 1);
    return inner.fed;
  };
  CHECK(fed({0, 1, 1}, 2) == 3);
  CHECK(fed({0, 2}, 2) == 3);
  CHECK(fed({2}, 1) == 2);
  CHECK(grown({0, 1}, {-1, 0}) == 2);
  CHECK(grown({1, 2}, {0, 1}) == 3);
  CHECK(grown({0}, {3}) == 1);
  model.keep(std::vector<Index>{0, 1, 3, 4});
  CHECK(inner.context().size() == 8 + 5);
  CHECK(fed({0}, 1) == 1);
  model.truncate(2);
  CHECK(inner.context().size() == 2);
  CHECK(fed({1}, 1) == 1);
}

TEST_CASE("common tokens: drafts of a model with another vocabulary are lossless under every rule", "[law]") {
  std::mt19937_64 rng{11};
  const Tokens prompt{0, 2};
  for (const AnyVerifier& rule : sampling_rules) {
    INFO(rule.name());
    double difference = 0, accepted = 0, rejected = 0;
    for (const Tokens& spelling : spellings)
      for (const Index gamma : {1, 2, 3}) {
        auto target = TableModel<>::random(3, 2, rng);
        SpecDec decoder{target,
                        ModelDrafter{CommonTokens{draft_model(2, rng), common_map(), spelled_as(spelling)}},
                        for_loops(rule)};
        const Options options{.max_new_tokens = 4, .gamma = gamma};
        const GenerationLaw got = enumerate_generate(decoder, prompt, options);
        difference =
            std::max(difference, largest_difference(got.law, target_law(target, prompt, options)).size);
        accepted += got.accepted;
        rejected += got.drafted - got.accepted;
      }
    CHECK(difference < 1e-12);
    CHECK(accepted > 1);
    CHECK(rejected > 1);
  }
}

namespace {

enum Kind { lines, drawn_trees, sure_trees, spare_tokens, lines_of_stable_rows };
constexpr const char* kinds[] = {"lines", "drawn trees", "sure trees", "spare tokens",
                                 "lines of stable rows"};

// The drafters of all kinds over a model.
template <class M, class... More>
using AnyKind = OneOfDrafters<ModelDrafter<M>, ModelDrafter<M, Tree<WithoutReplacement>>,
                              ModelDrafter<M, ConfidentTree>, ModelDrafter<M, Spares>, More...>;
using Alone = AnyKind<CommonTokens<TableModel<>>, ModelDrafter<CommonTokens<StableModel>>>;
using Together = AnyKind<CommonTokens<ModelPerSequence<TableModel<>>>>;

template <class Drafter>
Drafter drafter_of(Kind kind, auto model, const Tokens& spelling) {
  CommonTokens wrapped{std::move(model), common_map(), spelled_as(spelling)};
  if (kind == lines) return ModelDrafter{std::move(wrapped)};
  if (kind == drawn_trees)
    return ModelDrafter{std::move(wrapped), Tree{TreeShape::of_widths({2, 1}), WithoutReplacement{}}};
  if (kind == sure_trees) return ModelDrafter{std::move(wrapped), ConfidentTree{.nodes = 3}};
  return ModelDrafter{std::move(wrapped), Spares{2, {1}}};
}
Alone drafter_alone(Kind kind, const TableModel<>& table, const Tokens& spelling) {
  if (kind == lines_of_stable_rows)
    return ModelDrafter{CommonTokens{StableModel{table}, common_map(), spelled_as(spelling)}};
  return drafter_of<Alone>(kind, table, spelling);
}

// Stable rows are not copied.
using RowsOfStable = decltype(std::declval<ModelDrafter<CommonTokens<StableModel>>&>().draft(
    std::span<const Token>{}, DraftLimits{}, std::declval<std::mt19937_64&>()));
static_assert(std::same_as<RowOf<decltype(RowsOfStable::rows)>, CommonTokensRow<DenseRow<double>>>);

}  // namespace

TEST_CASE(
    "common tokens: lines, trees and spares are lossless, and drafts made together equal drafts made alone",
    "[law]") {
  const Kind kind = GENERATE(lines, drawn_trees, sure_trees, spare_tokens);
  INFO(kinds[kind]);
  std::mt19937_64 rng{12};
  const Tokens prompt{0, 2};
  const Options options{.max_new_tokens = 3, .gamma = 3};
  double accepted = 0;
  for (const Tokens& spelling : spellings) {
    auto target = TableModel<>::random(3, 1, rng);
    const auto small = draft_model(2, rng);
    const auto decoder_alone = [&] {
      return SpecDec{target, drafter_alone(kind, small, spelling), TraversalVerifier{}};
    };
    auto decoder = decoder_alone();
    const GenerationLaw got = enumerate_generate(decoder, prompt, options);
    CHECK(largest_difference(got.law, target_law(target, prompt, options)).size < 1e-12);
    accepted += got.accepted;

    Batch batch{ModelPerSequence{target}, drafter_of<Together>(kind, ModelPerSequence{small}, spelling),
                TraversalVerifier{}};
    check_texts_alone(batch, decoder_alone);
  }
  CHECK(accepted > 0.5);
}

TEST_CASE("common tokens: the reported rows are those of the text, as the text grows and is cut") {
  const Kind kind = GENERATE(lines, lines_of_stable_rows, drawn_trees, spare_tokens);
  INFO(kinds[kind]);
  std::mt19937_64 rng{13};
  RandomChance chance(rng);
  int tokens = 0;
  for (const Tokens& spelling : spellings) {
    const auto small = draft_model(3, rng);
    Alone drafter = drafter_alone(kind, small, spelling);
    Tokens text{0};
    for (int step = 0; step < 200; ++step) {
      const auto draft = drafter.draft(text, DraftLimits{.nodes = 4, .depth = 3}, chance);
      const auto parent_of = [&](Index k) {
        return draft.parents.empty() ? k - 1 : draft.parents[static_cast<std::size_t>(k)];
      };
      Tokens known = text;  // the drafter is fed token 0 in place of a token beyond the vocabulary
      std::ranges::replace_if(
          known, [](Token x) { return x > 2; }, 0);
      std::vector<Index> parents;
      for (Index k = 0; k < std::ssize(draft.tokens); ++k) parents.push_back(parent_of(k));
      for (Index k = 0; k < std::ssize(draft.tokens); ++k) {
        const Token token = draft.tokens[static_cast<std::size_t>(k)];
        const Tokens elders = elders_of(draft.tokens, parents, k);
        const Eigen::RowVector3d found = draft.rows.row(k);
        Eigen::RowVector3d p =
            expected_row(small, text_before(known, draft.tokens, parents, parent_of(k)), spelling);
        if (kind == drawn_trees) {
          for (const Token elder : elders) p[elder] = 0;
          p /= p.sum();
        } else if (!elders.empty()) {
          p = Eigen::RowVector3d::Unit(token);
        }
        CHECK(near(found, p));
        CHECK(found[token] > 0);
        ++tokens;
      }
      const Index node = static_cast<Index>(rng() % (draft.tokens.size() + 1)) - 1;
      text = text_before(text, draft.tokens, parents, node);
      if (uniform01(rng) < 0.1 && text.size() > 4) text.resize(text.size() - 3);
      drafter.truncate(std::ssize(text));
      text.push_back(static_cast<Token>(uniform01(rng) * 5));
    }
  }
  CHECK(tokens > 1000);
}

TEST_CASE(
    "common tokens: a draft ends where the model's context is full, and a full context still gets a draft") {
  std::mt19937_64 rng{14};
  const TokenMap map{Tokens{0, 1, 2}, 4};
  const auto uniform = [] { return TableModel<>::context_free(Eigen::RowVector3d(0.25, 0.25, 0.5)); };
  const auto bounded = [&](Index most) { return CopiedRows(BoundedModel(uniform(), most)); };
  const auto drafted = [&](auto model) {
    ModelDrafter drafter{std::move(model)};
    const auto draft = drafter.draft(Tokens{3, 1}, DraftLimits{.nodes = 5}, rng);
    Tokens likeliest;
    for (Index i = 0; i < std::ssize(draft.tokens); ++i)
      likeliest.push_back(draft.rows.row(i).probability(0) == 1 ? 0 : 2);
    return likeliest;
  };
  CHECK(drafted(CommonTokens{bounded(3), map}) == Tokens{2, 2});
  const auto long_word = [](Token) { return Tokens{1, 1, 1}; };
  // Of four tokens; the model would be fed 4, 5, 6, 7 tokens.
  CHECK(drafted(CommonTokens{bounded(5), map, long_word}) == Tokens{2, 2, 0, 0});
  CHECK(drafted(CommonTokens{bounded(3), map, long_word}) == Tokens{0, 0});
  CopiedRows windowed(Windowed{BoundedModel(uniform(), 3), 0, 3});
  CHECK(drafted(CommonTokens{std::move(windowed), map, long_word}) == Tokens{2, 2, 2, 2, 2});
}

namespace {

// Returns matrices by value, perhaps of a wrong shape.
struct ByValue : TableModel<> {
  explicit ByValue(const TableModel<>& table) : TableModel<>(table) {}
  RowMajor<double> forward(std::span<const Token> tokens, Index rows) {
    if (misshapen) return RowMajor<double>::Constant(1, 3, 0.25);
    return TableModel<>::forward(tokens, rows);
  }
  RowMajor<double> forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    return TableModel<>::forward(tokens, parents, rows);
  }
  bool misshapen = false;
};

}  // namespace

TEST_CASE(
    "common tokens: copies of a model have their own rows, as do models that return matrices by value") {
  std::mt19937_64 rng{15};
  const auto table = draft_model(2, rng);
  CommonTokens model{ByValue(table), common_map()};
  const Tokens text{0, 1, 2, 1};
  const auto rows = model.forward(text, 4);
  auto copy = model;
  copy.truncate(2);
  copy.forward(Tokens{0, 0, 0}, 3);
  RowMajor<double> found(4, 3);
  for (Index i = 0; i < 4; ++i)
    for (Token x = 0; x < 3; ++x) found(i, x) = rows.row(i).probability(x);
  for (Index i = 0; i < 4; ++i)
    CHECK(near(found.row(i),
               expected_row(table, std::span(text).first(static_cast<std::size_t>(i + 1)), spellings[0])));
}

TEST_CASE("common tokens: a model's row that is not a distribution is named by its number in the draft") {
  TableModel<>::Rows table(3, 2);  // after the empty context, after token 0, after token 1
  table << 0.5, 0.5, 0.0, 1.0, std::numeric_limits<double>::quiet_NaN(), 1.0;
  const auto complaint = [&](const Tokens& context, const auto& strategy) {
    Alone drafter = ModelDrafter{CommonTokens{TableModel<>(table, 1), TokenMap{Tokens{0, 1}, 2}}, strategy};
    std::mt19937_64 rng{1};
    RandomChance chance(rng);
    return message_of<InvalidDistribution>([&] { drafter.draft(context, DraftLimits{.nodes = 3}, chance); });
  };
  const std::string words = "the probabilities of the tokens that are kept sum to nan";
  for (const auto& strategy : {Spares{3, {}}, Spares{3, {1}}}) {
    CHECK(complaint({1}, strategy) == "specdec: draft row 0: " + words);
    CHECK(complaint({0}, strategy) == "specdec: draft row 1: " + words);
  }
  CHECK(complaint({1}, Line{}) == "specdec: draft row 0: " + words);
  CHECK(complaint({0}, Line{}) == "specdec: draft row 1: " + words);
}

TEST_CASE("common tokens: with many texts, a row that is not a distribution fails its own text only") {
  TableModel<>::Rows table(3, 2);
  table << 0.5, 0.5, 0.5, 0.5, std::numeric_limits<double>::quiet_NaN(), 1.0;
  CommonTokens model{ModelPerSequence{TableModel<>(table, 1)}, TokenMap{Tokens{0, 1}, 2}};
  const Tokens good{0}, bad{1};
  const std::vector<BatchFeed> feeds{{{.tokens = bad, .rows = 1}, 3}, {{.tokens = good, .rows = 1}, 4}};
  const auto rows = model.forward(feeds);
  CHECK(message_of<InvalidDistribution>([&] { rows.row(0); }).ends_with("sum to nan"));
  CHECK(rows.row(1).probability(1) == 0.5);
  model.release(3);
  CHECK(message_of([&] { model.forward(feeds); }) ==
        "specdec: feeds[1].from = 0, but the context of sequence 4 holds 1 tokens");
  model.keep(4, Index{0});
  CHECK(model.forward(feeds).rows() == 2);
}

TEST_CASE("common tokens: maps, spellings and calls that do not fit are named in the error") {
  const auto model = [] { return TableModel<>::context_free(Eigen::RowVector2d(0.5, 0.5)); };
  CHECK(message_of([&] {
          CommonTokens{model(), TokenMap{Tokens{0}, 2}};
        }) == "specdec: the map is one of 1 draft tokens, but the draft model has 2");
  CHECK(message_of([&] {
          CommonTokens{model(), TokenMap{Tokens{none, none}, 2}};
        }) == "specdec: the map maps no token: nothing can be drafted");
  const TokenMap map{Tokens{0, none}, 2};
  CHECK(message_of([&] {
          CommonTokens{model(), map, [](Token) { return Tokens{1, 2}; }};
        }) == "specdec: spelled[1] = 2 is outside the vocabulary 0..1");
  CommonTokens wrapped{model(), map};
  CHECK(message_of([&] { wrapped.forward(Tokens{1}, 2); }) ==
        "specdec: rows = 2 is outside 1..1, the number of tokens");
  CHECK(message_of([&] {
          wrapped.forward(Tokens{1}, std::vector<Index>{0}, 1);
        }).starts_with("specdec: parents[0] = 0 is outside -1..-1"));
  wrapped.forward(Tokens{1}, std::vector<Index>{-1}, 1);
  CHECK(message_of<InvalidCall>([&] {
          wrapped.forward(Tokens{1}, 1);
        }).starts_with("specdec: feeds[0] has no parents while the tree of sequence 0 is open"));
  CHECK(message_of([&] { wrapped.keep(std::vector<Index>{1}); }) == "specdec: path[0] = 1 is outside 0..0");
  ByValue misshapen(model());
  misshapen.misshapen = true;
  CommonTokens wrong{std::move(misshapen), map};
  CHECK(message_of([&] {
          wrong.forward(Tokens{1, 0}, 2);
        }) == "specdec: the model returned 1 rows over 3 tokens, expected 2 rows over its vocabulary of 2");
  CHECK(message_of([&] { wrong.forward(Tokens{1}, 1); }) ==
        "specdec: the model returned 1 rows over 3 tokens, expected 1 row over its vocabulary of 2");
}

}  // namespace test_more_models_common_tokens
