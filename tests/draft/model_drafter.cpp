// What a drafter with a model promises under every strategy, for one text and for many.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <specdec/more/drafters/confident_tree.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/any_chance.hpp"
#include "support/any_strategy.hpp"
#include "support/bookkeeper.hpp"
#include "support/catch.hpp"
#include "support/company.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/tree_models.hpp"

namespace test_draft_model_drafter {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using Tokens = std::vector<Token>;
using Request = DraftRequest<SplitMix64>;

// A user's strategy: the likeliest token, then the likeliest token after it, and so on.
struct Likely {
  static constexpr bool drafts_trees = false, branches = false;

  template <Distribution Q, bool>
  struct Growth {
    Tokens tokens;
    Index most = 0;
    TopTokens likeliest;

    void begin(const Likely&, const DraftLimits& limits, Index room) {
      tokens.clear();
      most = std::min(limits.length(), room);
    }
    bool next() const { return std::ssize(tokens) < most; }
    DraftWish wish() const { return {.tokens = std::span(tokens).last(tokens.empty() ? 0 : 1)}; }
    void take(const auto& rows, auto&, const auto& keep_drafting) {
      const auto q = rows.row(0);
      tokens.push_back(likeliest.of(q, 1).front().token);
      if (!keep_drafting.more(q, std::ssize(tokens) - 1)) end();
    }
    void end() { most = 0; }
    Draft<OneHotRows> draft(Index) const { return {tokens, OneHotRows(tokens)}; }
  };
};

// A drafter with a model of its own, to be copied and moved.
struct OwningDrafter {
  virtual ~OwningDrafter() = default;
  virtual OneDrafter& get() = 0;
  virtual std::unique_ptr<OwningDrafter> copied() const = 0;
  virtual std::unique_ptr<OwningDrafter> moved() = 0;
};

template <class Strategy>
struct OwningDrafterOf : OwningDrafter {
  OneDrafterOf<Strategy> drafter;

  OwningDrafterOf(const TableModel<>& table, const Strategy& strategy)
      : drafter(OwnOrShared(WatchedTreeModel(table)), strategy) {}
  OneDrafter& get() override { return drafter; }
  std::unique_ptr<OwningDrafter> copied() const override { return std::make_unique<OwningDrafterOf>(*this); }
  std::unique_ptr<OwningDrafter> moved() override {
    return std::make_unique<OwningDrafterOf>(std::move(*this));
  }
};

struct Case {
  const char* name;
  AnyStrategy strategy;
  bool names_rows;  // its messages about rows say which row
  std::function<std::unique_ptr<OwningDrafter>(const TableModel<>&)> owning;

  // Whether a message is about a row of NaN and names that row, as the library's messages do.
  bool tells_of_row(const std::string& complaint) const {
    return complaint.ends_with("nan") && (!names_rows || complaint.starts_with("specdec: draft row 0: "));
  }
};

template <class Strategy>
Case case_of(const char* name, const Strategy& strategy) {
  return {name, strategy, !std::is_same_v<Strategy, Likely>, [strategy](const TableModel<>& table) {
            return std::make_unique<OwningDrafterOf<Strategy>>(table, strategy);
          }};
}

// Each strategy of the library, and the user's.
const std::vector<Case>& all_strategies() {
  static const std::vector<Case> all{
      case_of("line", Line{}), case_of("tree", Tree{TreeShape::of_widths({2, 2, 1}), WithoutReplacement{}}),
      case_of("spares", Spares{3, {2, 1}, 2}),
#ifndef SPECDEC_TEST_SOME
      case_of("confident tree", ConfidentTree{.width = 3, .depth = 3, .nodes = 9}),
#endif
      case_of("likely line", Likely{})};
  return all;
}

// Limits for tests in which the size of the draft does not matter.
constexpr DraftLimits some{.nodes = 9, .depth = 3};

// A draft with a given seed.
KeptTree drafted_by(OneDrafter& drafter, std::span<const Token> context, std::uint64_t seed,
                    const DraftLimits& limits = some) {
  SplitMix64 source{seed};
  return drafter.draft(context, limits, source);
}

// The draft of a new drafter.
KeptTree fresh(const AnyStrategy& strategy, const TableModel<>& table, std::span<const Token> context,
               std::uint64_t seed) {
  WatchedTreeModel model(table);
  return drafted_by(*strategy.drafter(model), context, seed);
}

template <class Strategy>
constexpr bool fits =
    OneTextDrafter<ModelDrafter<TableModel<>, Strategy>> &&
    OneTextDrafter<ModelDrafter<TableModel<>&, Strategy>> && Drafter<ModelDrafter<Bookkeeper&, Strategy>> &&
    !Drafter<ModelDrafter<TableModel<>, Strategy>> && !OneTextDrafter<ModelDrafter<Bookkeeper&, Strategy>> &&
    drafts_trees<ModelDrafter<TableModel<>, Strategy>> == Strategy::drafts_trees &&
    drafts_trees<ModelDrafter<Bookkeeper&, Strategy>> == Strategy::drafts_trees;
static_assert(fits<Line> && fits<Tree<Independent>> && fits<Spares> && fits<ConfidentTree> && fits<Likely>);
static_assert(
    std::is_same_v<decltype(ModelDrafter{std::declval<TableModel<>&>()}), ModelDrafter<TableModel<>&, Line>>);
static_assert(Drafter<ModelDrafter<ModelPerSequence<TableModel<>>, Tree<Likeliest>>>);

// A drafter as the loop takes it.
class InLoop {
 public:
  explicit InLoop(std::unique_ptr<OneDrafter> drafter) : drafter_(std::move(drafter)) {}

