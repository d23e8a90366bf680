// Verdicts that are made elsewhere, and settled in place of rows: the text is the one that the rows would have written.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bookkeeper.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/rows_asked.hpp"
#include "support/rules.hpp"

namespace test_loop_settle {

using namespace specdec;
using namespace support;

namespace {

using Table = testing::TableModel<>;
using Tokens = std::vector<Token>;
using Rows = RowMajor<double>;

// Trees have at most three levels, and 2 + 4 + 4 tokens.
const Tree tree{TreeShape::of_widths({2, 2, 1}), WithoutReplacement{}};

// Rules for lines that remember nothing.
struct Rule : AnyOf<true, BlockVerifier, TokenVerifier, SampleMatchVerifier> {};

Tokens copy(std::span<const Token> tokens) { return {tokens.begin(), tokens.end()}; }

// The engine's kernel: judges a draft by the rows that were asked for.
template <class V, class Draft, class Source>
auto judged(V rule, const Rows& asked, const Draft& draft, Token stop, Source& source) {
  const auto count = std::ssize(draft.tokens);
  Rows all(count + 1, asked.cols());
  if constexpr (judges_trees<V>) {
    std::vector<Index> row{0};  // of each node; a token that ends the text is not fed, nor what follows it
    std::vector<bool> over{false};
    Index next = 0;
    all.row(0) = asked.row(0);
    for (Index k = 0; k < count; ++k) {
      const auto above = std::size_t(draft.parents[std::size_t(k)] + 1);
      over.push_back(over[above] || draft.tokens[std::size_t(k)] == stop);
      row.push_back(over.back() ? row[above] : ++next);
      all.row(k + 1) = asked.row(row.back());
    }
    REQUIRE(next + 1 == asked.rows());
    return verify(rule, all, draft.rows, draft.tokens, draft.parents, source);
  } else {
    for (Index i = 0; i <= count; ++i) all.row(i) = asked.row(std::min(i, asked.rows() - 1));
    return verify(rule, all, draft.rows, draft.tokens, source);
  }
}

struct Letters {
  std::string_view operator()(Token x) const { return std::string_view("abcd").substr(std::size_t(x), 1); }
};

void check_same(const Stats& a, const Stats& b) {
  CHECK(a.target_calls == b.target_calls);
  CHECK(a.drafted == b.drafted);
  CHECK(a.accepted == b.accepted);
  CHECK(a.emitted == b.emitted);
  CHECK(a.accepted_lengths == b.accepted_lengths);
  CHECK(a.drafted_by_position == b.drafted_by_position);
}

// Two sequences in one state, with equal generators: one accepts rows, the other settles verdicts. Everything that may happen to
// a text happens to both.
template <class Decoder, class V, class Source>
void check_in_step(Decoder& by_rows, Decoder& by_verdicts, const Table& model, const V& rule, Source source,
                   const Options& options, Token stop, std::uint64_t seed) {
  std::mt19937_64 dice(seed);
  const auto one_in = [&](double n) { return uniform01(dice) * n < 1; };
  Source again = source;
  auto a = by_rows.start(Tokens{0, 1}, options), b = by_verdicts.start(Tokens{0, 1}, options);
  for (int round = 0; round < 40; ++round) {
    if (a.done()) {
      const Tokens turn{2, 0};
      a.add_turn(turn, options);
      b.add_turn(turn, options);
    }
    const Feed feed = a.propose(source), same = b.propose(again);
    REQUIRE(copy(feed.tokens) == copy(same.tokens));
    REQUIRE(feed.from == same.from);
    const Tokens before = copy(a.context());
    const Index size = std::ssize(before), most_kept = same.from + std::ssize(same.tokens), rows = same.rows;
    const auto verdict = judged(rule, rows_asked(model, before, same), b.draft(), stop, again);
    if (one_in(8)) {  // the verdict comes too late
      a.pause();
      b.pause();
      again = source;
      continue;
    }
    const Tokens emitted = copy(a.accept(rows_asked(model, before, feed), source));
    CHECK(copy(b.settle(verdict)) == emitted);
    CHECK(copy(b.context()) == copy(a.context()));
    CHECK(b.kept() == a.kept());
    CHECK(std::ranges::equal(b.kept_path(), a.kept_path()));
    CHECK(b.done() == a.done());
    CHECK(b.result().stop_reason == a.result().stop_reason);
    CHECK(b.result().drafted == a.result().drafted);
    if constexpr (std::same_as<std::remove_const_t<decltype(verdict)>, Verdict>)
      if (!b.done()) {  // what was planned on all tokens that were fed, corrected by counts
        CHECK(b.kept() == most_kept - (rows - 1) + verdict.accepted);
        CHECK(std::ssize(b.context()) == size + verdict.accepted + 1);
      }
    if constexpr (!std::same_as<Source, Keyed>) REQUIRE(source == again);
    if (one_in(6)) {
      Tokens text = copy(a.context());
      text.resize(std::size_t(1 + uniform01(dice) * double(text.size())));
      a.resume(text, options);
      b.resume(text, options);
    }
  }
  check_same(a.stats(), b.stats());
  CHECK(a.stats().accepted > 0);
}

}  // namespace

TEST_CASE("a text by verdicts that were made elsewhere is the text by rows, whatever happens to it") {
  const Models models = models_of(1);
  const auto decoder = [&](const auto& rule) {
    return SpecDec{ExternalTarget{4}, ModelDrafter{Table(models.small)}, rule};
  };
  for (std::uint64_t seed = 0; seed < 8; ++seed)
    for (const Rule& rule : {Rule{{BlockVerifier{}}}, Rule{{TokenVerifier{}}}, Rule{{SampleMatchVerifier{}}}})
      for (const bool by_string : {false, true}) {
        Options options{.max_new_tokens = 24, .gamma = 4};
        if (by_string) options.stop_strings = {{"cbc", "dd"}, Letters{}};
        else options.stop_tokens = {3};
        auto a = decoder(rule), b = decoder(rule);
        check_in_step(a, b, models.target, rule, std::mt19937_64{seed}, options, by_string ? -1 : 3, seed);
      }
  auto a = decoder(KeyedVerifier{}), b = decoder(KeyedVerifier{});
  check_in_step(a, b, models.target, KeyedVerifier{}, Keyed{5},
                {.max_new_tokens = 24, .gamma = 4, .stop_tokens = {3}}, 3, 1);
}

TEST_CASE("a text by verdicts on trees is the text by rows") {
  const Models models = models_of(2);
  const auto decoder = [&] {
    return SpecDec{ExternalTarget{4}, ModelDrafter{Table(models.small), tree}, TraversalVerifier{}};
  };
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    auto a = decoder(), b = decoder();
    check_in_step(a, b, models.target, TraversalVerifier{}, std::mt19937_64{seed},
                  {.max_new_tokens = 24, .gamma = 10, .stop_tokens = {3}}, 3, seed);
  }
}

