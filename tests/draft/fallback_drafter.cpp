// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <span>
#include <specdec/more/drafters/forced_tokens.hpp>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/more/lengths/confident_length.hpp>
#include <specdec/more/samplers/after_prompt.hpp>
#include <specdec/more/samplers/grammar.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/one_text.hpp"
#include "support/processors.hpp"
#include "support/rules.hpp"
#include "support/threads.hpp"
#include "support/trusted.hpp"

namespace test_draft_fallback_drafter {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

// What happened to a drafter, and whether it should propose anything.
struct Log {
  int asked = 0, proposed = 0, observed = 0;
  Index gamma = -1, length = -1;
  bool open = true;
};

// Drafts go on after rows that are sure enough.
struct WhileSure {
  bool more(const auto& row, Index) const { return row.probability(row.argmax()) >= 0.6; }
};

// A drafter with such a log.
template <class D>
class Logged {
 public:
  Logged(Log& log, D drafter) : log_(&log), drafter_(std::move(drafter)) {}

  static constexpr bool drafts_trees = specdec::drafts_trees<D>;

  template <RandomSource Source, class... KeepDrafting>
    requires specdec::detail::Drafts<D, Source, KeepDrafting...>
  auto draft(std::span<const Token> context, const DraftLimits& limits, Source& source,
             KeepDrafting&&... keep_drafting) {
    const auto draft = specdec::detail::ask_drafter(drafter_, context, log_->open ? limits : DraftLimits{0},
                                                    source, keep_drafting...);
    ++log_->asked;
    log_->proposed += !draft.tokens.empty();
    return draft;
  }
  void truncate(Index length) {
    log_->length = length;
    drafter_.truncate(length);
  }

 private:
  Log* log_;
  D drafter_;
};

// Proposes the tokens that it is given, with one-hot rows. It can be neither moved nor copied.
struct Scripted {
  std::vector<Token> tokens = {};
  bool breaks = false;
  Log log = {};

  Scripted() = default;
  explicit Scripted(std::vector<Token> proposal) : tokens(std::move(proposal)) {}
  Scripted(const Scripted&) = delete;
  Scripted& operator=(const Scripted&) = delete;

  Draft<OneHotRows> draft(std::span<const Token>, Index gamma, auto&) {
    ++log.asked;
    log.gamma = gamma;
    if (breaks) throw std::runtime_error("out of order");
    const auto size = std::min(tokens.size(), static_cast<std::size_t>(gamma));
    const auto proposal = std::span<const Token>(tokens).first(size);
    return {proposal, OneHotRows(proposal)};
  }
  void truncate(Index length) { log.length = length; }
};

// A Scripted drafter that observes what becomes of its proposals.
struct Learning : Scripted {
  using Scripted::Scripted;
  void observe(const auto& judged) {
    CHECK(judged.rows.rows() == std::ssize(judged.tokens) + 1);
    CHECK(judged.parents.empty());
    CHECK(judged.verdict.node <= std::ssize(judged.tokens));
    ++log.observed;
  }
};

template <class D>
concept Observes = requires(D& drafter, const Eigen::MatrixXd& rows) {
  drafter.observe(Index{}, Judged<Eigen::MatrixXd>{rows, {}, {}, {}});
};
template <class D>
using RowsOf = decltype(std::declval<const D&>().drafted(Index{}).rows);

using Lookup = PromptLookupDrafter;
using Small = ModelDrafter<TableModel<>>;
static_assert(Drafter<FallbackDrafter<Lookup, Small>> &&
              Drafter<FallbackDrafter<Lookup&, Scripted&, Small&>>);
static_assert(Drafter<FallbackDrafter<FallbackDrafter<Lookup, Small>, NoDrafter>>);
static_assert(std::is_same_v<RowsOf<FallbackDrafter<Lookup, Scripted&>>, OneHotRows>);
static_assert(std::is_same_v<RowsOf<FallbackDrafter<Small, Small>>, RowsOf<LiftedDrafter<Small>>>);
static_assert(std::is_same_v<RowsOf<FallbackDrafter<Lookup, Small>>,
                             VariantRows<OneHotRows, RowSpan<DenseRow<double>>>>);
static_assert(Observes<FallbackDrafter<Lookup, Learning&>>);

std::vector<Token> tokens_of(const auto& draft) { return {draft.tokens.begin(), draft.tokens.end()}; }

const std::vector<Token> context{0, 1, 2, 0, 1};

// All tests in the loop use this one type of chain. A test uses the members that it needs.
using LoopChain = FallbackDrafter<Learning&, Learning&, Lookup, Logged<Small>>;
auto loop_decoder(TableModel<>& target, LoopChain& chain, double confidence = 0) {
  return SpecDec{target, chain, BlockVerifier{}, ConfidentLength{confidence}};
}

constexpr PromptLookupDrafter::Options never{.max_ngram = 300, .min_ngram = 300};

}  // namespace