  Draft<Eigen::Map<const RowMajor<double>>> draft(std::span<const Token> context, const DraftLimits& limits,
                                                  auto& chance) {
    tree_ = drafter_->draft(context, limits, chance);
    values_.clear();
    for (const auto& row : tree_.rows) values_.insert(values_.end(), row.begin(), row.end());
    const Index rows = std::ssize(tree_.rows);
    return {tree_.tokens, {values_.data(), rows, rows == 0 ? 0 : std::ssize(values_) / rows}, tree_.parents};
  }
  void truncate(Index length) { drafter_->truncate(length); }

 private:
  std::unique_ptr<OneDrafter> drafter_;
  KeptTree tree_;
  std::vector<double> values_;
};

}  // namespace

TEST_CASE("drafts with every strategy are lossless, a user's own strategy included", "[law]") {
  for (const Case& c : all_strategies()) {
    INFO(c.name);
    std::mt19937_64 rng{1};
    double accepted = 0;
    for (const Index vocab_size : {2, 3}) {
      auto target = TableModel<>::random(vocab_size, 1, rng);
      WatchedTreeModel small(TableModel<>::random(vocab_size, 1, rng));
      const Tokens prompt{0, 1};
      const Options options{.max_new_tokens = 4, .gamma = 3};
      // On a line this rule is block verification.
      SpecDec decoder{target, InLoop(c.strategy.drafter(small)), TraversalVerifier{}};
      const GenerationLaw written = enumerate_generate(decoder, prompt, options);
      CHECK(largest_difference(written.law, target_law(target, prompt, options)).size < 1e-12);
      accepted += written.accepted;
    }
    CHECK(accepted > 0.2);
  }
}

TEST_CASE("drafts made together are the drafts that each sequence gets alone") {
  for (const Case& c : all_strategies()) {
    INFO(c.name);
    check_company(c.strategy, false);
    check_company(c.strategy, true);
    check_company(c.strategy, false, 12);
  }
}

TEST_CASE("a twin has the drafts that it gets alone, and copies of what the model has read of its text") {
  for (const Case& c : all_strategies()) {
    INFO(c.name);
    check_company(c.strategy, false, unlimited, true);
    check_company(c.strategy, true, unlimited, true);
  }
}