namespace {

const Options options{.max_new_tokens = 16, .gamma = 3, .stop_tokens = {3}};
const Options options_of_trees{.max_new_tokens = 16, .gamma = 10, .stop_tokens = {3}};

template <class V>
Tokens alone(const Models& models, Index text, const V& rule) {
  std::mt19937_64 rng(static_cast<std::uint64_t>(text));
  const auto text_of = [&](auto drafter, const Options& how) {
    SpecDec decoder{Table(models.target), std::move(drafter), rule};
    return decoder.generate(prompt_of(text), how, rng).tokens;
  };
  if constexpr (judges_trees<V>) return text_of(ModelDrafter{Table(models.small), tree}, options_of_trees);
  else return text_of(ModelDrafter{Table(models.small)}, options);
}

// An engine that decides when its call is made, and tells of it later.
template <class V = Rule>
class Engine {
  static constexpr bool trees = judges_trees<V>;
  static auto drafter(Bookkeeper& small) {
    if constexpr (trees) return ModelDrafter<Bookkeeper&, std::remove_const_t<decltype(tree)>>{small, tree};
    else return ModelDrafter<Bookkeeper&>{small};
  }

 public:
  using Requests = Batch<ExternalTarget, decltype(drafter(std::declval<Bookkeeper&>())), V>;
  using Answer = typename Requests::Answer;

