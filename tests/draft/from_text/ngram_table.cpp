#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/propose.hpp"

namespace test_draft_ngram_table {

using namespace specdec;
using support::message_of;
using support::propose;

static_assert(Drafter<NgramTableDrafter>);
static_assert(noexcept(std::declval<NgramTableDrafter&>().truncate(0)));

namespace {

using Tokens = std::vector<Token>;

// The definition, from a record of all that was learnt: every token with what stood before it.
class Record {
 public:
  // Text is learnt from position `begin` on.
  void learn(std::span<const Token> text, std::size_t begin) {
    for (std::size_t i = begin; i < text.size(); ++i)
      entries_.push_back({{text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i)}, text[i]});
  }

  Tokens propose(Tokens context, Index gamma, const NgramTableDrafter::Options& options) const {
    Tokens out;
    while (std::ssize(out) < gamma) {
      const Token next = most_frequent(context, options);
      if (next < 0) break;
      out.push_back(next);
      context.push_back(next);
    }
    return out;
  }

  Index occurrences(const Tokens& ngram) const {
    const std::span<const Token> before(ngram.data(), ngram.size() - 1);
    return std::count_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.token == ngram.back() && ends_with(entry.before, before);
    });
  }

 private:
  struct Entry {
    Tokens before;
    Token token;
  };

  static bool ends_with(std::span<const Token> text, std::span<const Token> end) {
    return end.size() <= text.size() && std::ranges::equal(text.last(end.size()), end);
  }

  Token most_frequent(const Tokens& context, const NgramTableDrafter::Options& options) const {
    for (Index n = std::min(options.max_ngram, std::ssize(context)); n >= options.min_ngram; --n) {
      const auto end = std::span(context).last(static_cast<std::size_t>(n));
      std::map<Token, std::pair<Index, std::size_t>> seen;  // how often, and when last
      for (std::size_t i = 0; i < entries_.size(); ++i)
        if (ends_with(entries_[i].before, end))
          seen[entries_[i].token] = {seen[entries_[i].token].first + 1, i};
      const auto best = std::ranges::max_element(seen, {}, [](const auto& s) { return s.second; });
      if (best != seen.end() && best->second.first >= options.min_count) return best->first;
    }
    return -1;
  }

  std::vector<Entry> entries_;
};

}  // namespace

TEST_CASE("the n-gram table proposes what followed most often, the latest among equals") {
  NgramTableDrafter table{{.max_ngram = 1, .online = false}};
  table.learn(Tokens{1, 2, 1, 3, 1, 2, 9});
  CHECK(propose(table, Tokens{1}, 1) == Tokens{2});
  table.learn(Tokens{1, 3});  // 2 and 3 are equals now, 3 the later
  CHECK(propose(table, Tokens{1}, 1) == Tokens{3});
  table.learn(Tokens{1, 2});
  CHECK(propose(table, Tokens{1}, 1) == Tokens{2});
  CHECK(table.occurrences(Tokens{1, 2}) == 3);
  CHECK(table.occurrences(Tokens{1, 3}) == 2);
  CHECK(table.occurrences(Tokens{1}) == 5);
  CHECK(table.occurrences(Tokens{7}) == 0);
}

TEST_CASE("the longest n-gram known decides, however rare, and shorter ones where it is not known") {
  NgramTableDrafter table{{.max_ngram = 2, .online = false}};
  table.learn(Tokens{5, 1, 8});
  table.learn(Tokens{6, 1, 2});
  table.learn(Tokens{7, 1, 2});
  CHECK(propose(table, Tokens{5, 1}, 1) == Tokens{8});
  CHECK(propose(table, Tokens{6, 1}, 1) == Tokens{2});
  CHECK(propose(table, Tokens{9, 1}, 1) == Tokens{2});
  CHECK(propose(table, Tokens{8}, 1).empty());  // nothing followed it
}

TEST_CASE("the n-gram table follows its own proposals") {
  NgramTableDrafter table{{.max_ngram = 2, .online = false}};
  table.learn(Tokens{0, 1, 2, 3, 1, 4});
  CHECK(propose(table, Tokens{0}, 9) == Tokens{1, 2, 3, 1, 4});  // 3 1 is not 0 1
  CHECK(propose(table, Tokens{0}, 3) == Tokens{1, 2, 3});
  CHECK(propose(table, Tokens{0}, 0).empty());
  CHECK(propose(table, Tokens{}, 3).empty());
}

TEST_CASE("what followed less often than min_count is not known") {
  NgramTableDrafter table{{.max_ngram = 2, .online = false, .min_count = 2}};
  table.learn(Tokens{5, 1, 8, 1, 2, 1, 2});
  CHECK(propose(table, Tokens{5, 1}, 1) == Tokens{2});  // 5 1 8 occurred once, 1 2 twice
  CHECK(propose(table, Tokens{5}, 1).empty());
}