TEST_CASE("the first drafter that proposes anything makes the draft; the drafters after it are not asked") {
  Scripted silent, first({5, 6, 7}), second({8});
  OneText chain{FallbackDrafter{silent, first, second}};
  std::mt19937_64 rng(1);
  const auto draft = chain.draft(context, {2}, rng);
  CHECK(tokens_of(draft) == std::vector<Token>{5, 6});
  CHECK(draft.rows.rows() == 2);
  CHECK(draft.rows.row(1).probability(6) == 1);
  CHECK(silent.log.asked == 1);
  CHECK(silent.log.gamma == 2);
  CHECK(first.log.gamma == 2);
  CHECK(second.log.asked == 0);
  first.tokens.clear();
  CHECK(tokens_of(chain.draft(context, {2}, rng)) == std::vector<Token>{8});
  const auto refuses = [](const auto&, Index) { return false; };
  CHECK(tokens_of(chain.draft(context, {2}, rng, refuses)) == std::vector<Token>{8});  // none takes it
  second.tokens.clear();
  const auto none = chain.draft(context, {2}, rng);
  CHECK(none.tokens.empty());
  CHECK(none.rows.rows() == 0);
}

TEST_CASE("a prompt lookup uses no random numbers, and the small model uses as many as it would alone") {
  std::mt19937_64 seed(2);
  const auto table = TableModel<>::random(4, 2, seed);
  OneText chain{FallbackDrafter{PromptLookupDrafter{}, ModelDrafter{TableModel<>(table)}}};
  ModelDrafter alone{TableModel<>(table)};
  std::mt19937_64 a(3), b(3);
  CHECK(tokens_of(chain.draft(context, {2}, a)) == std::vector<Token>{2, 0});
  CHECK(a == b);
  const std::vector<Token> unheard_of{0, 1, 2, 3};
  chain.truncate(0);
  const auto got = chain.draft(unheard_of, {3}, a);
  const auto expected = alone.draft(unheard_of, {3}, b);
  CHECK(tokens_of(got) == tokens_of(expected));
  CHECK(a == b);
  for (Index i = 0; i < 3; ++i)
    for (Token x = 0; x < 4; ++x)
      CHECK(got.rows.row(i).probability(x) == expected.rows.row(i).probability(x));
}

namespace {

// A model of one row of logits.
struct LogitsOfOneRow {
  Eigen::MatrixXf logits = Eigen::RowVector3f(1, 2, 3);
  Index vocab_size() const { return 3; }
  auto forward(std::span<const Token>, Index) const { return Logits{logits, {.temperature = 0.5}}; }
  void truncate(Index) {}
};

}  // namespace