  Engine(const Models& models, Index count, const V& rule, BatchOptions how = {})
      : models_(models),
        rule_(rule),
        small_(models.small),
        batch{ExternalTarget{4}, drafter(small_), rule, how} {
    for (Index i = 0; i < count; ++i) sources.emplace_back(static_cast<std::uint64_t>(i));
    for (Index i = 0; i < count; ++i)
      batch.add(prompt_of(i), trees ? options_of_trees : options, std::ref(sources[std::size_t(i)]));
  }

  // Draws from `source`.
  Answer verdict_on(const BatchFeed& feed, std::mt19937_64& source) {
    if (feed.rows == 0) return {{}, -7};  // a part of a prompt: it is not read
    const auto& sequence = batch.sequence(feed.sequence);
    return judged(rule_, rows_asked(models_.target, sequence.context(), feed), sequence.draft(), 3, source);
  }
  void call(std::span<const Index> sequences) {
    Call call;
    for (const BatchFeed& feed : batch.propose_for(sequences)) {
      call.texts.push_back(feed.sequence);
      call.sources.push_back(sources[std::size_t(feed.sequence)]);  // its own until the verdict is settled
      call.verdicts.push_back(verdict_on(feed, call.sources.back()));
      call.rows.push_back(rows_asked(models_.target, batch.sequence(feed.sequence).context(), feed));
    }
    if (!call.texts.empty()) calls.push_back(std::move(call));
  }
  // By verdicts or by rows.
  void end(std::size_t which, bool settles) {
    Call call = std::move(calls[which]);
    calls.erase(calls.begin() + std::ptrdiff_t(which));
    if (!settles) return tell(batch.accept_for(call.texts, call.all_rows()));
    for (std::size_t i = 0; i < call.texts.size(); ++i) sources[std::size_t(call.texts[i])] = call.sources[i];
    tell(batch.settle_for(call.texts, call.verdicts));
  }
  void tell(std::span<const Finished> finished) {
    for (const Finished& done : finished) {
      CHECK_FALSE(done.error);
      texts[done.sequence] = done.result.tokens;
    }
  }
  // The text has left: what is on its way for it is dropped.
  void leave(Index text) {
    for (Call& call : calls)
      for (std::size_t i = 0; i < call.texts.size(); ++i)
        if (call.texts[i] == text) {
          call.texts.erase(call.texts.begin() + std::ptrdiff_t(i));
          call.verdicts.erase(call.verdicts.begin() + std::ptrdiff_t(i));
          call.sources.erase(call.sources.begin() + std::ptrdiff_t(i));
          call.rows.erase(call.rows.begin() + std::ptrdiff_t(i));
        }
    std::erase_if(calls, [](const Call& call) { return call.texts.empty(); });
  }
  bool in_call(Index text) const {
    return std::ranges::any_of(calls,
                               [=](const Call& call) { return std::ranges::count(call.texts, text) > 0; });
  }

  struct Call {
    std::vector<Index> texts;
    std::vector<Answer> verdicts;
    std::vector<std::mt19937_64> sources;
    std::vector<Rows> rows;

    Rows all_rows() const {
      Rows all(0, 4);
      for (const Rows& more : rows) {
        all.conservativeResize(all.rows() + more.rows(), 4);
        all.bottomRows(more.rows()) = more;
      }
      return all;
    }
  };

 private:
  const Models& models_;
  V rule_;
  Bookkeeper small_;

 public:
  std::vector<std::mt19937_64> sources;
  Requests batch;
  std::vector<Call> calls;
  std::map<Index, Tokens> texts;
};

}  // namespace