TEST_CASE("of twins that a model has not read, one reads what they share, and the others get copies") {
  std::mt19937_64 rng{5};
  const auto table = coarse_model(4, 2, rng);
  Tokens even(100, 1), odd = even;
  even.push_back(3);
  odd.back() = 2;
  for (const Case& c : all_strategies()) {
    INFO(c.name);
    ForkingBookkeeper model(table);
    const auto drafter = c.strategy.drafter(model);
    // How many tokens the model is fed for drafts of these texts.
    const auto fed = [&](std::initializer_list<Index> sequences, DraftLimits limits = some) {
      std::vector<SplitMix64> sources(8, SplitMix64{7});
      std::vector<Request> requests;
      for (const Index i : sequences)
        requests.push_back({.sequence = i,
                            .context = i % 2 == 0 ? even : odd,
                            .limits = limits,
                            .source = &sources[static_cast<std::size_t>(i)]});
      const Index before = model.fed;
      drafter->draft(requests);
      for (const Request& request : requests) {
        REQUIRE_FALSE(request.error);
        SplitMix64 source{7};
        WatchedTreeModel alone(table);
        CHECK(drafter->drafted(request.sequence) ==
              c.strategy.drafter(alone)->draft(request.context, limits, source));
        drafter->keep(request.sequence, std::ssize(request.context));
      }
      return model.fed - before;
    };
    for (const Index twin : {1, 2, 3, 4, 5}) drafter->fork_context(twin == 4 ? 3 : 0, twin, 99);
    CHECK(fed({0, 1}, {.nodes = 0, .depth = 0}) == 0);  // nobody drafts, and nobody reads
    model.fails_at = model.calls + 1;
    CHECK_THROWS_AS(fed({1, 2}), Bookkeeper::Failure);
    CHECK(fed({2}) > 100);  // alone it reads for itself
    CHECK(model.forks == 0);
    CHECK(fed({1, 0, 3}) > 100);  // one of them reads, and two have copies
    CHECK(model.forks == 2);
    CHECK(fed({3, 4}) < 60);
    CHECK(model.forks == 3);
    model.refuses = true;
    CHECK(fed({5, 1}) > 99);
    model.refuses = false;
    drafter->fork_context(6, 7, 99);
    CHECK(fed({7, 2}) > 99);  // 2 is no twin of 7
    drafter->release(0);
    CHECK(fed({0, 1}) > 100);  // another text has the number now
  }
}

TEST_CASE("twins of a text for which the model has no room are not read") {
  std::mt19937_64 rng{6};
  const auto table = coarse_model(4, 2, rng);
  constexpr Index most = 6;
  for (const Case& c : all_strategies()) {
    for (const Index length : {most - 1, most, most + 1}) {
      INFO(c.name << ", a text of " << length << " tokens");
      ForkingBookkeeper model(table, most);
      const auto drafter = c.strategy.drafter(model);
      drafter->fork_context(0, 1, length);
      const Tokens text(static_cast<std::size_t>(length), 1);
      std::vector<SplitMix64> sources(2, SplitMix64{7});
      std::vector<Request> requests;
      for (const Index i : {0, 1})
        requests.push_back({.sequence = i,
                            .context = text,
                            .limits = some,
                            .source = &sources[static_cast<std::size_t>(i)]});
      drafter->draft(requests);
      for (const Request& request : requests) {
        REQUIRE_FALSE(request.error);
        SplitMix64 source{7};
        WatchedTreeModel alone(table, most);
        CHECK(drafter->drafted(request.sequence) == c.strategy.drafter(alone)->draft(text, some, source));
      }
      if (length > most) CHECK(model.calls == 0);
      if (length < most) CHECK(model.forks == 1);
    }
  }
}

TEST_CASE("what a call has no room for is read in parts, and the drafts are the same") {
  std::mt19937_64 rng{14};
  const auto table = coarse_model(4, 2, rng);
  std::vector<Tokens> prompts;
  for (const Index size : {40, 1, 23, 2}) {
    prompts.emplace_back();
    for (Index i = 0; i < size; ++i) prompts.back().push_back(static_cast<Token>((i * i + size) % 4));
  }
  for (const Case& c : all_strategies()) {
    INFO(c.name);
    std::vector<Tokens> contexts = prompts;
    ForkingBookkeeper bounded(table), unbounded(table);
    const auto few = c.strategy.drafter(bounded), all = c.strategy.drafter(unbounded);
    const auto draft = [&](ManyDrafter& drafter, Index most) {
      std::vector<SplitMix64> sources(4, SplitMix64{5});
      std::vector<Request> requests;
      for (std::size_t i = 0; i < 4; ++i)
        requests.push_back({.sequence = static_cast<Index>(i),
                            .context = contexts[i],
                            .limits = {.nodes = i == 3 ? 0 : 4, .depth = 3, .tokens_per_call = most},
                            .source = &sources[i]});
      drafter.draft(requests);
      for (const Request& request : requests) CHECK_FALSE(request.error);
    };
    for (int step = 0; step < 3; ++step) {
      bounded.fails_at = step == 1 ? bounded.calls + 2 : -1;
      if (step == 1)
        CHECK_THROWS_AS(draft(*few, 15), Bookkeeper::Failure);  // what was read before stays read
      draft(*few, 15);  // 5 of each draft's first call, for three texts
      draft(*all, unlimited);
      for (Index i = 0; i < 4; ++i) CHECK(few->drafted(i) == all->drafted(i));
      for (Tokens& context : contexts) context.insert(context.end(), 20, Token{step});
    }
    CHECK(bounded.most_fed == 15);
    CHECK(unbounded.most_fed == 64);
    CHECK(bounded.fed == unbounded.fed);  // no token is read twice, and the text without a draft is not read
  }
}