TEST_CASE("rows and vocabulary are those of the member that proposed") {
  std::mt19937_64 rng(4);
  Log lookup, dense, logits, lists;
  const auto table = TableModel<>::random(7, 1, rng);
  const auto listed = coarse_model(4, 1, rng);
  OneText chain{FallbackDrafter{Logged{lookup, PromptLookupDrafter{}},
                                Logged{dense, Small(TableModel<>(table))},
                                Logged{logits, ModelDrafter{LogitsOfOneRow{}}},
                                Logged{lists, ModelDrafter{LayoutModel<AsSparse<double>>(listed)}}}};
  using Row = std::vector<double>;
  const auto values = [](const auto& row) {
    Row p;
    for (Token x = 0; x < row.vocab_size(); ++x) p.push_back(row.probability(x));
    return p;
  };
  const auto check = [&](Index vocab_size, const std::function<Row(Token)>& row_after) {
    const auto draft = chain.draft(context, {3}, rng);
    REQUIRE(draft.tokens.size() == 3);
    REQUIRE(draft.rows.rows() == 3);
    CHECK(draft.rows.vocab_size() == vocab_size);
    Token last = context.back();
    for (Index i = 0; i < 3; ++i) {
      const Row expected = row_after(last), got = values(draft.rows.row(i));
      REQUIRE(got.size() == expected.size());
      for (std::size_t x = 0; x < got.size(); ++x) CHECK(got[x] == Approx(expected[x]).epsilon(1e-6));
      last = draft.tokens[static_cast<std::size_t>(i)];
      CHECK(draft.rows.row(i).probability(last) > 0);
    }
  };
  const std::vector<Token> followed{2, 0, 1};
  Index i = 0;
  check(0, [&](Token) { return values(OneHotRow(followed[static_cast<std::size_t>(i++)])); });
  lookup.open = false;
  check(7, [&](Token last) { return values(table.distribution(std::span(&last, 1))); });
  dense.open = false;
  const double e = std::exp(2.0);  // logits 1, 2, 3 at temperature 1/2
  check(3, [&](Token) { return Row{1 / (1 + e + e * e), e / (1 + e + e * e), e * e / (1 + e + e * e)}; });
  logits.open = false;
  check(4, [&](Token last) {
    return values(listed.distribution(std::vector<Token>{std::min(last, Token{3})}));
  });
  CHECK(lookup.proposed + dense.proposed + logits.proposed + lists.proposed == 4);
}

TEST_CASE("all members are rolled back, and the members that observe are told of the target's calls") {
  Learning learning({1, 2}), silent;
  Log plain;
  auto target = TableModel<>::context_free(Eigen::RowVector3d(0.25, 0.5, 0.25));
  LoopChain chain{silent, learning, Lookup{never}, Logged{plain, Small(TableModel<>(target))}};
  auto decoder = loop_decoder(target, chain);
  chain.keep(0, 7);
  CHECK(plain.length == 7);
  CHECK(silent.log.length == 7);
  CHECK(learning.log.length == 7);
  std::mt19937_64 rng(1);
  const Result r = decoder.generate(context, {.max_new_tokens = 30, .gamma = 2}, rng);
  CHECK(learning.log.observed == r.stats.target_calls);
  CHECK(silent.log.observed == r.stats.target_calls);
}

TEST_CASE("a draft-length policy may end the drafts of the members that ask it") {
  // Without matches the chain is the model alone, with the policy. With a match the policy is not asked.
  std::mt19937_64 seed(8), rng(7), other(7);
  const auto table = TableModel<>::random(5, 2, seed);
  Learning silent, as_silent;
  Log log;
  LoopChain chain{silent, as_silent, Lookup{never}, Logged{log, Small(TableModel<>(table))}};
  OneText by_hand{chain};
  Small alone{TableModel<>(table)};
  std::vector<Token> text = context;
  Index ended = 0;
  for (int k = 0; k < 50; ++k) {
    const WhileSure keep_drafting;
    const auto got = tokens_of(by_hand.draft(text, {4}, rng, keep_drafting));
    CHECK(got == tokens_of(alone.draft(text, {4}, other, keep_drafting)));
    CHECK(rng == other);
    ended += got.size() < 4;
    text.push_back(static_cast<Token>(k % 5));
    by_hand.truncate(std::ssize(text) - 1);
    alone.truncate(std::ssize(text) - 1);
  }
  CHECK(ended > 10);

  auto target = TableModel<>::random(5, 2, seed);
  const auto drafted = [&](LoopChain& drafter, double confidence) {
    std::mt19937_64 fresh(7);
    auto decoder = loop_decoder(target, drafter, confidence);
    return decoder.generate(context, {.max_new_tokens = 200}, fresh).stats.drafted;
  };
  CHECK(drafted(chain, 0.6) < drafted(chain, 0));
  LoopChain matched{silent, as_silent, Lookup{}, Logged{log, Small(TableModel<>(table))}};
  CHECK(drafted(matched, 1) > 0);
}