namespace {

// A random schedule: verdicts, or rows, come late, in any order.
template <class V>
void check_schedule(const Models& models, const V& rule, Index tokens_per_call, std::uint64_t seed) {
  constexpr Index count = 6;
  std::mt19937_64 dice(seed);
  const auto below = [&](std::size_t n) {
    return static_cast<std::size_t>(uniform01(dice) * static_cast<double>(n));
  };
  Engine<V> engine(models, count, rule, {.tokens_per_call = tokens_per_call});
  std::map<Index, typename Engine<V>::Requests::Paused> paused;
  for (int rounds = 0; !engine.batch.empty() || !paused.empty(); ++rounds) {
    REQUIRE(rounds < 2000);
    const Index text = static_cast<Index>(below(count));
    const bool here = !engine.texts.contains(text) && !paused.contains(text);
    const std::size_t what = below(10);
    if (what == 0 && here) {
      paused.emplace(text, engine.batch.pause(text));
      engine.leave(text);
    } else if (what == 1 && !paused.empty()) {
      engine.batch.add(std::move(paused.begin()->second));
      paused.erase(paused.begin());
    } else if (what == 2 && text == 5 && here) {
      engine.texts[5] = engine.batch.cancel(5).tokens;
      engine.leave(5);
    } else if (what < 6 && engine.calls.size() < 3) {
      std::vector<Index> free;
      for (Index i = 0; i < count; ++i)
        if (!engine.texts.contains(i) && !paused.contains(i) && !engine.in_call(i) && below(2) == 0)
          free.push_back(i);
      std::ranges::shuffle(free, dice);
      engine.call(free);
    } else if (!engine.calls.empty()) {
      engine.end(below(engine.calls.size()), below(3) > 0);
    }
  }
  for (Index i = 0; i < count; ++i) {
    Tokens expected = alone(models, i, rule);
    if (i == 5) expected.resize(std::min(expected.size(), engine.texts.at(i).size()));
    CHECK(engine.texts.at(i) == expected);
  }
}

}  // namespace

TEST_CASE("verdicts come late and in any order, while texts pause, go on, and are cancelled") {
  const Models models = models_of(3);
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(bound(8, 100)); ++seed)
    for (const Index most : {unlimited, Index{6}}) {
      check_schedule(models, Rule{{BlockVerifier{}}}, most, seed);
      check_schedule(models, Rule{{TokenVerifier{}}}, most, seed);
      check_schedule(models, Rule{{SampleMatchVerifier{}}}, most, seed);
    }
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE("verdicts on trees come late and in any order, too") {
  const Models models = models_of(3);
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(bound(16, 100)); ++seed)
    for (const Index most : {unlimited, Index{14}}) check_schedule(models, TraversalVerifier{}, most, seed);
}
#endif

namespace {

// One of the engine's generators, for a list of some of them.
struct Borrowed {
  using result_type = std::mt19937_64::result_type;
  static constexpr result_type min() { return std::mt19937_64::min(); }
  static constexpr result_type max() { return std::mt19937_64::max(); }
  result_type operator()() { return (*source)(); }
  std::mt19937_64* source;
};

}  // namespace