TEST_CASE("n-grams shorter than min_ngram are not looked up") {
  NgramTableDrafter table{{.max_ngram = 3, .min_ngram = 2, .online = false}};
  table.learn(Tokens{1, 2, 3, 4});
  CHECK(propose(table, Tokens{9, 2}, 2).empty());
  CHECK(propose(table, Tokens{9, 2, 3}, 2) == Tokens{4});
  CHECK(propose(table, Tokens{2}, 2).empty());
}

TEST_CASE("no n-gram reaches from one text into another") {
  NgramTableDrafter table;
  table.learn(Tokens{1, 2});
  table.learn(Tokens{3, 4});
  CHECK(table.occurrences(Tokens{2, 3}) == 0);
  CHECK(propose(table, Tokens{5, 1}, 9) == Tokens{2});
  table.truncate(0);
  propose(table, Tokens{6, 7}, 0);
  CHECK(table.occurrences(Tokens{1, 6}) == 0);
}

TEST_CASE("a corpus of 64-bit ids is learnt as one of 32 bits") {
  NgramTableDrafter table{{.online = false}};
  table.learn(std::vector<std::int64_t>{1, 2147483647, 3});
  CHECK(propose(table, Tokens{1}, 2) == Tokens{2147483647, 3});
}

TEST_CASE("what is shown is learnt once, however it is shown") {
  NgramTableDrafter table;
  propose(table, Tokens{1, 2, 3}, 2);
  propose(table, Tokens{1, 2, 3}, 2);  // a step tried again
  CHECK(table.occurrences(Tokens{1, 2}) == 1);
  propose(table, Tokens{1, 2, 3, 1, 2, 4, 5}, 2);  // several steps later
  CHECK(table.occurrences(Tokens{1, 2}) == 2);
  CHECK(table.occurrences(Tokens{3, 1}) == 1);
  table.truncate(7);
  table.truncate(0);  // the sequence has lost its turn, and gets it back
  propose(table, Tokens{1, 2, 3, 1, 2, 4, 5, 6}, 2);
  CHECK(table.occurrences(Tokens{1, 2}) == 2);
  CHECK(table.occurrences(Tokens{5, 6}) == 1);
  table.truncate(0);  // another text with the beginning of the first one
  propose(table, Tokens{1, 2, 3, 7}, 2);
  CHECK(table.occurrences(Tokens{2, 3}) == 1);
  CHECK(table.occurrences(Tokens{3, 7}) == 1);
  table.truncate(0);  // one that begins otherwise
  propose(table, Tokens{1, 2, 7}, 2);
  CHECK(table.occurrences(Tokens{1, 2}) == 3);
}

TEST_CASE("after a roll-back the text goes on from what survived") {
  NgramTableDrafter table;
  propose(table, Tokens{1, 2, 3, 4}, 2);
  table.truncate(2);
  propose(table, Tokens{1, 2, 5, 6}, 2);
  CHECK(table.occurrences(Tokens{1, 2}) == 1);
  CHECK(table.occurrences(Tokens{1, 2, 5}) == 1);
  CHECK(table.occurrences(Tokens{1, 2, 3}) == 1);  // what was learnt stays
  CHECK(table.occurrences(Tokens{4, 5}) == 0);
  propose(table, Tokens{1}, 2);  // shorter than what was seen, without a word: rolled back as well
  propose(table, Tokens{1, 8}, 2);
  CHECK(table.occurrences(Tokens{1, 8}) == 1);
}

TEST_CASE("a static table learns nothing from what is shown; clear forgets everything") {
  NgramTableDrafter table{{.online = false}};
  table.learn(Tokens{1, 2});
  CHECK(propose(table, Tokens{1, 3, 1}, 1) == Tokens{2});
  CHECK(table.size() == 3);  // 1, 2 and 1 2
  table.clear();
  CHECK(table.size() == 0);
  CHECK(propose(table, Tokens{1, 3, 1}, 1).empty());
  NgramTableDrafter online;
  propose(online, Tokens{1, 2, 3}, 1);
  online.clear();
  CHECK(propose(online, Tokens{1, 2, 3, 1}, 1) == Tokens{2});  // the text itself is learnt anew
  CHECK(online.occurrences(Tokens{1, 2}) == 1);
}

