// Checks a model against itself, one token at a time: rollbacks, rows, trees, and other texts in the call.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/eigen.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/over_feeds.hpp"
#include "specdec/testing/checked_calls.hpp"
#include "specdec/testing/seen_row.hpp"
#include "specdec/types.hpp"

#ifndef __cpp_exceptions
#error "specdec/testing needs exceptions: compile the tests without -fno-exceptions"
#endif

namespace specdec::inline v0_2_0::testing {

/// How much check_model() does.
struct ModelCheckOptions {
  int rounds = 20;          ///< how many random histories
  int calls = 8;            ///< calls of forward() in each
  Index longest = 24;       ///< the longest context, in tokens; also limited by context_size()
  Index together = 3;       ///< how many sequences a model for many texts serves at a time
  double tolerance = 1e-3;  ///< how far a number of a row may be off
  std::uint64_t seed = 1;   ///< of tokens and histories
};

/// What check_model() has found.
struct ModelReport {
  bool right = true;
  std::string complaint = {};  ///< the first mistake, in words; empty if there is none
  Index rows = 0;              ///< how many rows were compared
  double difference = 0;       ///< the largest difference of what should be equal, in rows that passed
  /// How many of the rows differ by more than the tolerance from the row one token earlier. If none does, no mistake could
  /// have been seen: the rows are flat, or depend on no token.
  Index telling = 0;
  /// Whether a row differed by more than the tolerance from the row that a rollback that does nothing would have given.
  bool shows_rollback = false;

  explicit operator bool() const { return right; }

  friend std::ostream& operator<<(std::ostream& out, const ModelReport& report) {
    if (!report.right) return out << "wrong: " << report.complaint;
    out << "right in " << report.rows << " rows, worst difference " << report.difference;
    if (report.telling == 0)
      out << ", but no row differs from the row one token earlier by more than the tolerance: a mistake "
             "would not have been seen";
    else if (!report.shows_rollback) out << ", but no row would have shown a rollback that does nothing";
    return out;
  }
};

namespace detail {

/// A mistake that was found. It ends the check.
struct Complaint : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class M>
class ModelCheck {
  static constexpr bool one_text = CheckedCalls<M>::one_text;
  static constexpr const char* cut_back = one_text ? "truncate(length)" : "keep(sequence, length)";
  static constexpr bool trees = takes_trees<M>;

 public:
  ModelCheck(M& model, const ModelCheckOptions& options)
      : model_(model),
        options_(options),
        longest_(std::min(options.longest, context_size(model))),
        reach_(specdec::detail::goes_back_anywhere<M> ? unlimited : reach(model)),
        most_open_(reach(model)),
        random_(options.seed) {}

  ModelReport report() {
    ModelReport out;
    tell(out, [&] {
      if (longest_ < 1) complain("context_size() = ", longest_, " leaves no room for a token");
      begins_empty();
      rows_follow_their_tokens();
      for (int round = 0; round < options_.rounds; ++round) {
        if (round == options_.rounds / 2) longer_lengths_do_nothing();
        write_history();
        compare(out);
      }
    });
    tell(out, [&] { empty(); });
    return out;
  }

 private:
  using Row = Eigen::RowVectorXd;

  // Calls f(). Its mistake is reported, unless there is one already.
  template <class F>
  static void tell(ModelReport& report, const F& f) {
    std::string complaint;
    try {
      return f();
    } catch (const Complaint& mistake) {
      complaint = mistake.what();
    } catch (const std::exception& error) {
      complaint = specdec::detail::message("a call that is allowed throws: ", error.what());
    }
    if (report.right) report.complaint = complaint;
    report.right = false;
  }

  template <class... Parts>
  [[noreturn]] static void complain(const Parts&... parts) {
    throw Complaint(specdec::detail::message(parts...));
  }

  Index below(Index end) { return static_cast<Index>(uniform01(random_) * static_cast<double>(end)); }
  bool coin() { return below(2) == 0; }
  Token any_token() { return static_cast<Token>(below(model_.vocab_size())); }
  std::vector<Token> any_text(Index length) {
    std::vector<Token> text(static_cast<std::size_t>(length));
    for (Token& x : text) x = any_token();
    return text;
  }

  void empty() {
    for (const CheckedSequence& sequence : sequences_) model_.release(sequence);
    sequences_.clear();
    model_.empty();
  }

  bool equal(const Row& a, const Row& b) const { return difference_of_rows(a, b) <= options_.tolerance; }

  // ---- The measure itself ----