TEST_CASE("a kernel of fixed shapes judges drafts of any lengths, and its verdicts are settled") {
  const Models models = models_of(4);
  constexpr Index most = 5;  // tokens of a draft; the texts draft up to three
  constexpr double garbage = std::numeric_limits<double>::quiet_NaN();
  for (const Index cancelled : {Index{-1}, Index{2}}) {
    Engine engine(models, 4, {});
    for (int round = 0; !engine.batch.empty(); ++round) {
      const auto feeds = engine.batch.propose();
      const Index count = std::ssize(feeds);
      Tokens tokens(std::size_t(count * most), -1);
      Rows target = Rows::Constant(count * (most + 1), 4, garbage),
           draft = Rows::Constant(count * most, 4, garbage);
      std::vector<Borrowed> sources;
      for (Index i = 0; i < count; ++i) {
        const BatchFeed& feed = feeds[std::size_t(i)];
        const auto& sequence = engine.batch.sequence(feed.sequence);
        const auto& drafted = sequence.draft();
        const Rows asked = rows_asked(models.target, sequence.context(), feed);
        const Index gamma = std::ssize(drafted.tokens);
        std::ranges::copy(drafted.tokens, tokens.begin() + i * most);
        for (Index k = 0; k < gamma; ++k)
          for (Token x = 0; x < 4; ++x)
            draft(i * most + k, x) = probability(distributions(drafted.rows).row(k), x);
        for (Index k = 0; k <= gamma; ++k)
          target.row(i * (most + 1) + k) = asked.row(std::min(k, feed.rows - 1));
        sources.push_back({&engine.sources[std::size_t(feed.sequence)]});
      }
      std::vector<BatchVerdict> made(static_cast<std::size_t>(count));
      verify_batch(BlockVerifier{}, target, draft, tokens, PaddedDrafts(count, most), sources,
                   std::span(made));
      std::vector<Verdict> verdicts;
      for (const BatchVerdict& each : made) {
        CHECK_FALSE(each.error);
        verdicts.push_back(each.verdict);
      }
      if (round == 0 && cancelled >= 0) {
        for (Index i = 0; i < count; ++i)
          if (feeds[std::size_t(i)].sequence == cancelled) verdicts[std::size_t(i)] = {99, 99};  // not read
        engine.texts[cancelled] = engine.batch.cancel(cancelled).tokens;
      }
      engine.tell(engine.batch.settle(verdicts));
    }
    for (Index i = 0; i < 4; ++i) {
      Tokens expected = alone(models, i, Rule{});
      if (i == cancelled) expected.resize(engine.texts.at(i).size());
      CHECK(engine.texts.at(i) == expected);
    }
    CHECK(engine.batch.target_calls() > 0);
  }
}

namespace {

// What a drafter of one text sees of a verdict that was made elsewhere: all but the rows.
struct Learner {
  Tokens tokens = {};
  std::vector<NodeVerdict>* seen;
  Draft<OneHotRows> draft(std::span<const Token>, Index gamma, auto&) {
    tokens = {2, 0, 1};
    tokens.resize(std::size_t(std::min<Index>(gamma, 3)));
    return {tokens, OneHotRows(tokens)};
  }
  void truncate(Index) {}
  void observe(const auto& judged) {
    CHECK(judged.rows.rows() == 0);
    seen->push_back(judged.verdict);
  }
};

// A step on this draft, over four tokens. Token 3 ends the text.
template <class V, bool branches>
struct Offered {
  Tokens tokens;
  std::vector<Index> parents;
  Step<V, Draft<OneHotRows>, branches> step;

  Offered(const Tokens& drafted, const std::vector<Index>& above,
          const Options& how = {.gamma = 6, .stop_tokens = {3}})
      : tokens(drafted), parents(above), step({4}, {}, Tokens{0, 1}, how) {
    step.limits([](Index most) { return most; });
    step.offer({tokens, OneHotRows(tokens), parents});
  }
  std::string refused(const typename decltype(step)::Answer& verdict) {
    const std::string said = message_of<InvalidArgument>([&] { step.settle(verdict); });
    CHECK(step.offers());
    CHECK(step.tokens().empty());
    return said;
  }
};

// It rejects all, so its Y may be what it rejects.
struct Wasteful {
  static constexpr bool repeats_rejected = true;
  Verdict judge(const auto& drafted, auto& chance) const { return {0, drafted.draw(chance, 0)}; }
};

}  // namespace

