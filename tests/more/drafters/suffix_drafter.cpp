// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <span>
#include <specdec/more/drafters/suffix_drafter.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/counted_trees.hpp"
#include "support/message_of.hpp"
#include "support/propose.hpp"

namespace test_draft_suffix_drafter {

using namespace specdec;
using support::ChosenTree;
using support::draft_chosen;
using support::message_of;
using support::propose;

using BranchingDrafter = SuffixDrafter<Branching>;

static_assert(OneTextDrafter<SuffixDrafter<>> && !drafts_trees<SuffixDrafter<>>);
static_assert(OneTextDrafter<BranchingDrafter> && drafts_trees<BranchingDrafter>);
static_assert(noexcept(std::declval<SuffixDrafter<>&>().truncate(0)));
static_assert(noexcept(std::declval<BranchingDrafter&>().truncate(0)));

namespace {

using Tokens = std::vector<Token>;

// The automaton of what a drafter has learnt.
template <class Drafter>
struct Inside : Drafter {
  static constexpr auto automaton_of = &Inside::automaton;
};
template <class Drafter>
const detail::SuffixAutomaton& learnt_by(const Drafter& drafter) {
  return (drafter.*Inside<Drafter>::automaton_of)();
}

// How often a string was counted.
Index occurrences(const auto& drafter, const Tokens& string) {
  const detail::SuffixAutomaton& learnt = learnt_by(drafter);
  Index state = learnt.root, edge = learnt.none;
  for (const Token x : string) {
    edge = learnt.find(state, x);
    if (edge == learnt.none) return 0;
    state = learnt.edge(edge).to;
  }
  return learnt.edge(edge).count;
}

Tokens random_text(std::mt19937_64& rng, Token vocab, int size) {
  Tokens text;
  for (int k = 0; k < size; ++k) text.push_back(static_cast<Token>(uniform01(rng) * vocab));
  return text;
}

// The definition, from everything that was learnt: pieces of texts, each from some place on.
class Record {
 public:
  void learn(const Tokens& text, Index begin) { pieces_.push_back({text, begin}); }

  Index occurrences(const Tokens& string) const {
    Index count = 0;
    for_each_end(string, [&](const Piece& piece, Index end) { count += end > piece.begin; });
    return count;
  }

  // The longest suffix of the context that something followed, and what followed it.
  struct Match {
    Index length = 0;
    std::map<Token, std::pair<Index, Index>> followed;  // how often, and where last
  };

  Match match(const Tokens& context, Index max_match) const {
    for (Index n = std::min(max_match, std::ssize(context)); n > 0; --n) {
      Match found{n, {}};
      Index time = 0;
      for_each_end({context.end() - n, context.end()}, [&](const Piece& piece, Index end) {
        if (end < piece.begin || end >= std::ssize(piece.text)) return;
        auto& [count, last] = found.followed[piece.text[static_cast<std::size_t>(end)]];
        ++count;
        last = ++time;
      });
      if (!found.followed.empty()) return found;
    }
    return {};
  }

  Tokens propose(Tokens context, Index gamma, const SuffixDrafter<>::Options& options) const {
    Tokens out;
    while (std::ssize(out) < gamma) {
      const Match found = match(context, options.max_match);
      if (found.length < options.min_match) break;
      const auto best = std::ranges::max_element(found.followed, {}, [](const auto& f) { return f.second; });
      Index all = 0;
      for (const auto& [token, f] : found.followed) all += f.first;
      if (static_cast<double>(best->second.first) < options.min_share * static_cast<double>(all)) break;
      out.push_back(best->first);
      context.push_back(best->first);
    }
    return out;
  }

  ChosenTree tree(const Tokens& context, const DraftLimits& limits,
                  const BranchingDrafter::Options& options) const {
    support::ScannedTexts counted({}, options.min_match, options.max_match);
    for (const Piece& piece : pieces_) counted.add(piece.text, piece.begin);
    return support::CountedTreeByDefinition(counted, context, limits).tree();
  }

 private:
  struct Piece {
    Tokens text;
    Index begin;  // the tokens before this were learnt by another piece
  };