TEST_CASE("a member's exception passes through, and the step can be tried again") {
  Learning silent, fragile({1});
  Log log;
  std::mt19937_64 seed(9), rng(1);
  auto target = TableModel<>::random(3, 2, seed);
  LoopChain chain{silent, fragile, Lookup{never}, Logged{log, Small(TableModel<>::random(3, 2, seed))}};
  auto decoder = loop_decoder(target, chain);
  auto sequence = decoder.start(context, {.max_new_tokens = 20});
  sequence.step(rng);
  const std::vector<Token> before(sequence.tokens().begin(), sequence.tokens().end());
  fragile.breaks = true;
  CHECK(message_of<std::runtime_error>([&] { sequence.step(rng); }) == "out of order");
  CHECK(std::vector<Token>(sequence.tokens().begin(), sequence.tokens().end()) == before);
  CHECK(silent.log.length == std::ssize(sequence.context()));
  CHECK(log.length == std::ssize(sequence.context()));
  fragile.breaks = false;
  fragile.tokens.clear();
  while (!sequence.done()) sequence.step(rng);
  CHECK(sequence.tokens().size() == 20);
  CHECK(log.proposed > 0);
}

TEST_CASE("an id that only the proposing member knows is rejected, and an id that no row knows is an error") {
  std::mt19937_64 rng(5);
  auto target = TableModel<>::random(3, 1, rng);
  Learning silent, foreign;
  Log log;
  const Lookup match{{.min_ngram = 3}};
  LoopChain chain{silent, foreign, Lookup{match}, Logged{log, Small(TableModel<>::random(9, 1, rng))}};
  auto decoder = loop_decoder(target, chain);
  for (const Token x : decoder.generate(context, {.max_new_tokens = 40}, rng).tokens) CHECK(x < 3);
  CHECK(log.proposed > 0);
  foreign.tokens = {7};
  CHECK(message_of([&] {
          decoder.generate(context, {.max_new_tokens = 40}, rng);
        }).find("draft[0] = 7 is outside") != std::string::npos);
}

// ---- Many texts

namespace {

const Options of_many{.max_new_tokens = 40, .gamma = 4};

// Texts that repeat themselves, so that there are matches, and others.
const std::vector<std::vector<Token>> prompts{{0, 1, 2, 0, 1, 2, 0, 1}, {2}, {1, 1, 1}, {2, 0}};

// Writes all prompts in one batch, and each alone by a decoder that decoder_of(i) returns in a std::unique_ptr. Returns the
// tokens that were accepted.
Index check_as_alone(auto&& batch, const auto& decoder_of, auto&&... executor) {
  Index accepted = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) batch.add(prompts[i], of_many, std::mt19937_64{i});
  while (!batch.empty())
    for (const Finished& done : batch.step(executor...)) {
      REQUIRE_FALSE(done.error);
      std::mt19937_64 rng{static_cast<std::uint64_t>(done.sequence)};
      const auto decoder = decoder_of(done.sequence);
      const Result alone = decoder->generate(prompts[static_cast<std::size_t>(done.sequence)], of_many, rng);
      CHECK(done.result.tokens == alone.tokens);
      CHECK(done.result.stats.target_calls == alone.stats.target_calls);
      CHECK(done.result.stats.drafted == alone.stats.drafted);
      accepted += alone.stats.accepted;
    }
  return accepted;
}

// Fails in texts that begin with 1, and has no guess for others.
struct Picky {
  Draft<OneHotRows> draft(std::span<const Token> text, Index, auto&) const {
    if (text.front() == 1) throw std::runtime_error("out of order");
    return {{}, OneHotRows({})};
  }
  void truncate(Index) const {}
};

}  // namespace