TEST_CASE("a verdict that cannot be is refused by its number and value, and the right one can be settled") {
  Offered<BlockVerifier, false> line({2, 0, 1}, {});
  CHECK(line.refused({-1, 0}) ==
        "specdec: verdict.accepted = -1 is outside 0..3, the number of drafted tokens");
  CHECK(line.refused({4, 0}) ==
        "specdec: verdict.accepted = 4 is outside 0..3, the number of drafted tokens");
  CHECK(line.refused({1, -1}) == "specdec: verdict.token = -1 is outside the vocabulary 0..3");
  CHECK(line.refused({1, 4}) == "specdec: verdict.token = 4 is outside the vocabulary 0..3");
  CHECK(line.refused({0, 2}) ==
        "specdec: verdict.token = 2 is the drafted tokens[0], which the verdict rejects: "
        "a rule that may do so says repeats_rejected");
  CHECK(copy(line.step.settle({1, 1})) == Tokens{2, 1});
  CHECK(line.step.kept() == 3);
  CHECK(line.step.stats().accepted == 1);
  CHECK(line.step.stats().drafted == 3);
  const std::string none = "specdec: there is no draft to judge: offer() one, and accept or settle it once";
  CHECK(message_of<InvalidCall>([&] { line.step.settle({1, 0}); }) == none);
  CHECK(message_of<InvalidCall>([&] { line.step.draft(); }) == none);

  SpecDec larger{ExternalTarget{2}, ModelDrafter{Table::context_free(Eigen::RowVector4d(0, 0, 0, 1))}};
  auto sequence = larger.start(Tokens{0}, {.gamma = 2});
  std::mt19937_64 rng{1};
  sequence.propose(rng);
  CHECK(message_of<InvalidArgument>([&] {
          sequence.settle({1, 0});
        }) == "specdec: the accepted tokens[0] = 3 is outside the vocabulary 0..1");
  CHECK(copy(sequence.settle({0, 1})) == Tokens{1});

  Offered<Wasteful, false> wasteful({2, 1}, {});
  CHECK(copy(wasteful.step.settle({0, 2})) == Tokens{2});

  //  tokens    2   1   0   1
  //  parents  −1  −1   0   2
  Offered<TraversalVerifier, true> branching({2, 1, 0, 1}, {-1, -1, 0, 2});
  CHECK(branching.refused({{2}, 0}) == "specdec: verdict.path[0] = 2 follows 0, not -1");
  CHECK(branching.refused({{0, 3}, 0}) == "specdec: verdict.path[1] = 3 follows 2, not 0");
  CHECK(branching.refused({{0, 4}, 0}) == "specdec: verdict.path[1] = 4 is outside 1..3");
  CHECK(branching.refused({{-1}, 0}) == "specdec: verdict.path[0] = -1 is outside 0..3");
  CHECK(branching.refused({{}, 1}).starts_with("specdec: verdict.token = 1 is the drafted tokens[1]"));
  CHECK(branching.refused({{0, 2}, 4}) == "specdec: verdict.token = 4 is outside the vocabulary 0..3");
  CHECK(copy(branching.step.settle({{0, 2}, 0})) == Tokens{2, 0, 0});
  CHECK(std::ranges::equal(branching.step.kept_path(), std::vector<Index>{0, 1, 2, 4}));
}

TEST_CASE("after a verdict by rows, one from elsewhere tells which tokens survived, and no p and q") {
  Offered<BlockVerifier, false> line({2, 0, 1}, {});
  std::mt19937_64 rng{1};
  RandomChance chance(rng);
  line.step.accept(Rows(Rows::Constant(4, 4, 0.25)), chance);
  CHECK(line.step.last().survival[0] == 0.25);
  line.step.limits([](Index most) { return most; });
  line.step.offer({line.tokens, OneHotRows(line.tokens)});
  CHECK(copy(line.step.settle({2, 2})) == Tokens{2, 0, 2});
  CHECK(std::ranges::equal(line.step.last().survival, std::vector<double>{1, 1, 0}));
}

