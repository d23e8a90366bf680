// Many drafts whose rows lie elsewhere, such as on a GPU: the rules ask, and Python answers for all drafts at once.
// SPDX-License-Identifier: MIT
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <specdec/more/device.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "arrays.hpp"
#include "asked_draft.hpp"
#include "given.hpp"
#include "questions.hpp"
#include "rules.hpp"
#include "verify.hpp"

namespace in_python {

template <>
struct Expected<GreedyBlock*> {
  static std::string words() { return "a GreedyBlock"; }
};

// The rule of each draft. Greedy block verification has an object for each text.
class BatchRule {
 public:
  BatchRule(const py::object& given, bool trees) {
    if (!py::isinstance<py::str>(given)) hold(given);
    else if (trees) held_ = TreeRule::of(given.cast<std::string>());
    else held_ = LineRule::of(given.cast<std::string>());
    if (trees && std::holds_alternative<Texts>(held_))
      refuse("rule: greedy block verification judges no trees");
  }

  void check(Index drafts) const {
    const auto* texts = std::get_if<Texts>(&held_);
    if (texts == nullptr) return;
    check_entries("rule", texts->size(), drafts);
    std::map<const GreedyBlock*, std::size_t> seen;
    for (std::size_t b = 0; b < texts->size(); ++b) {
      if ((*texts)[b] == nullptr) refuse("rule[", b, "] is None, expected a GreedyBlock");
      const auto [elder, is_new] = seen.emplace((*texts)[b], b);
      if (!is_new)
        refuse("rule[", b, "] is the GreedyBlock of rule[", elder->second, "], but each text has its own");
    }
  }
  bool looks_at_draft() const {
    const auto* line = std::get_if<LineRule>(&held_);
    return line == nullptr || line->looks_at_draft();
  }
  const TreeRule& of_trees() const { return std::get<TreeRule>(held_); }
  // The verdict on draft b, a line.
  specdec::Verdict judge(std::size_t b, const auto& draft, auto& chance) const {
    if (const auto* line = std::get_if<LineRule>(&held_)) return line->judge(draft, chance);
    return std::get<Texts>(held_)[b]->rule().judge(draft, chance);
  }
  // The verdict of draft b is there.
  void commit(std::size_t b) const {
    if (const auto* texts = std::get_if<Texts>(&held_)) (*texts)[b]->rule().commit();
  }

 private:
  using Texts = std::vector<GreedyBlock*>;
  void hold(const py::object& texts) {
    py::detail::make_caster<Texts> loaded;
    if (!loaded.load(texts, true)) {
      check_each<GreedyBlock*>("rule", texts);
      throw py::type_error("specdec: rule is " + type_of(texts) +
                           ", expected the name of a rule, or a list of GreedyBlock objects");
    }
    held_ = py::detail::cast_op<Texts>(std::move(loaded));
    kept_ = py::tuple(texts);
  }

  std::variant<LineRule, TreeRule, Texts> held_;
  py::object kept_;  // keeps the texts alive, even if the list of the caller changes
};

// Padded drafts, or drafts one after another with offsets.
class AskingLayout {
 public:
  AskingLayout(const py::object& tokens, const py::object& offsets)
      : tokens_("tokens", tokens, offsets.is_none() ? 2 : 1) {
    if (offsets.is_none()) {
      layout_.emplace<specdec::PaddedDrafts>(tokens_.size(0), tokens_.size(1));
      return;
    }
    offsets_.emplace("offsets", offsets);
    const specdec::PackedDrafts packed(offsets_->view());
    specdec::detail::check_offsets("offsets", offsets_->view(), tokens_.size(0), "tokens");
    layout_ = packed;
  }

  TokenIds tokens() const { return tokens_.view(); }
  const py::array& array() const { return tokens_.array(); }
  decltype(auto) with(const auto& f) const { return std::visit(f, layout_); }
  Index drafts() const {
    return with([](const auto& layout) { return layout.drafts(); });
  }
  specdec::DraftPlace place(std::size_t b) const {
    return with([&](const auto& layout) {
      return specdec::detail::place_of(layout, tokens(), tokens().size(), static_cast<Index>(b));
    });
  }
  // The width of arrays with a column for each token.
  Index longest() const {
    if (!offsets_) return tokens_.size(1);
    Index most = 0;
    for (Index b = 0; b < drafts(); ++b) most = std::max(most, place(static_cast<std::size_t>(b)).gamma);
    return most;
  }