  // Calls f(piece, end) for every place of a piece's text where the string ends.
  template <class F>
  void for_each_end(const Tokens& string, F&& f) const {
    const Index n = std::ssize(string);
    for (const Piece& piece : pieces_)
      for (Index end = n; end <= std::ssize(piece.text); ++end)
        if (std::equal(string.begin(), string.end(), piece.text.begin() + (end - n))) f(piece, end);
  }

  std::vector<Piece> pieces_;
};

// A text that grows and is cut. Says what has to be learnt of it, once.
class Author {
 public:
  const Tokens& text() const { return text_; }
  const Record& record() const { return record_; }

  void append(const Tokens& more) { text_.insert(text_.end(), more.begin(), more.end()); }

  void cut(std::size_t length) {
    text_.resize(length);
    learnt_ = std::min(learnt_, std::ssize(text_));
    cut_ = true;
  }

  // Teaches a corpus in the middle of the text.
  void teach(auto& drafter, const Tokens& corpus) {
    drafter.learn(corpus);
    record_.learn(corpus, 0);
  }

  // Now the text is shown to a drafter.
  void show() {
    if (std::exchange(cut_, false))
      for (Index n = learnt_; n <= std::ssize(text_); ++n)
        if (shown_.contains(Tokens(text_.begin(), text_.begin() + n))) learnt_ = n;
    record_.learn(text_, learnt_);
    learnt_ = std::ssize(text_);
    shown_.insert(text_);
  }