TEST_CASE("a rule that needs no draft rows may judge only what was fed, and no other rule may") {
  for (const bool whole : {true, false}) {
    Offered<SampleMatchVerifier, false> fed({2, 3, 1}, {});
    CHECK(copy(fed.step.settle(whole ? Verdict{2, 0} : Verdict{1, 3})) == Tokens{2, 3});
    CHECK(fed.step.done());
    CHECK(fed.step.kept() == 3);
  }
  Offered<SampleMatchVerifier, false> fed({2, 3, 1}, {});
  CHECK(fed.refused({0, 2}).starts_with("specdec: verdict.token = 2 is the drafted tokens[0]"));
  Offered<BlockVerifier, false> block({2, 3, 1}, {});
  CHECK(block.refused({1, 3}).starts_with("specdec: verdict.token = 3 is the drafted tokens[1]"));
  CHECK(copy(block.step.settle({3, 0})) == Tokens{2, 3});
}

TEST_CASE("settled out of place, or beside log-probabilities, a verdict is refused and nothing is lost") {
  std::vector<NodeVerdict> seen;
  SpecDec decoder{ExternalTarget{4}, Learner{.seen = &seen}, BlockVerifier{}};
  std::mt19937_64 rng{1};
  auto sequence = decoder.start(Tokens{0}, {.max_new_tokens = 5, .gamma = 3});
  CHECK(message_of<InvalidCall>([&] {
          sequence.settle({0, 1});
        }) == "specdec: there is no proposal to judge: propose() first");
  sequence.propose(rng);
  CHECK(message_of<InvalidArgument>([&] {
          sequence.settle({0, 2});
        }).starts_with("specdec: verdict.token = 2"));
  CHECK(copy(sequence.settle({2, 3})) == Tokens{2, 0, 3});
  CHECK(seen == std::vector<NodeVerdict>{{2, 3}});
  CHECK(message_of<InvalidCall>([&] {
          sequence.settle({0, 1});
        }) == "specdec: there is no proposal to judge: propose() first");
  sequence.propose(rng);
  CHECK(copy(sequence.settle({1, 0})).size() == 2);
  CHECK(sequence.settle({0, 1}).empty());  // it is done

  auto told =
      decoder.start(Tokens{0}, {.max_new_tokens = 5, .gamma = 3, .log_probabilities = {.processed = true}});
  told.propose(rng);
  CHECK(message_of<InvalidCall>([&] {
          told.settle({0, 1});
        }).find("log_probabilities are asked for") != std::string::npos);

  // A part of a prompt has no verdict, but here its rows are wanted.
  const Models models = models_of(5);
  Engine engine(models, 0, {});
  engine.batch.add(Tokens{0, 1, 2}, {.log_probabilities = {.processed = true, .prompt = true}},
                   std::mt19937_64{1});
  CHECK(engine.batch.propose()[0].rows == 2);
  const std::vector<Verdict> one(1);
  CHECK(message_of<InvalidCall>([&] { engine.batch.settle(one); }).find("log_probabilities are asked for") !=
        std::string::npos);
}

TEST_CASE("of many verdicts one that cannot be is named, and all can be settled again") {
  const Models models = models_of(5);
  Engine engine(models, 3, {});
  CHECK(message_of<InvalidCall>([&] { engine.batch.settle({}); }) ==
        "specdec: there is no proposal to judge: propose() first");
  while (!engine.batch.empty()) {
    std::vector<Verdict> verdicts;
    std::vector<Index> numbers;
    const bool some = engine.texts.empty();
    const std::vector<Index> all{2, 0, 1};
    for (const BatchFeed& feed : some ? engine.batch.propose_for(all) : engine.batch.propose()) {
      numbers.push_back(feed.sequence);
      verdicts.push_back(engine.verdict_on(feed, engine.sources[std::size_t(feed.sequence)]));
    }
    const auto settle = [&](const std::vector<Verdict>& those) {
      return some ? engine.batch.settle_for(numbers, those) : engine.batch.settle(those);
    };
    const auto refused = [&](const std::vector<Verdict>& those) {
      return message_of<InvalidArgument>([&] { settle(those); });
    };
    const std::string last = std::to_string(verdicts.size() - 1);
    auto wrong = verdicts;
    wrong.back().accepted = 9;
    CHECK(refused(wrong).starts_with("specdec: verdicts[" + last + "].accepted = 9 is outside 0.."));
    wrong = verdicts;
    wrong.back().token = 4;
    CHECK(refused(wrong) == "specdec: verdicts[" + last + "].token = 4 is outside the vocabulary 0..3");
    wrong.push_back({});
    CHECK(refused(wrong) == "specdec: verdicts has " + std::to_string(wrong.size()) + " entries, expected " +
                                std::to_string(verdicts.size()) + ", one for each feed");
    if (!some) {  // the whole proposal stays, too
      wrong = {verdicts.back()};
      wrong[0].token = -1;
      const std::vector<Index> one{numbers.back()};
      CHECK(message_of<InvalidArgument>([&] { engine.batch.settle_for(one, wrong); }) ==
            "specdec: verdicts[0].token = -1 is outside the vocabulary 0..3");
    }
    engine.tell(settle(verdicts));
  }
  for (Index i = 0; i < 3; ++i) CHECK(engine.texts.at(i) == alone(models, i, Rule{}));
}