 private:
  Ids tokens_;
  std::optional<Ids> offsets_;
  std::variant<specdec::PaddedDrafts, specdec::PackedDrafts> layout_ = specdec::PaddedDrafts(0, 0);
};

// Many drafts, lines or trees. Python asks for questions(), gives the answer(), and so on until no question is left.
class AskingBatch {
 public:
  AskingBatch(const py::object& rule, const py::object& tokens, const Seeds& seeds,
              const Given<std::vector<std::uint64_t>, "steps">& steps, const py::object& offsets,
              const py::object& parents, const Given<bool, "chosen">& chosen)
      : rule_(rule, !parents.is_none()),
        layout_(tokens, offsets),
        seeds_(seeds),
        steps_(steps),
        chosen_(chosen) {
    rule_.check(layout_.drafts());
    check_entries("seeds", seeds_.size(), layout_.drafts());
    check_entries("steps", steps_.size(), layout_.drafts());
    if (!parents.is_none()) {
      parents_.emplace("parents", parents, offsets.is_none() ? 2 : 1);
      check_same_shape("parents", parents_->array(), "tokens", layout_.array());
    }
    const auto drafts = static_cast<std::size_t>(layout_.drafts());
    lines_.resize(parents_ ? 0 : drafts);
    trees_.resize(parents_ ? drafts : 0);
    inquiries_.resize(drafts);
    done_.resize(drafts);
    for (std::size_t b = 0; b < drafts; ++b)
      attempt(b, [&](const specdec::DraftPlace& here) {
        specdec::detail::check_tokens("tokens", layout_.tokens().segment(here.token, here.gamma),
                                      specdec::detail::most_tokens);
        ask_for_tokens(b, here);
      });
    go_on();
  }

  // The open questions: an array with a row for each, and how many there are of each kind, in this order. None if none is left.
  py::object questions() const {
    if (!any_open()) return py::none();
    constexpr auto kinds = static_cast<std::size_t>(Question::Kind::count);
    std::array<std::vector<const Question*>, kinds> sorted;
    std::size_t all = 0, widest = 0;
    each_open([&](std::size_t, const Question& question) {
      sorted[static_cast<std::size_t>(question.kind)].push_back(&question);
      widest = std::max(widest, question.subtracted.size());
      ++all;
    });
    const auto columns = static_cast<py::ssize_t>(5 + 2 * widest);
    py::array_t<double> numbers({static_cast<py::ssize_t>(all), columns});
    double* row = numbers.mutable_data();
    py::list counts;
    for (const auto& of_kind : sorted) {
      counts.append(of_kind.size());
      for (const Question* question : of_kind) {
        write(*question, row, row + columns);
        row += columns;
      }
    }
    return Answers::get().questions(numbers, counts);
  }

  // A row [token, p, q, mass] for each question.
  void answer(const Given<Numbers, "answers">& answers_of_all) {
    const Numbers& given = answers_of_all;
    Index all = 0;
    each_open([&](std::size_t, const Question&) { ++all; });
    if (given.ndim() != 2 || given.shape(0) != all || given.shape(1) != 4)
      refuse("answers have the shape ", shape_of(given), ", expected (", all, ", 4)");
    for (Index k = 0; k < all; ++k)
      if (const double id = given.at(k, 0); !is_token(id) && id != -1)
        refuse("answers[", k, ", 0] = ", id,
               " is neither a token id nor -1, which says that none could be drawn");
    // questions() sorts by kinds, and keeps the order of drafts in each.
    std::array<const double*, static_cast<std::size_t>(Question::Kind::count)> next{};
    const double* first = given.data();
    for (std::size_t kind = 0; kind < next.size(); ++kind) {
      next[kind] = first;
      each_open([&](std::size_t, const Question& question) {
        if (question.kind == static_cast<Question::Kind>(kind)) first += 4;
      });
    }
    for (auto& inquiry : inquiries_) {
      std::vector<Answer> answers;
      for (const Question& question : inquiry.open()) {
        const double*& row = next[static_cast<std::size_t>(question.kind)];
        answers.push_back({static_cast<Token>(row[0]), row[1], row[2], row[3]});
        row += 4;
      }
      inquiry.answer(answers);
    }
    go_on();
  }

  py::object verdicts() const {
    if (any_open()) refuse("there are questions without an answer");
    py::dict errors;
    const auto collect = [&](const auto& all) {
      for (std::size_t b = 0; b < all.size(); ++b)
        if (all[b].error) errors[py::int_(b)] = what(all[b].error);
    };
    collect(lines_);
    collect(trees_);
    return layout_.with([&](const auto& layout) {
      const Index longest = layout_.longest(), rows = layout_.tokens().size();
      if (parents_) {
        const EmittedArrays arrays(layout_.tokens(), layout, longest, rows, trees_);
        return Answers::get().asking(arrays.accepted, arrays.token, arrays.emitted, errors,
                                     paths_of(trees_, longest));
      }
      const EmittedArrays arrays(layout_.tokens(), layout, longest, rows, lines_);
      return Answers::get().asking(arrays.accepted, arrays.token, arrays.emitted, errors, py::none());
    });
  }