  // A text that is fed twice gives the same rows, whatever was fed in between.
  void begins_empty() {
    const std::vector<Token> text = any_text(std::min<Index>(longest_, 6));
    const std::vector<Row> first = model_.rows_alone(text);
    for (const Row& row : first)
      if (row.hasNaN()) complain("a row holds nan");
    model_.rows_alone(any_text(std::min<Index>(longest_, 5)));
    const std::vector<Row> again = model_.rows_alone(text);
    for (std::size_t i = 0; i < text.size(); ++i)
      if (!equal(first[i], again[i]))
        complain("a text that is fed twice, token by token, has another row after its token ", i,
                 " the second time: ",
                 one_text ? "truncate(0) does not empty the context, or it was not empty at first"
                          : "a new sequence does not begin with an empty context",
                 ", or the model is not deterministic");
  }

  // Rows that depend on the token before the last, and never on the last, stand one place too early.
  void rows_follow_their_tokens() {
    if (longest_ < 3 || model_.vocab_size() < 2) return;
    bool last_matters = false, one_before_matters = false;
    for (int n = 0; n < 32 && !last_matters; ++n) {  // the first text is enough for most models
      const std::vector<Token> text = any_text(3);
      std::vector<Token> other_last = text, other_before = text;
      other_last[2] = other(text[2]);
      other_before[1] = other(text[1]);
      const Row row = model_.rows_alone(text).back();
      last_matters = !equal(row, model_.rows_alone(other_last).back());
      one_before_matters = one_before_matters || !equal(row, model_.rows_alone(other_before).back());
    }
    if (one_before_matters && !last_matters)
      complain(
          "the row after a token never depends on that token, but on the one before it: rows are off by one");
  }
  Token other(Token x) {
    return static_cast<Token>((x + 1 + below(model_.vocab_size() - 1)) % model_.vocab_size());
  }

  // A rollback to a length that the context does not exceed. Until here the model was asked for none, so a mistake in it hides no
  // other mistake, and is told in its own words.
  void longer_lengths_do_nothing() {
    rolls_forward_ = true;
    for (const Index size : {Index{0}, std::min<Index>(longest_ - 1, 3)})
      for (const Index length : {size, size + 2}) {
        const std::vector<Token> text = any_text(size + 1);
        const CheckedSequence sequence = model_.fresh();
        const auto end = static_cast<std::size_t>(size);
        for (std::size_t i = 0; i < end; ++i) model_.feed_one(sequence, text, i);
        const auto wrong = [&](const auto&... does) {
          complain(cut_back, " with length = ", length, does..., " a context of ", size,
                   " tokens: it must do nothing if the context is not longer");
        };
        try {
          model_.keep(sequence.number, length);
        } catch (const std::exception& error) {
          wrong(" throws \"", error.what(), "\" on");
        }
        const Row row = model_.feed_one(sequence, text, end);
        model_.release(sequence);
        if (!equal(row, model_.expected(text))) wrong(" changes");
      }
  }

  // ---- Histories ----

  // Some calls for some sequences, with rollbacks in between. Keeps the rows.
  void write_history() {
    empty();
    seen_.clear();
    model_.forget_expected();
    for (Index k = 0; k < (one_text ? 1 : options_.together); ++k) sequences_.push_back(model_.fresh());
    for (int call = 0; call < options_.calls; ++call) {
      for (CheckedSequence& sequence : sequences_) roll_back(sequence);
      feed_some();
    }
  }

  // Cuts off nothing, a few tokens or many; now and then a number begins another sequence. Most open trees stay open.
  void roll_back(CheckedSequence& sequence) {
    if (sequence.open() > 0 && below(4) > 0) return;
    if (!one_text && below(12) == 0) {
      model_.release(sequence);
      sequence = {.number = sequence.number};
      return;
    }
    const Index room = longest_ - sequence.size();
    Index length = sequence.size() + (coin() ? -below(4) : below(3));  // a longer one does nothing
    if (room < 4 || below(8) == 0) length = below(sequence.size() + 1);
    if (!is_within_reach(sequence, length) && coin()) length = sequence.longest - reach_;
    cut(sequence, std::max<Index>(length, 0));
  }
  // Beyond its reach a context can only be emptied.
  bool is_within_reach(const CheckedSequence& sequence, Index length) const {
    return sequence.longest - std::min(length, sequence.size()) <= reach_;
  }
  void cut(CheckedSequence& sequence, Index length) {
    if (!is_within_reach(sequence, length)) length = 0;
    if (!rolls_forward_) length = std::min(length, sequence.size());
    if (!rolls_forward_ && length == sequence.size() && sequence.open() == 0) return;
    model_.keep(sequence.number, length);
    sequence.keep(length);
  }