namespace {

// Every verdict of a rule on this draft, over all outcomes.
template <class V>
void check_never_repeats(V rule, const Rows& p, const Rows& q, const Tokens& tokens,
                         const std::vector<Index>& parents) {
  testing::Enumerator chance;
  do {
    Index node = 0;
    Token y = 0;
    if constexpr (judges_trees<V>) {
      const TreeVerdict verdict = verify(rule, p, q, tokens, parents, chance);
      if (!verdict.path.empty()) node = verdict.path.back() + 1;
      y = verdict.token;
    } else {
      const Verdict verdict = verify(rule, p, q, tokens, chance);
      node = verdict.accepted;
      y = verdict.token;
    }
    for (std::size_t k = 0; k < tokens.size(); ++k)
      if (parents[k] == node - 1) CHECK(tokens[k] != y);
  } while (chance.next());
}

}  // namespace

TEST_CASE("no rule of the library emits a token that it rejects") {
  std::mt19937_64 rng(6);
  const auto rows = [&](Index count) {
    Rows out(count, 3);
    for (Index i = 0; i < count; ++i) {
      for (Index x = 0; x < 3; ++x) out(i, x) = std::max(uniform01(rng) - 0.3, 0.0);
      out(i, i % 3) += 0.01, out(i, (i + 1) % 3) += 0.01;
      out.row(i) /= out.row(i).sum();
    }
    return out;
  };
  for (int pair = 0; pair < 100; ++pair) {
    const Rows p = rows(4), q = rows(3);
    RandomChance chance(rng);
    const auto drawn = [&](Index i) { return chance.draw(distributions(q).row(i)); };
    const std::vector<Index> line{-1, 0, 1}, siblings{-1, -1, 0};
    const Tokens tokens{drawn(0), drawn(1), drawn(2)};
    check_never_repeats(TokenVerifier{}, p, q, tokens, line);
    check_never_repeats(BlockVerifier{}, p, q, tokens, line);
    check_never_repeats(SampleMatchVerifier{}, p, q, tokens, line);
    check_never_repeats(LenientVerifier{0.7}, p, q, tokens, line);
    Rows twice = q;
    twice.row(1) = q.row(0);
    const Tokens drawn_twice{drawn(0), drawn(0), drawn(2)};
    check_never_repeats(TraversalVerifier{}, p, twice, drawn_twice, siblings);
    check_never_repeats(RecursiveRejectionVerifier{}, p, twice, drawn_twice, siblings);
    check_never_repeats(KSeqVerifier{}, p, twice, drawn_twice, siblings);
    check_never_repeats(TrunkAndSpares<BlockVerifier>{}, p, twice, drawn_twice, siblings);
    check_never_repeats(TrunkAndSpares<SampleMatchVerifier>{}, p, twice, drawn_twice, siblings);
  }
}

}  // namespace test_loop_settle