TEST_CASE("a failure of one text costs only its own draft, which grows no further") {
  std::mt19937_64 rng{4};
  const auto table = coarse_model(4, 2, rng);
  const Tokens context{1, 2}, none;
  const auto said = [](const std::exception_ptr& error) {
    return message_of<std::exception>([&] { std::rethrow_exception(error); });
  };
  for (const Case& c : all_strategies()) {
    INFO(c.name);
    ForkingBookkeeper model(table);
    const auto drafter = c.strategy.drafter(model);
    const auto drafted = [&](std::span<const Index> sequences) {
      std::vector<SplitMix64> sources(3, SplitMix64{7});
      std::vector<Request> requests;
      for (const Index i : sequences)
        requests.push_back({.sequence = i,
                            .context = i == 2 ? none : context,
                            .limits = some,
                            .source = &sources[static_cast<std::size_t>(i)]});
      drafter->draft(requests);
      return requests;
    };
    const std::vector<Index> all{0, 1, 2}, spoilt{1};
    SplitMix64 source{7};
    WatchedTreeModel model_alone(table);
    const KeptTree expected = c.strategy.drafter(model_alone)->draft(context, some, source);
    REQUIRE(expected.tokens.size() > 1);
    model.spoils = 1;
    for (int again = 0; again < 2; ++again) {
      const auto requests = drafted(all);
      CHECK_FALSE(requests[0].error);
      CHECK(drafter->drafted(0) == expected);
      REQUIRE(requests[1].error);
      CHECK(c.tells_of_row(said(requests[1].error)));
      REQUIRE(requests[2].error);
      CHECK(said(requests[2].error) == "specdec: context is empty: there is nothing to continue");
    }
    model.calls = 0;
    drafted(spoilt);
    CHECK(model.calls == 1);
    model.spoils = -1;
    CHECK_FALSE(drafted(spoilt)[0].error);
    CHECK(drafter->drafted(1) == expected);
  }
}

TEST_CASE("a draft is within its limits, and a draft without room calls no model") {
  std::mt19937_64 rng{9};
  const auto table = coarse_model(4, 2, rng);
  const Tokens context{1, 2, 3};
  std::vector<Index> depths;
  for (const Case& c : all_strategies()) {
    INFO(c.name);
    WatchedTreeModel model(table);
    const auto drafter = c.strategy.drafter(model);
    for (const Index nodes : {-1, 0, 1, 2, 5})
      for (const Index depth : {-1, 0, 1, 2, 5}) {
        const Index calls = model.calls;
        const KeptTree tree = drafted_by(*drafter, context, 3, {nodes, depth});
        CHECK(std::ssize(tree.tokens) <= std::max<Index>(nodes, 0));
        CHECK(specdec::TokenTreeView(tree.parents).depths(depths) <= std::max<Index>(depth, 0));
        CHECK(tree.tokens.empty() == (nodes < 1 || depth < 1));
        CHECK((model.calls == calls) == tree.tokens.empty());
      }
  }
}

TEST_CASE("the model is never fed past its context, and only this bounds the draft further") {
  std::mt19937_64 rng{5};
  const auto table = coarse_model(4, 2, rng);
  for (const Case& c : all_strategies()) {
    INFO(c.name);
    for (std::size_t size = 1; size <= 8; ++size) {
      WatchedTreeModel model(table, 6);
      const auto drafter = c.strategy.drafter(model);
      const KeptTree tree = drafted_by(*drafter, Tokens(size, 1), 3);
      if (size > 6) CHECK(tree.tokens.empty());
      if (size < 6) CHECK_FALSE(tree.tokens.empty());
      if (size > 6) CHECK(model.calls == 0);
      if (size == 1) CHECK(tree == fresh(c.strategy, table, Tokens(size, 1), 3));
    }
  }
}

TEST_CASE("the model is fed token 0 in place of context tokens that it does not know") {
  std::mt19937_64 rng{6};
  const auto table = coarse_model(4, 2, rng);
  for (const Case& c : all_strategies()) {
    INFO(c.name);
    WatchedTreeModel model(table);
    const auto drafter = c.strategy.drafter(model);
    CHECK(drafted_by(*drafter, Tokens{0, 1, 70}, 1) == fresh(c.strategy, table, Tokens{0, 1, 0}, 1));
    drafter->truncate(0);
    CHECK(drafted_by(*drafter, Tokens{9, 1, 2}, 2) == fresh(c.strategy, table, Tokens{0, 1, 2}, 2));
  }
}