 private:
  bool any_open() const {
    return std::any_of(inquiries_.begin(), inquiries_.end(),
                       [](const auto& each) { return !each.open().empty(); });
  }
  void each_open(const auto& visit) const {
    for (std::size_t b = 0; b < inquiries_.size(); ++b)
      for (const Question& question : inquiries_[b].open()) visit(b, question);
  }
  static void write(const Question& question, double* row, double* end) {
    *row++ = static_cast<double>(question.target);
    *row++ = static_cast<double>(question.draft);
    *row++ = static_cast<double>(question.token);
    *row++ = question.u;
    *row++ = question.w;
    for (const Subtracted& each : question.subtracted) {
      *row++ = static_cast<double>(each.row);
      *row++ = each.b;
    }
    std::fill(row, end, 0.0);
  }
  static bool is_token(double id) { return id >= 0 && id <= 2147483647.0 && id == std::floor(id); }

  // Looks up the tokens of a draft, or calls its rule. It ends with open questions, with a verdict, or with an error, which is
  // this draft's alone.
  void attempt(std::size_t b, const auto& act) {
    const std::exception_ptr error = specdec::detail::error_of([&] {
      try {
        act(layout_.place(b));
      } catch (const Unanswered&) {
      }
    });
    if (!inquiries_[b].open().empty()) return;  // what was found without all answers means nothing
    if (!error) return;
    if (parents_) trees_[b] = {{}, error};
    else lines_[b] = {{}, error};
    done_[b] = true;
  }

  void go_on() {
    for (std::size_t b = 0; b < inquiries_.size(); ++b)
      if (!done_[b] && inquiries_[b].open().empty())
        attempt(b, [&](const specdec::DraftPlace& here) { judge(b, here); });
  }

  // Calls f(draft) with the draft that asks.
  decltype(auto) with_line(std::size_t b, const specdec::DraftPlace& here, const auto& f) {
    const specdec::detail::LineLinks links(here.gamma);
    return f(AskedDraft(links, layout_.tokens().segment(here.token, here.gamma), {here.target, here.draft},
                        chosen_, inquiries_[b]));
  }
  decltype(auto) with_tree(std::size_t b, const specdec::DraftPlace& here, const auto& f) {
    const specdec::detail::TreeLinks links(parents_->view().segment(here.token, here.gamma), here.gamma);
    return f(AskedDraft(links, layout_.tokens().segment(here.token, here.gamma), {here.target, here.draft},
                        chosen_, inquiries_[b]));
  }

  void ask_for_tokens(std::size_t b, const specdec::DraftPlace& here) {
    if (!rule_.looks_at_draft()) return;
    const auto ask = [](const auto& draft) { draft.ask_for_tokens(); };
    if (parents_) with_tree(b, here, ask);
    else with_line(b, here, ask);
  }

  void judge(std::size_t b, const specdec::DraftPlace& here) {
    specdec::device::Fault fault;
    AskedChance chance(specdec::detail::SeededNumbers(seeds_[b]), steps_[b], fault);
    const auto finish = [&] {
      if (!inquiries_[b].open().empty()) throw Unanswered{};
      if (fault.kind != specdec::device::FaultKind::none)
        specdec::detail::invalid_distribution("specdec: a coin has probability nan");
      done_[b] = true;
    };
    if (parents_) {
      with_tree(b, here, [&](const auto& draft) {
        const specdec::NodeVerdict stop = rule_.of_trees().judge(draft, chance);
        finish();
        auto& path = trees_[b].verdict.path;
        for (Index k = stop.node - 1; k >= 0; k = draft.parent(k)) path.push_back(k);
        std::reverse(path.begin(), path.end());
        trees_[b].verdict.token = stop.token;
      });
    } else {
      with_line(b, here, [&](const auto& draft) {
        const specdec::Verdict verdict = rule_.judge(b, draft, chance);
        finish();
        rule_.commit(b);
        lines_[b].verdict = verdict;
      });
    }
  }

  BatchRule rule_;
  AskingLayout layout_;
  std::vector<std::uint64_t> seeds_, steps_;
  bool chosen_;
  std::optional<Ids> parents_;
  std::vector<Inquiry> inquiries_;
  std::vector<bool> done_;
  std::vector<specdec::BatchVerdict> lines_;
  std::vector<specdec::BatchTreeVerdict> trees_;
};

}  // namespace in_python