 private:
  Tokens text_;
  std::set<Tokens> shown_;
  Index learnt_ = 0;
  bool cut_ = false;
  Record record_;
};

}  // namespace

TEST_CASE("the suffix drafter proposes what followed the longest match") {
  SuffixDrafter drafter;
  drafter.learn(Tokens{7, 1, 2, 3, 4});
  drafter.learn(Tokens{8, 1, 2, 5, 6});
  drafter.learn(Tokens{9, 1, 2, 5, 0});
  CHECK(propose(drafter, Tokens{7, 1, 2}, 2) == Tokens{3, 4});
  drafter.truncate(0);
  CHECK(propose(drafter, Tokens{0, 1, 2}, 1) == Tokens{5});  // two of three times
  drafter.truncate(0);
  CHECK(propose(drafter, Tokens{8, 1, 2}, 9) == Tokens{5, 6});  // nothing followed 6
  CHECK(occurrences(drafter, Tokens{1, 2}) == 6);
  CHECK(occurrences(drafter, Tokens{8, 1, 2}) == 2);
  CHECK(occurrences(drafter, Tokens{2, 9}) == 0);
}

TEST_CASE("within one text a match is an earlier place of that text") {
  SuffixDrafter drafter;
  CHECK(propose(drafter, Tokens{1, 2, 3, 4}, 3).empty());
  CHECK(propose(drafter, Tokens{1, 2, 3, 4, 1, 2}, 3) == Tokens{3, 4, 1});
  SuffixDrafter run;
  CHECK(propose(run, Tokens{6, 6, 6}, 4) == Tokens{6, 6, 6, 6});
  CHECK(occurrences(run, Tokens{6, 6}) == 2);
  SuffixDrafter latest;  // 2 and 3 each followed 1 once: the later one counts
  CHECK(propose(latest, Tokens{1, 2, 1, 3, 1}, 1) == Tokens{3});
}

TEST_CASE("no match reaches across the end of one text into another") {
  SuffixDrafter drafter;
  drafter.learn(Tokens{1, 2});
  drafter.learn(Tokens{3, 4});
  CHECK(occurrences(drafter, Tokens{2, 3}) == 0);
  CHECK(propose(drafter, Tokens{5, 1}, 9) == Tokens{2});
  drafter.truncate(0);
  propose(drafter, Tokens{6, 7}, 0);
  CHECK(occurrences(drafter, Tokens{1, 6}) == 0);
  drafter.learn(Tokens{8, 9});
  propose(drafter, Tokens{6, 7, 0}, 0);
  CHECK(occurrences(drafter, Tokens{7, 0}) == 1);
  CHECK(occurrences(drafter, Tokens{7, 8}) == 0);
}

TEST_CASE("the suffix drafter proposes no more than was asked for, and nothing without a match") {
  SuffixDrafter drafter;
  CHECK(propose(drafter, Tokens{}, 3).empty());
  CHECK(propose(drafter, Tokens{1}, 3).empty());
  CHECK(propose(drafter, Tokens{1, 1, 1}, 0).empty());
  CHECK(propose(drafter, Tokens{1, 1, 1}, 1) == Tokens{1});
}

TEST_CASE("matches have a smallest and a largest length") {
  SuffixDrafter picky{{.min_match = 2}};
  CHECK(propose(picky, Tokens{1, 2, 3, 9, 2}, 2).empty());
  CHECK(propose(picky, Tokens{1, 2, 3, 9, 2, 3}, 2) == Tokens{9, 2});
  SuffixDrafter forgetful{{.max_match = 1}};
  forgetful.learn(Tokens{7, 1, 3});
  forgetful.learn(Tokens{1, 4});
  CHECK(propose(forgetful, Tokens{7, 1}, 1) == Tokens{4});  // the match counts as 1, though 7 1 occurred
}

TEST_CASE("a proposal ends before a token that is rarer than min_share") {
  SuffixDrafter drafter{{.max_match = 1, .min_share = 0.5}};
  drafter.learn(Tokens{1, 2, 1, 2, 1, 3, 1, 4});  // 1 is followed by 2, 2, 3, 4
  CHECK(propose(drafter, Tokens{1}, 3) == Tokens{2, 1, 2});
  drafter.learn(Tokens{1, 4});  // 2 and 4 each came two of five times
  CHECK(propose(drafter, Tokens{1}, 3).empty());
  CHECK(propose(drafter, Tokens{1, 3}, 3) == Tokens{1});
}

TEST_CASE("a corpus of 64-bit ids is learnt like one of 32-bit ids") {
  SuffixDrafter drafter;
  drafter.learn(std::vector<std::int64_t>{1, 2147483647, 3});
  CHECK(propose(drafter, Tokens{1}, 2) == Tokens{2147483647, 3});
}

TEST_CASE("after a corpus is learnt in the middle of a text, matches still end at max_match") {
  SuffixDrafter drafter{{.max_match = 1}};
  CHECK(propose(drafter, Tokens{7, 1, 3, 7, 1}, 1) == Tokens{3});  // every 1 comes after a 7
  drafter.learn(Tokens{1, 4, 1, 4});
  CHECK(propose(drafter, Tokens{7, 1, 3, 7, 1}, 1) == Tokens{4});
}

TEST_CASE("the suffix drafter learns a text once, however often it is shown") {
  SuffixDrafter drafter;
  propose(drafter, Tokens{1, 2, 3}, 2);
  propose(drafter, Tokens{1, 2, 3}, 2);  // a step that is tried again
  CHECK(occurrences(drafter, Tokens{1, 2}) == 1);
  propose(drafter, Tokens{1, 2, 3, 1, 2, 4, 5}, 2);  // several steps later
  CHECK(occurrences(drafter, Tokens{1, 2}) == 2);
  CHECK(occurrences(drafter, Tokens{3, 1}) == 1);
  drafter.truncate(7);
  drafter.truncate(0);  // another sequence took a turn, and this one comes back
  propose(drafter, Tokens{1, 2, 3, 1, 2, 4, 5, 6}, 2);
  CHECK(occurrences(drafter, Tokens{1, 2}) == 2);
  CHECK(occurrences(drafter, Tokens{5, 6}) == 1);
  drafter.truncate(0);  // another text with the beginning of the first one
  propose(drafter, Tokens{1, 2, 3, 7}, 2);
  CHECK(occurrences(drafter, Tokens{2, 3}) == 1);
  CHECK(occurrences(drafter, Tokens{3, 7}) == 1);
  drafter.truncate(0);  // the text 1 2 was never shown alone, though it is part of one
  propose(drafter, Tokens{1, 2, 7}, 2);
  CHECK(occurrences(drafter, Tokens{1, 2}) == 3);
}

TEST_CASE("after a rollback the suffix drafter goes on from the text that survived") {
  SuffixDrafter drafter;
  propose(drafter, Tokens{1, 2, 3, 4}, 2);
  drafter.truncate(2);
  propose(drafter, Tokens{1, 2, 5, 6}, 2);
  CHECK(occurrences(drafter, Tokens{1, 2}) == 1);
  CHECK(occurrences(drafter, Tokens{1, 2, 5}) == 1);
  CHECK(occurrences(drafter, Tokens{1, 2, 3}) == 1);  // what was learnt is kept
  CHECK(occurrences(drafter, Tokens{4, 5}) == 0);
  // Shorter than the text before, without a call of truncate(): a rollback as well.
  propose(drafter, Tokens{1}, 2);
  propose(drafter, Tokens{1, 8}, 2);
  CHECK(occurrences(drafter, Tokens{1, 8}) == 1);
}

TEST_CASE("the suffix drafter forgets everything at clear()") {
  SuffixDrafter drafter;
  propose(drafter, Tokens{1, 2, 3}, 1);
  drafter.clear();
  CHECK(learnt_by(drafter).states() == 1);
  CHECK(propose(drafter, Tokens{1, 2, 3, 1}, 1) == Tokens{2});  // the text itself is learnt again
  CHECK(occurrences(drafter, Tokens{1, 2}) == 1);
}

TEST_CASE("while texts grow, end and are cut, matches, counts and proposals are what a search finds") {
  std::mt19937_64 rng{6};
  for (const SuffixDrafter<>::Options options : {SuffixDrafter<>::Options{},
                                                 {.max_match = 1},
                                                 {.max_match = 3},
                                                 {.max_match = 6, .min_match = 2},
                                                 {.max_match = 4, .min_share = 0.6}}) {
    for (const Token vocab : {1, 2, 3, 5}) {
      SuffixDrafter drafter(options);
      Author author;
      for (int step = 0; step < 120; ++step) {
        const double dice = uniform01(rng);
        int more = static_cast<int>(uniform01(rng) * 4);
        if (dice < 0.1) {
          author.teach(drafter, random_text(rng, vocab, 7));
          more = 0;
        } else if (dice < 0.2) {
          const double part = dice < 0.14 ? 0 : uniform01(rng);
          author.cut(static_cast<std::size_t>(part * static_cast<double>(author.text().size())));
          drafter.truncate(std::ssize(author.text()));
          more = 2;
        }
        author.append(random_text(rng, vocab, more));
        author.show();
        const Index gamma = static_cast<Index>(uniform01(rng) * 6);
        REQUIRE(propose(drafter, author.text(), gamma) ==
                author.record().propose(author.text(), gamma, options));
        const Tokens string =
            random_text(rng, vocab,
                        1 + static_cast<int>(uniform01(rng) *
                                             static_cast<double>(std::min<Index>(options.max_match, 7) + 1)));
        REQUIRE(occurrences(drafter, string) == author.record().occurrences(string));
      }
    }
  }
}

TEST_CASE("one large corpus and many texts are searched correctly, too", "[long]") {
  std::mt19937_64 rng{7};
  for (const Index longest : {1, 2, 5, 9}) {
    const SuffixDrafter<>::Options options{.max_match = longest};
    SuffixDrafter drafter(options);
    Author author;
    author.teach(drafter, random_text(rng, 3, 400));
    for (int text = 0; text < 4; ++text) {
      author.cut(0);
      drafter.truncate(0);
      while (author.text().size() < 100) {
        author.append(random_text(rng, 2 + text % 2, 1 + text % 3));
        author.show();
        REQUIRE(propose(drafter, author.text(), 8) == author.record().propose(author.text(), 8, options));
      }
    }
  }
}

TEST_CASE("the automaton is as small as documented") {
  std::mt19937_64 rng{8};
  for (const Token vocab : {1, 2, 3, 100}) {
    SuffixDrafter drafter;
    Index learnt = 0;
    for (int text = 0; text < 10; ++text) {
      const Tokens tokens = random_text(rng, vocab, 500);
      drafter.learn(tokens);
      learnt += std::ssize(tokens);
      CHECK(learnt_by(drafter).states() <= 2 * learnt);
      CHECK(learnt_by(drafter).edges() <= 3 * learnt);
      const Index states = learnt_by(drafter).states(), edges = learnt_by(drafter).edges();
      drafter.learn(tokens);  // nothing new to learn
      CHECK(learnt_by(drafter).states() == states);
      CHECK(learnt_by(drafter).edges() == edges);
    }
  }
  SuffixDrafter worst;  // a b b ... b c: a text with the most states
  Tokens tokens(1000, 1);
  tokens.front() = 0;
  worst.learn(tokens);
  tokens.back() = 2;
  worst.learn(tokens);
  CHECK(learnt_by(worst).states() <= 2 * 2000);
}

TEST_CASE("learning a long text of one repeated token takes no excessive time") {
  SuffixDrafter drafter;
  const Tokens text(100000, 3);
  drafter.learn(text);
  CHECK(occurrences(drafter, Tokens(33, 3)) == 100000 - 32);
  CHECK(propose(drafter, Tokens{3}, 3) == Tokens{3, 3, 3});
}

TEST_CASE("in the loop the suffix drafter drafts the second text from the first") {
  testing::TableModel<>::Rows rows = testing::TableModel<>::Rows::Zero(9, 8);
  for (Index x = 0; x < 9; ++x) rows(x, x % 8) = 1;  // counts up again and again
  SpecDec decoder{testing::TableModel<>(rows, 1), SuffixDrafter{}, ArgmaxVerifier{}};
  std::mt19937_64 rng{1};
  const Options options{.max_new_tokens = 7, .gamma = 3};
  const Result first = decoder.generate(Tokens{0}, options, rng);
  CHECK(first.stats.drafted == 0);  // the first text repeats nothing
  const Result second = decoder.generate(Tokens{0}, options, rng);
  CHECK(second.tokens == first.tokens);
  CHECK(second.stats.accepted_fraction() == 1);
  CHECK(second.stats.target_calls == 2);
}

TEST_CASE(
    "a branching suffix drafter puts what followed the longest match first, then what followed shorter "
    "ones") {
  BranchingDrafter drafter;
  drafter.learn(Tokens{1, 2, 3, 4, 9, 2, 3, 5, 0, 2, 3, 5, 7, 3, 6});
  // After "1 2 3" came 4, after "2 3" also 5, twice, and after 3 also 6.
  CHECK(draft_chosen(drafter, Tokens{1, 2, 3}, {.nodes = 3, .depth = 1}) ==
        ChosenTree{{4, 5, 6}, {-1, -1, -1}});
  CHECK(draft_chosen(drafter, Tokens{1, 2, 3}, {.nodes = 3, .depth = 0}) == ChosenTree{});
  CHECK(draft_chosen(drafter, Tokens{8}, {.nodes = 3, .depth = 1}) == ChosenTree{});
  SplitMix64 none{0};
  CHECK(drafter.draft(Tokens{1, 2, 3}, {.nodes = 3, .depth = 1}, none).rows.rows() == 3);
}

TEST_CASE(
    "trees of suffixes are what a search finds, along their line, while texts grow, are cut and resumed") {
  std::mt19937_64 rng{3};
  for (const BranchingDrafter::Options& options :
       {BranchingDrafter::Options{}, {.max_match = 3}, {.max_match = 1}, {.max_match = 9, .min_match = 3}}) {
    SuffixDrafter tree{options, Branching{}};
    SuffixDrafter line{{.max_match = options.max_match, .min_match = options.min_match}};
    Author author;
    const Tokens taught{0, 1, 2, 3, 0, 1, 2, 0};
    author.teach(tree, taught);
    line.learn(taught);
    Index branches = 0;
    for (int n = 0; n < 200 / support::every(4); ++n) {
      if (n % 41 == 40) {
        author.cut(n % 2 == 0 ? author.text().size() / 2 : 0);
        tree.truncate(std::ssize(author.text()));
        line.truncate(std::ssize(author.text()));
      }
      // Sometimes repeats a stretch of the text, so that matches are long.
      if (author.text().size() > 20 && uniform01(rng) < 0.3) {
        const auto from = static_cast<std::ptrdiff_t>(uniform01(rng) * 10);
        author.append({author.text().begin() + from, author.text().begin() + from + 8});
      }
      author.append(random_text(rng, 4, 1 + n % 3));
      author.show();
      const DraftLimits limits{.nodes = n % 20, .depth = n % 9};
      const ChosenTree drafted = draft_chosen(tree, author.text(), limits);
      REQUIRE(drafted == author.record().tree(author.text(), limits, options));
      const Tokens proposed = propose(line, author.text(), limits.depth);
      const Tokens path = eldest_path(drafted);
      REQUIRE(path.size() <= proposed.size());
      CHECK(std::equal(path.begin(), path.end(), proposed.begin()));
      branches += std::ssize(drafted.tokens) - std::ssize(path);
    }
    CHECK(branches > 100 / support::every(4));
    CHECK(learnt_by(tree).states() == learnt_by(line).states());
    tree.clear();
    CHECK(occurrences(tree, Tokens{0, 1}) == 0);
    CHECK(draft_chosen(tree, Tokens{0, 1}, {.nodes = 9, .depth = 3}) == ChosenTree{});
  }
}

TEST_CASE("a loop over trees of suffixes writes the target's text") {
  std::mt19937_64 rng{6};
  for (int n = 0; n < 12; ++n) {
    auto target = testing::TableModel<>::random(3, 2, rng);
    const Tokens prompt{0, 1, 2, 0, 2, 1, 0, 1};
    const Options options{.max_new_tokens = 5, .gamma = 6};
    BranchingDrafter drafter;
    SpecDec decoder{target, drafter, TrunkAndSpares<SampleMatchVerifier>{}};
    const auto written = testing::enumerate_generate(decoder, prompt, options);
    CHECK(testing::largest_difference(written.law, testing::target_law(target, prompt, options)).size <
          1e-12);
    CHECK(written.accepted > 0);
  }
}

TEST_CASE("an unlimited match equals a limit that no text reaches") {
  constexpr Index most = std::numeric_limits<Index>::max();
  SuffixDrafter drafter{{.max_match = most}};
  const Tokens text{5, 1, 2, 3, 9, 7, 1, 2, 3, 8, 5, 1, 2, 3};
  CHECK(propose(drafter, text, 3) == Tokens{9, 7, 1});
  CHECK(occurrences(drafter, Tokens{1, 2, 3}) == 3);
  CHECK(occurrences(drafter, text) == 1);
  SuffixDrafter nothing{{.max_match = most, .min_match = most}};
  CHECK(propose(nothing, text, 3).empty());
}

TEST_CASE("the suffix drafter's options and corpus are checked") {
  CHECK_NOTHROW(SuffixDrafter{{.max_match = 1}});
  CHECK_NOTHROW(SuffixDrafter{{.min_share = 1}});
  CHECK(message_of([] { SuffixDrafter{{.max_match = 0}}; }) ==
        "specdec: suffix drafter needs 1 <= min_match <= max_match, not min_match = 1, max_match = 0");
  CHECK_FALSE(message_of([] { SuffixDrafter{{.min_match = 0}}; }).empty());
  CHECK_FALSE(message_of([] { SuffixDrafter{{.max_match = 2, .min_match = 3}}; }).empty());
  CHECK(message_of([] { SuffixDrafter{{.min_share = 1.5}}; }) ==
        "specdec: suffix drafter needs 0 <= min_share <= 1, not min_share = 1.5");
  CHECK_FALSE(message_of([] { SuffixDrafter{{.min_share = -0.1}}; }).empty());
  CHECK_FALSE(message_of([] { SuffixDrafter{{.min_share = std::nan("")}}; }).empty());
  CHECK(message_of([] {
          SuffixDrafter{{.max_match = 1, .min_match = 2}, Branching{}};
        }) == "specdec: suffix drafter needs 1 <= min_match <= max_match, not min_match = 2, max_match = 1");
  SuffixDrafter drafter{{.max_match = 3}};
  CHECK(message_of([&] {
          drafter.learn(Tokens{1, -1});
        }) == "specdec: tokens[1] = -1 is outside the vocabulary 0..2147483647");
  CHECK_FALSE(message_of([&] { drafter.learn(std::vector<std::int64_t>{1, 2147483648}); }).empty());
  CHECK(learnt_by(drafter).states() == 1);
}

}  // namespace test_draft_suffix_drafter