TEST_CASE("a drafter that gets another text drafts what a new drafter would") {
  std::mt19937_64 rng{4};
  const auto table = coarse_model(4, 3, rng);
  for (const Case& c : all_strategies()) {
    INFO(c.name);
    WatchedTreeModel model(table);
    const auto drafter = c.strategy.drafter(model);
    Tokens text{0};
    for (std::uint64_t n = 0; n < 200; ++n) {
      const KeptTree tree = drafted_by(*drafter, text, n);
      REQUIRE(tree == fresh(c.strategy, table, text, n));
      const auto before = std::ssize(text);
      switch (rng() % 4) {
        case 0:  // back, to any length
          text.resize(1 + rng() % text.size());
          drafter->truncate(std::ssize(text) - static_cast<Index>(rng() % 2));
          text.push_back(static_cast<Token>(rng() % 4));
          break;
        case 1:
          break;    // the text stays
        default: {  // on, along a path of the draft
          const Index node = static_cast<Index>(rng() % (tree.tokens.size() + 1)) - 1;
          text = text_before(text, tree.tokens, tree.parents, node);
          if (rng() % 4 != 0) drafter->truncate(std::ssize(text) - static_cast<Index>(rng() % 2));
          if (rng() % 8 == 0) drafter->truncate(before);
          text.push_back(static_cast<Token>(rng() % 4));
        }
      }
    }
  }
}

TEST_CASE("the context may go on with other tokens than the drafted ones, without a call of truncate()") {
  std::mt19937_64 rng{14};
  const auto table = coarse_model(4, 3, rng);
  for (const Case& c : all_strategies()) {
    INFO(c.name);
    WatchedTreeModel model(table);
    const auto drafter = c.strategy.drafter(model);
    for (std::uint64_t n = 0; n < 20; ++n) {
      Tokens text{1, 2, 3};
      const KeptTree tree = drafted_by(*drafter, text, n);
      for (const Token x : {1, 2, 3})
        // Not the token on the path of eldest children.
        text.push_back(static_cast<Token>((tree.tokens[0] + x) % 4));
      CHECK(drafted_by(*drafter, text, n + 50) == fresh(c.strategy, table, text, n + 50));
    }
  }
}

TEST_CASE("truncate() to a negative length empties the context") {
  std::mt19937_64 rng{1};
  const auto table = coarse_model(4, 2, rng);
  const Tokens context{0, 1, 2};
  for (const Case& c : all_strategies()) {
    INFO(c.name);
    WatchedTreeModel model(table);
    const auto drafter = c.strategy.drafter(model);
    for (const Index length : {Index{0}, Index{-1}, std::numeric_limits<Index>::min()}) {
      drafted_by(*drafter, context, 2);
      drafter->truncate(length);
      CHECK(model.context().empty());
      CHECK(drafted_by(*drafter, context, 3) == fresh(c.strategy, table, context, 3));
    }
  }
}

TEST_CASE("after a model failure at any call, a drafter drafts what a new drafter would") {
  std::mt19937_64 rng{6};
  const auto table = coarse_model(4, 2, rng);
  for (const Case& c : all_strategies()) {
    INFO(c.name);
    int failed = 0;
    for (Index fails_at = 0; fails_at < 8; ++fails_at) {
      WatchedTreeModel model(table);
      const auto drafter = c.strategy.drafter(model);
      model.fails_at = fails_at;
      Tokens text{1, 2};
      for (std::uint64_t n = 0; n < 4; ++n) {
        KeptTree tree;
        while (tree.tokens.empty()) {
          try {
            tree = drafted_by(*drafter, text, n);
          } catch (const std::runtime_error&) {
            ++failed;
            if (fails_at % 2 == 0) drafter->truncate(std::ssize(text));
          }
        }
        CHECK(tree == fresh(c.strategy, table, text, n));
        text = text_before(text, tree.tokens, tree.parents, std::ssize(tree.tokens) - 1);
        drafter->truncate(std::ssize(text));
        text.push_back(3);
      }
    }
    CHECK(failed == 8);
  }
}