TEST_CASE(
    "in a batch a chain writes each text as alone, whether its members draft together or text by text") {
  std::mt19937_64 seed(21);
  const auto target = TableModel<>::random(3, 2, seed), small = TableModel<>::random(3, 2, seed);
  Log match, model;
  const Lookup lookup{{.min_ngram = 3}};
  const auto decoder_of = [&](Index) {
    const auto decoder = [&] {
      return new SpecDec{TableModel<>(target), FallbackDrafter{Logged{match, Lookup(lookup)},
                                                               Logged{model, Small(TableModel<>(small))}}};
    };
    return std::unique_ptr<std::remove_pointer_t<decltype(decoder())>>(decoder());
  };
  ModelPerSequence held{small};
  const auto check = [&](auto&& drafter, const BatchOptions& room, auto&&... executor) {
    check_as_alone(
        Batch{ModelPerSequence{target}, std::forward<decltype(drafter)>(drafter), BlockVerifier{}, room},
        decoder_of, executor...);
  };
  check(FallbackDrafter{Lookup(lookup), ModelDrafter{ModelPerSequence{small}}}, {});
#ifndef SPECDEC_TEST_SOME
  check(FallbackDrafter{Lookup(lookup), ModelDrafter{held}}, {.tokens_per_call = 12});
#endif
  check(FallbackDrafter{Lookup(lookup), Small(TableModel<>(small))}, {}, TwoThreads{});
#ifndef SPECDEC_TEST_SOME
  check(FallbackDrafter{FallbackDrafter{NoDrafter{}, Lookup(lookup)}, ModelDrafter{ModelPerSequence{small}}},
        {});
#endif
  CHECK(match.proposed > 10);
  CHECK(model.proposed > 10);
  CHECK(held.size() == 0);
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE("in a batch each text's own grammar reaches the target, its forced tokens and its draft model") {
  // In text i, token (i + 1) % 3 follows token i % 3.
  struct Follows {
    Token first, second, last = -1;
    void allow(std::span<std::uint32_t> mask) const { mask[0] |= last == first ? 1U << second : 0b111U; }
    bool advance(Token x) {
      const bool allowed = last != first || x == second;
      if (allowed) last = x;
      return allowed;
    }
  };
  const auto grammar_of = [](Index i) {
    const auto begun = prompts[static_cast<std::size_t>(i)].size();
    return AfterPrompt{static_cast<Index>(begun),
                       Grammar{Follows{static_cast<Token>(i % 3), static_cast<Token>((i + 1) % 3)}}};
  };
  const LogTable large(3, 2, 22), small(3, 2, 23);
  const Chain steps{Temperature{0.9}};
  const auto decoder_of = [&](Index i) {
    const auto decoder = [&] {
      return new SpecDec{
          ProcessedModel{LogTable(large), steps, grammar_of(i)},
          FallbackDrafter{ForcedTokens{grammar_of(i), 3},
                          ModelDrafter{ProcessedModel{LogTable(small), steps, grammar_of(i)}}}};
    };
    return std::unique_ptr<std::remove_pointer_t<decltype(decoder())>>(decoder());
  };
  const auto target = [&] { return ProcessedModel{ModelPerSequence{large}, steps, grammar_of}; };
  const auto forced = [&](Index i) { return ForcedTokens{grammar_of(i), 3}; };
  const auto guesses = [&] {
    return ModelDrafter{ProcessedModel{ModelPerSequence{small}, steps, grammar_of}};
  };
  CHECK(check_as_alone(Batch{target(), FallbackDrafter{forced, guesses()}}, decoder_of) > 50);

  // Forced tokens of another text's grammar would be rejected.
  Batch only_forced{target(), FallbackDrafter{forced}};
  for (std::size_t i = 0; i < prompts.size(); ++i) only_forced.add(prompts[i], of_many, std::mt19937_64{i});
  for (const Finished& done : only_forced.run()) {
    REQUIRE_FALSE(done.error);
    const auto [first, second] =
        std::pair{static_cast<Token>(done.sequence % 3), static_cast<Token>((done.sequence + 1) % 3)};
    for (std::size_t k = 1; k < done.result.tokens.size(); ++k)
      if (done.result.tokens[k - 1] == first) CHECK(done.result.tokens[k] == second);
    CHECK(done.result.stats.drafted > 3);
    CHECK(done.result.stats.accepted == done.result.stats.drafted);
  }
}
#endif

TEST_CASE(
    "in a batch a member that fails for one text fails this text, and the next member drafts for the "
    "others") {
  std::mt19937_64 seed(24);
  const auto target = TableModel<>::random(3, 2, seed);
  Batch batch{ModelPerSequence{target}, FallbackDrafter{Picky{}, ModelDrafter{ModelPerSequence{target}}}};
  for (const auto& prompt : prompts) batch.add(prompt, of_many, std::mt19937_64{1});
  for (const Finished& done : batch.run()) {
    if (prompts[static_cast<std::size_t>(done.sequence)].front() == 1) {
      CHECK(message_of<std::runtime_error>([&] { std::rethrow_exception(done.error); }) == "out of order");
      CHECK(done.result.tokens.empty());
    } else {
      REQUIRE_FALSE(done.error);
      CHECK(done.result.stats.target_calls == 8);  // the draft model is the target: all tokens are accepted
    }
  }
}

// ---- The law of the output

namespace {

// Breaks a promise to the chain: it draws, and then proposes nothing if it does not like the drawn token.
template <class D>
struct Fickle {
  D drafter;
  bool fickle = false;
  static constexpr bool drafts_trees = false;
  template <RandomSource Source>
  auto draft(std::span<const Token> text, const DraftLimits& limits, Source& source) {
    auto draft = drafter.draft(text, limits, source);
    if (fickle && !draft.tokens.empty() && draft.tokens[0] == 0) draft = drafter.draft(text, {0}, source);
    return draft;
  }
  void truncate(Index length) { drafter.truncate(length); }
};

using Rule = AnyOf<true, TokenVerifier, BlockVerifier, SampleMatchVerifier, GreedyBlockVerifier>;
const Rule token{TokenVerifier{}}, greedy_block{GreedyBlockVerifier{}};
const Rule all_laws[] = {{BlockVerifier{}}, token, {SampleMatchVerifier{}}};
// Other tests run the code of every rule under sanitizers.
const std::span laws_of = std::span(all_laws).first(support::sanitized ? 1 : std::size(all_laws));

// All laws use one type of decoder. Its members: a match, another match, then lists, then a dense model or another.
struct Members {
  PromptLookupDrafter::Options match = never, other_match = never;
  TableModel<> lists = TableModel<>::context_free(Eigen::RowVector2d(0.5, 0.5));
  TableModel<> dense = lists, other_dense = lists;
  bool fickle = false;
  Log match_log = {}, lists_log = {}, dense_log = {};
};
auto chain_decoder(TableModel<>& target, Members& members, const Rule& rule) {
  Fickle<Small> first{Small(TableModel<>(members.dense)), members.fickle};
  return SpecDec{
      target,
      Trusted{FallbackDrafter{
          Logged{members.match_log, OneText{FallbackDrafter{PromptLookupDrafter{members.match},
                                                            PromptLookupDrafter{members.other_match}}}},
          Logged{members.lists_log, ModelDrafter{LayoutModel<AsSparse<double>>(members.lists)}},
          Logged{members.dense_log,
                 OneText{FallbackDrafter{std::move(first), Small(TableModel<>(members.other_dense))}}}}},
      rule};
}

}  // namespace

TEST_CASE("a chain of a match and a small model is lossless", "[law]") {
  for (const Rule& rule : laws_of) {
    CAPTURE(rule.rule.index());
    std::mt19937_64 rng(11);
    Members members{.match = {.max_ngram = 3, .min_ngram = 3}};
    members.lists_log.open = false;
    int models = 0;
    for (const Index vocab_size : {2, 3})
      for (const Index gamma : {1, 2, 3})
        for (int pair = 0; pair < 6; ++pair) {
          if (models++ % every(16) != 0) continue;
          auto target = TableModel<>::random(vocab_size, 2, rng);
          const Index known =
              pair % 3 == 2 ? 5 - vocab_size : vocab_size;  // sometimes the other vocabulary size
          members.dense = TableModel<>::random(known, 2, rng);
          auto decoder = chain_decoder(target, members, rule);
          const std::vector<Token> prompt{0, 1, 0, 1};
          const Options options{.max_new_tokens = 5, .gamma = gamma};
          const Law expected = target_law(target, prompt, options);
          const GenerationLaw got = exact_generate(decoder, prompt, options);
          CHECK(largest_difference(got.law, expected).size < 1e-12);
          const GenerationLaw rolled_back = enumerate_generate(decoder, prompt, options);
          CHECK(largest_difference(rolled_back.law, expected).size < 1e-12);
          CHECK(rolled_back.accepted == Approx(got.accepted).epsilon(1e-12));
          CHECK(rolled_back.drafted == Approx(got.drafted).epsilon(1e-12));
        }
    CHECK(members.match_log.proposed > 1000 / every(50));
    CHECK(members.dense_log.proposed > 1000 / every(50));
  }
}

TEST_CASE("a chain with a list in the middle is lossless", "[law]") {
  for (const Rule& rule : laws_of) {
    CAPTURE(rule.rule.index());
    std::mt19937_64 rng(12);
    Members members{.match = {.min_ngram = 2}};
    for (int pair = 0; pair < std::max(bound(10), 2); ++pair) {
      auto target = TableModel<>::random(3, 2, rng);
      members.lists = coarse_model(3, 2, rng);
      members.dense = TableModel<>::random(3, 2, rng);
      auto decoder = chain_decoder(target, members, rule);
      const std::vector<Token> prompt{0, 1};
      const Options options{.max_new_tokens = 4, .gamma = 3};
      members.lists_log.open = pair % 2 == 0;
      CHECK(largest_difference(enumerate_generate(decoder, prompt, options).law,
                               target_law(target, prompt, options))
                .size < 1e-12);
    }
    CHECK(members.match_log.proposed > bound(100));
    CHECK(members.lists_log.proposed > bound(100));
    CHECK(members.dense_log.proposed > bound(100));
  }
}

TEST_CASE("greedy block verification keeps its law with a chain of one-hot drafts", "[law]") {
  std::mt19937_64 rng(13);
  for (int pair = 0; pair < 20; ++pair) {
    auto target = TableModel<>::random(3, 2, rng);
    Members members{.match = {.max_ngram = 3, .min_ngram = 3}, .other_match = {.max_ngram = 1}};
    members.lists_log.open = members.dense_log.open = false;
    auto decoder = chain_decoder(target, members, greedy_block);
    const std::vector<Token> prompt{0, 1, 2, 0, 1, 1, 2, 0, 1};
    const Options options{.max_new_tokens = 5, .gamma = 3};
    const GenerationLaw got = enumerate_generate(decoder, prompt, options);
    CHECK(largest_difference(got.law, target_law(target, prompt, options)).size < 1e-12);
    CHECK(got.drafted > 0);
  }
}

static_assert(!is_steady<FallbackDrafter<PromptLookupDrafter, Small>> && is_steady<FallbackDrafter<Small>>);
static_assert(!is_steady<FallbackDrafter<FallbackDrafter<Small, Small>>>);

TEST_CASE("greedy block verification is not lossless with a model in the chain, as documented", "[law]") {
  std::mt19937_64 rng(14);
  int biased = 0, too_short = 0;
  for (int pair = 0; pair < 40; ++pair) {
    auto target = TableModel<>::random(2, 2, rng);
    Members members{.match = {.max_ngram = 3, .min_ngram = 2}, .dense = TableModel<>::random(2, 2, rng)};
    members.lists_log.open = false;
    auto decoder = chain_decoder(target, members, greedy_block);
    const std::vector<Token> prompt{0, 1, 1};
    const Options options{.max_new_tokens = 5, .gamma = 3};
    const auto complaint = message_of([&] {
      const Law law = exact_generate(decoder, prompt, options).law;
      biased += largest_difference(law, target_law(target, prompt, options)).size > 1e-3;
    });
    too_short += complaint.find("draft at least that many") != std::string::npos;
  }
  CHECK(biased > 0);
  CHECK(too_short > 0);
}

TEST_CASE("a member that drops a drawn token biases the text, as documented", "[law]") {
  auto target = toy_target();
  const std::vector<Token> prompt{0};
  const Options options{.max_new_tokens = 2, .gamma = 1};
  const auto small = TableModel<>::context_free(Eigen::RowVector2d(2.0 / 3, 1.0 / 3));
  const auto off_by = [&](bool fickle) {
    Members members{.dense = small, .other_dense = small, .fickle = fickle};
    members.lists_log.open = false;
    auto decoder = chain_decoder(target, members, token);
    return largest_difference(enumerate_generate(decoder, prompt, options).law,
                              target_law(target, prompt, options))
        .size;
  };
  CHECK(off_by(false) < 1e-12);
  CHECK(off_by(true) > 0.01);
}

}  // namespace test_draft_fallback_drafter