TEST_CASE("the n-gram table is what counting by hand gives, as texts grow, end and are cut") {
  std::mt19937_64 rng{4};
  for (const NgramTableDrafter::Options options : {NgramTableDrafter::Options{.max_ngram = 1},
                                                   {.max_ngram = 3},
                                                   {.max_ngram = 5, .min_ngram = 2},
                                                   {.max_ngram = 2, .min_count = 3}}) {
    for (const Token vocab : {2, 3, 6}) {
      NgramTableDrafter table(options);
      Record record;
      Tokens context;
      std::set<Tokens> shown;
      Index learnt = 0;
      bool same = true;
      const auto append = [&](Tokens& text, int n) {
        for (int k = 0; k < n; ++k) text.push_back(static_cast<Token>(uniform01(rng) * vocab));
      };
      for (int step = 0; step < 150; ++step) {
        const double dice = uniform01(rng);
        if (dice < 0.1) {
          Tokens corpus;
          append(corpus, 6);
          table.learn(corpus);
          record.learn(corpus, 0);
        } else if (dice < 0.2) {
          context.resize(static_cast<std::size_t>(uniform01(rng) * static_cast<double>(context.size())));
          table.truncate(std::ssize(context));
          learnt = std::min(learnt, std::ssize(context));
          same = false;
        }
        append(context, static_cast<int>(uniform01(rng) * 4));
        if (!same)
          for (Index n = learnt + 1; n <= std::ssize(context); ++n)
            if (shown.contains(Tokens(context.begin(), context.begin() + n))) learnt = n;
        same = true;
        record.learn(context, static_cast<std::size_t>(learnt));
        learnt = std::ssize(context);
        shown.insert(context);
        const Index gamma = static_cast<Index>(uniform01(rng) * 6);
        REQUIRE(propose(table, context, gamma) == record.propose(context, gamma, options));
        Tokens ngram;
        append(ngram, 1 + static_cast<int>(uniform01(rng) * static_cast<double>(options.max_ngram + 1)));
        REQUIRE(table.occurrences(ngram) == record.occurrences(ngram));
      }
    }
  }
}

TEST_CASE("the n-gram table's memory is bounded by what was learnt") {
  std::mt19937_64 rng{5};
  for (const Token vocab : {2, 50, 100000}) {
    NgramTableDrafter table{{.max_ngram = 3}};
    Tokens text;
    for (int i = 0; i < 5000; ++i) text.push_back(static_cast<Token>(uniform01(rng) * vocab));
    table.learn(text);
    CHECK(table.size() <= 4 * std::ssize(text));
    const Index size = table.size();
    table.learn(text);
    CHECK(table.size() == size);
  }
}

TEST_CASE("the n-gram table in the loop: the second text is drafted from the first") {
  testing::TableModel<>::Rows rows = testing::TableModel<>::Rows::Zero(9, 8);
  for (Index x = 0; x < 9; ++x) rows(x, x % 8) = 1;  // counts up, over and over
  SpecDec decoder{testing::TableModel<>(rows, 1), NgramTableDrafter{}, ArgmaxVerifier{}};
  std::mt19937_64 rng{1};
  const Options options{.max_new_tokens = 7, .gamma = 3};
  const Result first = decoder.generate(Tokens{0}, options, rng);
  CHECK(first.stats.drafted == 0);  // nothing has been said twice
  const Result second = decoder.generate(Tokens{0}, options, rng);
  CHECK(second.tokens == first.tokens);
  CHECK(second.stats.accepted_fraction() == 1);
  CHECK(second.stats.target_calls == 2);
}

TEST_CASE("the n-gram table's options and corpus are checked") {
  CHECK_NOTHROW(NgramTableDrafter{{.max_ngram = 1}});
  CHECK(message_of([] { NgramTableDrafter{{.max_ngram = 0}}; }) ==
        "specdec: n-gram table needs 1 <= min_ngram <= max_ngram <= 512, not min_ngram = 1, max_ngram = 0");
  CHECK_NOTHROW(NgramTableDrafter{{.max_ngram = 512}});
  CHECK(message_of([] { NgramTableDrafter{{.max_ngram = Index{1} << 62}}; }) ==
        "specdec: n-gram table needs 1 <= min_ngram <= max_ngram <= 512, not min_ngram = 1, "
        "max_ngram = 4611686018427387904");
  CHECK_FALSE(message_of([] { NgramTableDrafter{{.max_ngram = 2, .min_ngram = 3}}; }).empty());
  CHECK_FALSE(message_of([] { NgramTableDrafter{{.min_ngram = 0}}; }).empty());
  CHECK(message_of([] { NgramTableDrafter{{.min_count = 0}}; }) ==
        "specdec: n-gram table needs min_count >= 1, not min_count = 0");
  NgramTableDrafter table;
  CHECK(message_of([&] {
          table.learn(Tokens{1, -1});
        }) == "specdec: tokens[1] = -1 is outside the vocabulary 0..2147483647");
  CHECK_FALSE(message_of([&] { table.learn(std::vector<std::int64_t>{1, 2147483648}); }).empty());
  CHECK(table.size() == 0);
  CHECK(message_of([&] {
          table.occurrences(Tokens{1, 2, 3, 4, 5});
        }) == "specdec: n-grams of 1..4 tokens are counted, not of 5");
  CHECK_FALSE(message_of([&] { table.occurrences(Tokens{}); }).empty());
}

}  // namespace test_draft_ngram_table