  // One call, with a feed for one sequence or for several: lines, trees, and trees that grow.
  void feed_some() {
    const auto room = [&](const CheckedSequence& sequence) {
      const Index open = sequence.open();
      return std::min(longest_ - sequence.size() - open, open > 0 ? most_open_ - open : unlimited);
    };
    std::vector<Task> tasks;
    for (CheckedSequence& sequence : sequences_)
      if (room(sequence) > 0 && (tasks.empty() || coin())) tasks.push_back({&sequence});
    if (tasks.empty())
      for (CheckedSequence& sequence : sequences_) cut(sequence, sequence.size());
    for (Task& task : tasks) {
      const Index size = 1 + below(std::min<Index>(6, room(*task.sequence))), open = task.sequence->open();
      task.tokens = any_text(size);
      if (trees && (open > 0 || (size <= most_open_ && coin())))
        for (Index n = 0; n < size; ++n) task.parents.push_back(below(open + n + 1) - 1);
    }
    if (!tasks.empty()) call_model(tasks);
  }

  // What a sequence is fed.
  struct Task {
    CheckedSequence* sequence;
    std::vector<Token> tokens = {};
    std::vector<Index> parents = {};  // none: a line
  };
  void call_model(const std::vector<Task>& tasks) {
    std::vector<BatchFeed> feeds;
    for (const auto& [sequence, tokens, parents] : tasks) {
      const Index size = std::ssize(tokens), least = one_text ? 1 : 0, rows = least + below(size + 1 - least);
      feeds.push_back({{tokens, sequence->size(), rows, parents}, sequence->number});
    }
    const std::vector<Row> rows = model_.forward(feeds);
    std::size_t next = 0;
    for (std::size_t f = 0; f < tasks.size(); ++f) {
      const Task& task = tasks[f];
      CheckedSequence& sequence = *task.sequence;
      const Index size = std::ssize(task.tokens), open = sequence.open();
      sequence.longest = std::max(sequence.longest, sequence.size() + open + size);
      sequence.tree.append(task.tokens, task.parents);
      for (Index place = size - feeds[f].rows; place < size; ++place)
        see(sequence, feeds[f], open, place, rows[next++], std::ssize(feeds));
      if (task.parents.empty()) sequence.append(sequence.way_to(size - 1));
      else if (below(3) > 0) keep_a_path(sequence);
    }
  }

  void see(const CheckedSequence& sequence, const BatchFeed& feed, Index open, Index place, const Row& row,
           Index together) {
    SeenRow seen{.context = sequence.context,
                 .uncut = sequence.uncut,
                 .line = sequence.context,
                 .feed = {feed.tokens.begin(), feed.tokens.end()},
                 .branches = !feed.parents.empty(),
                 .kept_path = sequence.kept_path,
                 .cached = sequence.size(),
                 .open = open,
                 .place = place,
                 .together = together,
                 .row = row};
    for (const Index k : sequence.way_to(open + place)) {
      seen.context.push_back(sequence.tree.token(k));
      seen.uncut.push_back(sequence.tree.token(k));
    }
    specdec::detail::append(seen.line, specdec::detail::first(sequence.tree.tokens(), open + place + 1));
    seen_.push_back(std::move(seen));
  }

  void keep_a_path(CheckedSequence& sequence) {
    if constexpr (trees) {
      const std::vector<Index> path = sequence.way_to(below(sequence.open() + 1) - 1);
      if (path.empty() || sequence.longest - sequence.size() - std::ssize(path) > reach_)
        return cut(sequence, sequence.size());  // nothing of the tree is kept
      model_.keep(sequence.number, std::span<const Index>(path));
      sequence.append(path);
      sequence.kept_path = true;
    }
  }

  // ---- What is wrong ----

  // Complains of the wrong row that tells most: one that a known mistake explains, or one from the simplest call.
  void compare(ModelReport& report) {
    const std::vector<SeenRow> all = std::move(seen_);
    std::vector<const SeenRow*> wrong;
    for (const SeenRow& seen : all) {
      const double difference = difference_of_rows(seen.row, model_.expected(seen.context));
      if (difference <= options_.tolerance) report.difference = std::max(report.difference, difference);
      else wrong.push_back(&seen);
      ++report.rows;
      see_what_tells(seen, report);
    }
    for (const SeenRow* seen : wrong)
      if (const std::string mistake = mistake_of(*seen); !mistake.empty()) complain(where(*seen), mistake);
    if (wrong.empty()) return;
    const SeenRow& simplest = **std::min_element(
        wrong.begin(), wrong.end(),
        [](const SeenRow* a, const SeenRow* b) { return a->circumstances() < b->circumstances(); });
    complain(where(simplest), simplest.suspicions(cut_back));
  }

  // What a mistake would have changed: a model of flat rows passes whatever it does.
  void see_what_tells(const SeenRow& seen, ModelReport& report) {
    const auto differs = [&](const std::vector<Token>& context) {
      return !equal(model_.expected(seen.context), model_.expected(context));
    };
    if (seen.context.size() > 1 && differs({seen.context.begin(), seen.context.end() - 1})) ++report.telling;
    if (!report.shows_rollback && seen.is_cut() && std::ssize(seen.uncut) <= longest_)
      report.shows_rollback = differs(seen.uncut);
  }