TEST_CASE(
    "drafters of one model take turns, copies have their own models, and use after a move is an error") {
  std::mt19937_64 rng{8};
  const auto table = coarse_model(4, 3, rng);
  const Tokens text{0, 1, 2}, other{3, 3, 3, 2};
  for (const Case& c : all_strategies()) {
    INFO(c.name);
    WatchedTreeModel model(table);
    const auto first = c.strategy.drafter(model);
    ModelDrafter second{model};
    const auto drafted_by_second = [&](std::uint64_t seed) {
      SplitMix64 source{seed};
      AnyChance chance(source);
      return kept(second.draft(other, some, chance), 4);
    };
    CHECK(drafted_by(*first, text, 1) == fresh(c.strategy, table, text, 1));
    CHECK(drafted_by_second(1) == fresh(Line{}, table, other, 1));
    first->truncate(2);  // to a context that the model no longer has
    CHECK(model.context().size() == 6);
    CHECK(drafted_by(*first, text, 2) == fresh(c.strategy, table, text, 2));
    CHECK(drafted_by_second(2) == fresh(Line{}, table, other, 2));
    CHECK(first->identities() == std::vector<const void*>{&model});

    const auto own = c.owning(table);
    drafted_by(own->get(), text, 3);
    const auto copy = own->copied();
    CHECK(drafted_by(copy->get(), other, 4) == fresh(c.strategy, table, other, 4));
    CHECK(drafted_by(own->get(), text, 5) == fresh(c.strategy, table, text, 5));
    const auto moved = own->moved();
    CHECK(drafted_by(moved->get(), text, 6) == fresh(c.strategy, table, text, 6));
    CHECK(message_of<InvalidCall>([&] { drafted_by(own->get(), text, 7); }) ==
          "specdec: a drafter drafts that was moved away, into a decoder, say: ask what it was moved into");
  }
}

namespace {

// Rows of three tokens in a matrix that is said to be over a vocabulary of four.
struct Misshapen {
  std::vector<double> values = std::vector<double>(3, 0.25);
  std::vector<DenseRow<double>> views = {};
  Index vocab_size() const { return 4; }
  RowSpan<DenseRow<double>> forward(std::span<const Token>, Index rows) {
    views.assign(static_cast<std::size_t>(rows), DenseRow<double>(values.data(), 3));
    return {views, 4};
  }
  void truncate(Index) {}
};

}  // namespace

TEST_CASE("a row that is narrower than its matrix is named in the error, and not read") {
  ModelDrafter drafter{Misshapen{}};
  std::mt19937_64 rng{1};
  CHECK(message_of([&] { drafter.draft(Tokens{0}, {1}, rng); }) ==
        "specdec: the draft model returned 1 rows over 3 tokens, expected 1 row over its vocabulary of 4");
}

TEST_CASE("rows of a wrong shape are named in the error and not read, by every strategy") {
  for (const Case& c : all_strategies()) {
    INFO(c.name);
    const auto complaint = [&](Index rows, Index row_size) {
      WatchedTreeModel model(TableModel<>::context_free(Eigen::RowVector4d::Constant(0.25)));
      model.forged = {RowMajor<double>::Constant(rows, row_size, 0.25)};
      const auto drafter = c.strategy.drafter(model);
      return message_of([&] { drafted_by(*drafter, Tokens{0}, 1, {.depth = 1}); });
    };
    CHECK(complaint(1, 4).empty());
    CHECK(complaint(1, 3) ==
          "specdec: the draft model returned 1 rows over 3 tokens, expected 1 row over its vocabulary of 4");
    CHECK(complaint(1, 9).find("over 9 tokens") != std::string::npos);
    CHECK(complaint(2, 4).find("returned 2 rows") != std::string::npos);
    CHECK(complaint(0, 4).find("returned 0 rows") != std::string::npos);
  }
}

TEST_CASE(
    "a row that is not a distribution, and an empty context, are named in the error by every strategy") {
  const Eigen::RowVectorXd row = Eigen::RowVectorXd::Constant(3, std::numeric_limits<double>::quiet_NaN());
  for (const Case& c : all_strategies()) {
    INFO(c.name);
    WatchedTreeModel model(TableModel<>::context_free(row));
    const auto drafter = c.strategy.drafter(model);
    CHECK(c.tells_of_row(message_of([&] { drafted_by(*drafter, Tokens{0}, 1); })));
    CHECK(message_of([&] { drafted_by(*drafter, Tokens{}, 1); }) ==
          "specdec: context is empty: there is nothing to continue");
  }
}

}  // namespace test_draft_model_drafter