  std::string where(const SeenRow& seen) {
    const std::string tree =
        seen.open == 0 ? "" : specdec::detail::message(" and ", seen.open, " of an open tree");
    return specdec::detail::message("the row after token ", seen.place, " of ", seen.feed.size(),
                                    " fed after ", seen.cached, " cached ones", tree, " is off by ",
                                    difference_of_rows(seen.row, model_.expected(seen.context)), ": ");
  }

  // The known mistake that gives exactly this row; empty if there is none.
  std::string mistake_of(const SeenRow& seen) {
    const auto is = [&](const std::vector<Token>& context) {
      return !context.empty() && equal(seen.row, model_.expected(context));
    };
    if (seen.row.hasNaN()) return "it holds nan";
    if (is({seen.context.begin(), seen.context.end() - 1})) return "it is the row one token earlier";
    if (seen.is_cut() && is(seen.uncut))
      return specdec::detail::message("it is the row of the context with the tokens that ", cut_back,
                                      " should have cut off");
    if (seen.line != seen.context && is(seen.line))
      return "it is the row of the tree's tokens read as a line: parents are ignored";
    if (seen.together > 1 && seen.circumstances() == 0 &&
        equal(row_without_company(seen), model_.expected(seen.context)))
      return specdec::detail::message("it depends on other sequences: the call had ", seen.together,
                                      " feeds, and alone the row is right");
    return {};
  }

  // The row from the same call, if it has no other feeds.
  Row row_without_company(const SeenRow& seen) {
    const CheckedSequence sequence = model_.fresh();
    const std::span<const Token> prompt = specdec::detail::first(seen.context, seen.cached);
    const Index rows = std::ssize(seen.feed) - seen.place;
    const BatchFeed before{{.tokens = prompt, .from = 0, .rows = 1}, sequence.number};
    const BatchFeed feed{{.tokens = seen.feed, .from = seen.cached, .rows = rows}, sequence.number};
    if (!prompt.empty()) model_.forward(std::span(&before, 1));
    Row row = model_.forward(std::span(&feed, 1)).front();
    model_.release(sequence);
    return row;
  }

  CheckedCalls<M> model_;
  ModelCheckOptions options_;
  Index longest_;
  Index reach_, most_open_;     // the most tokens that a context is cut back by, and that a tree has
  bool rolls_forward_ = false;  // whether the model is asked for lengths that its context does not exceed
  SplitMix64 random_;
  std::vector<CheckedSequence> sequences_ = {};
  std::vector<SeenRow> seen_ = {};
};

}  // namespace detail

/// Checks a model, for one text or for many, before anything is built on it. Random histories of calls, rollbacks, trees
/// (if the model takes trees) and other sequences in a call (if it serves many) must give the rows that the model gives when
/// a text is fed alone, one token at a time. Each of the mistakes that it convicts writes plausible text: a rollback that does
/// nothing, a stale cache, rows that are off by one, a tree that is read as a line, rows that depend on the rest of the call.
/// From the middle on it also asks for rollbacks of contexts that are not longer, which must do nothing.
///
///   std::cout << specdec::testing::check_model(model) << "\n";
///
/// A mistake shows only where it changes a row by more than the tolerance. If no row could have shown one (a large vocabulary
/// with flat rows of probabilities: let the model return logits, or set a smaller tolerance), the report says so. A complaint
/// about a row names the likeliest mistake. A model whose rows never depend on the last token of the text is taken for one whose
/// rows are off by one. A model with a reach() is cut back within it, and emptied; what it says is checked. Rows may be
/// probabilities or logits; set the tolerance for the numbers that it returns. Its contexts must be empty, and are left empty.
/// Throws: InvalidArgument if an option is out of range. A model that throws is reported.
/// Cost: some hundred calls for each round with the default options, most of them over one token. Memory for the rows of a round.
/// Example: examples/prove/check_my_model.cpp
template <class M>
ModelReport check_model(M& model, const ModelCheckOptions& options = {}) {
  static_assert(specdec::detail::can_be_wrapped<M, false>());
  using specdec::detail::invalid_argument;
  if (options.rounds < 1) invalid_argument("rounds = ", options.rounds, " is below 1");
  if (options.calls < 1) invalid_argument("calls = ", options.calls, " is below 1");
  if (options.longest < 1) invalid_argument("longest = ", options.longest, " is below 1");
  if (options.together < 1) invalid_argument("together = ", options.together, " is below 1");
  if (!(options.tolerance >= 0)) invalid_argument("tolerance = ", options.tolerance, " is no number >= 0");
  return detail::ModelCheck<M>(model, options).report();
}

}  // namespace specdec::testing
