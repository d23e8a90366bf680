// The rules, called on arrays of Python.
// SPDX-License-Identifier: MIT
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <specdec/more/analysis.hpp>
#include <specdec/more/device/addressed_chance.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "given.hpp"
#include "rules.hpp"

namespace in_python {

using specdec::Philox;

// The answers of the module are tuples with names. `offset` is the offset for the next call with this seed.
inline py::object named_tuple(const char* type, const char* fields) {
  py::object made = py::module_::import("collections").attr("namedtuple")(type, fields);
  made.attr("__module__") = "specdec";
  return made;
}

// The types live as long as the interpreter.
struct Answers {
  py::object verdict = named_tuple("Verdict", "accepted token offset");
  py::object tree = named_tuple("TreeVerdict", "path token offset");
  py::object batch = named_tuple("BatchVerdict", "accepted token emitted offsets errors");
  py::object asking = named_tuple("AskingVerdict", "accepted token emitted errors path");
  py::object questions = named_tuple("Questions", "numbers counts");
  py::object batch_of_trees = named_tuple("BatchTreeVerdict", "accepted token emitted offsets errors path");

  static const Answers& get() {
    static const Answers* const answers = new Answers;
    return *answers;
  }
};

// Calls judge(source). Without a step, the random numbers are those of a generator, from `offset` on. With one they stand at
// addresses, and the offset stays. Returns the verdict and the offset to go on with.
auto judged_by_chance(std::uint64_t seed, std::uint64_t offset, const Step& step, const auto& judge) {
  if (step.value) {
    specdec::AddressedChance chance(seed, *step.value);
    return std::pair(judge(chance), offset);
  }
  Philox source(seed, offset);
  auto verdict = judge(source);
  return std::pair(std::move(verdict), source.offset());
}

// Calls a rule for lines.
inline py::object judged(auto& rule, bool looks_at_draft, const py::object& target, const py::object& draft,
                         const py::object& tokens, const Seed& seed, const Offset& offset,
                         const Temperature& temperature, const Step& step) {
  const Ids ids("tokens", tokens);
  const Rows p("target", target, temperature);
  const DraftRows q(draft, ids, looks_at_draft, temperature);
  const auto [verdict, next] = judged_by_chance(seed, offset, step, [&](auto& source) {
    return specdec::verify(rule, p.view(), q.view(), ids.view(), source);
  });
  return Answers::get().verdict(verdict.accepted, verdict.token, next);
}

inline py::object verify(const Rule& name, const py::object& target, const py::object& draft,
                         const py::object& tokens, const Seed& seed, const Offset& offset,
                         const Temperature& temperature, const Step& step) {
  const LineRule rule = LineRule::of(name);
  return judged(rule, rule.looks_at_draft(), target, draft, tokens, seed, offset, temperature, step);
}

inline py::object verify_tree(const Rule& name, const py::object& target, const py::object& draft,
                              const py::object& tokens, const py::object& parents, const Seed& seed,
                              const Offset& offset, const Temperature& temperature, const Step& step) {
  const TreeRule rule = TreeRule::of(name);
  const Ids ids("tokens", tokens), links("parents", parents);
  const Rows p("target", target, temperature);
  const DraftRows q(draft, ids, true, temperature);
  const auto [verdict, next] = judged_by_chance(seed, offset, step, [&](auto& source) {
    return specdec::verify(rule, p.view(), q.view(), ids.view(), links.view(), source);
  });
  py::list path;
  for (const Index k : verdict.path) path.append(k);
  return Answers::get().tree(path, verdict.token, next);
}

// Greedy block verification of one text, which it remembers.
class GreedyBlock {
 public:
  py::object verify(const py::object& target, const py::object& draft, const py::object& tokens,
                    const Seed& seed, const Offset& offset, const Temperature& temperature,
                    const Step& step) {
    return judged(rule_, true, target, draft, tokens, seed, offset, temperature, step);
  }
  specdec::GreedyBlockVerifier& rule() { return rule_; }
  Index min_draft_length() const { return rule_.min_draft_length(); }

 private:
  specdec::GreedyBlockVerifier rule_;
};

inline std::string what(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& told) {
    return told.what();
  }
}

inline void check_entries(const char* name, std::size_t entries, Index drafts) {
  if (static_cast<Index>(entries) != drafts)
    refuse(name, " has ", entries, " entries for ", drafts, " drafts");
}

// The verdicts of a batch as arrays. `longest` is the length of the longest draft.
struct EmittedArrays {
  py::array_t<std::int64_t> emitted, accepted, token;

  EmittedArrays(TokenIds tokens, const auto& layout, Index longest, Index draft_rows, const auto& verdicts)
      : emitted({layout.drafts(), longest + 1}), accepted(layout.drafts()), token(layout.drafts()) {
    const auto numbers = [](auto& array) {
      return std::span<std::int64_t>(array.mutable_data(), static_cast<std::size_t>(array.size()));
    };
    specdec::write_emitted(tokens, layout, draft_rows, verdicts, numbers(emitted), numbers(accepted));
    for (std::size_t i = 0; i < verdicts.size(); ++i)
      numbers(token)[i] = verdicts[i].error ? -1 : verdicts[i].verdict.token;
  }
};

// The paths of trees, padded with −1.
inline py::array_t<std::int64_t> paths_of(const std::vector<specdec::BatchTreeVerdict>& verdicts,
                                          Index longest) {
  py::array_t<std::int64_t> padded({static_cast<Index>(verdicts.size()), longest});
  std::int64_t* row = padded.mutable_data();
  std::fill_n(row, padded.size(), -1);
  for (const auto& found : verdicts) {
    std::copy(found.verdict.path.begin(), found.verdict.path.end(), row);
    row += longest;
  }
  return padded;
}

// A rule for each draft, from one name for all, or a list of names.
template <class Judging>
std::vector<Judging> rules_for(Index drafts, const py::object& given) {
  if (py::isinstance<py::str>(given))
    return std::vector<Judging>(static_cast<std::size_t>(drafts), Judging::of(given.cast<std::string>()));
  py::detail::make_caster<std::vector<std::string>> names;
  if (!names.load(given, true)) {
    check_each<std::string>("rule", given);
    throw py::type_error("specdec: rule is " + type_of(given) +
                         ", expected a str, or a list with a str for each draft");
  }
  std::vector<Judging> rules;
  for (const std::string& name : py::detail::cast_op<std::vector<std::string>>(std::move(names)))
    rules.push_back(Judging::of(name, entry_of("rule", rules.size())));
  check_entries("rule", rules.size(), drafts);
  return rules;
}

// None, a number for all drafts, or a list with a number for each.
inline Temperatures temperatures_for(Index drafts, const py::object& given) {
  if (given.is_none()) return {};
  refuse_masked("temperature", given);
  check_each<double>("temperature", given);  // numpy reads a str as a number, and names no entry
  const auto numbers =
      py::isinstance<py::str>(given) ? py::reinterpret_steal<Numbers>(py::handle()) : Numbers::ensure(given);
  if (!numbers || numbers.ndim() > 1)
    throw py::type_error("specdec: temperature is " + type_of(given) +
                         ", expected None, a number, or a list with a number for each draft");
  const Temperatures temperatures(numbers.data(), numbers.data() + numbers.size());
  if (numbers.ndim() == 0) return temperatures;
  check_entries("temperature", temperatures.size(), drafts);
  return temperatures;
}

// Draft rows of drafts with rules of their own. A rule that does not look at them has one-hot rows: what stands there may be anything.
template <class Judging>
class DraftRowsByRule {
 public:
  DraftRowsByRule(const DraftRows& rows, std::span<const Judging> rules, Index rows_of_draft)
      : rows_(&rows), rules_(rules), rows_of_draft_(rows_of_draft) {}

  Index rows() const { return rows_->view().rows(); }
  Index vocab_size() const { return rows_->view().vocab_size(); }
  auto row(Index i) const {
    const bool looks = rules_[static_cast<std::size_t>(i / rows_of_draft_)].looks_at_draft();
    return (looks ? rows_->view() : rows_->one_hot()).row(i);
  }

 private:
  const DraftRows* rows_;
  std::span<const Judging> rules_;
  Index rows_of_draft_;
};

// Many drafts, padded to one length: see specdec::PaddedDrafts. They are trees if the rules are for trees.
template <class Judging>
class PaddedBatch {
  static constexpr bool of_trees = std::same_as<Judging, TreeRule>;
  using Found = std::conditional_t<of_trees, specdec::BatchTreeVerdict, specdec::BatchVerdict>;

 public:
  // `parents` is None for lines.
  PaddedBatch(const py::object& rule, const py::object& target, const py::object& draft,
              const py::object& tokens, const py::object& parents, const py::object& temperature)
      : tokens_("tokens", tokens, 2),
        rules_(rules_for<Judging>(tokens_.size(0), rule)),
        temperatures_(temperatures_for(tokens_.size(0), temperature)),
        target_("target", target, temperatures_, 3),
        draft_(draft, tokens_, std::ranges::any_of(rules_, &Judging::looks_at_draft), temperatures_, 3),
        layout_(tokens_.size(0), tokens_.size(1)),
        verdicts_(static_cast<std::size_t>(tokens_.size(0))) {
    check_shape("target", target_, tokens_.size(1) + 1);
    if (draft_.array()) check_shape("draft", *draft_.array(), tokens_.size(1));
    if constexpr (of_trees) {
      parents_.emplace("parents", parents, 2);
      check_same_shape("parents", parents_->array(), "tokens", tokens_.array());
    }
  }

  py::object judge(const std::vector<std::uint64_t>& seeds, std::vector<std::uint64_t> offsets) {
    check_entries("seeds", seeds.size(), layout_.drafts());
    if (offsets.empty()) offsets.assign(seeds.size(), 0);
    check_entries("offsets", offsets.size(), layout_.drafts());
    std::vector<Philox> sources;
    for (std::size_t i = 0; i < seeds.size(); ++i) sources.emplace_back(seeds[i], offsets[i]);
    {
      const py::gil_scoped_release others_may_run;
      const std::span verdicts(verdicts_);
      const std::span<const Judging> rules(rules_);
      const DraftRowsByRule draft(draft_, rules, tokens_.size(1));
      if constexpr (of_trees)
        specdec::verify_batch(rules, target_.view(), draft, tokens_.view(), parents_->view(), layout_,
                              sources, verdicts);
      else specdec::verify_batch(rules, target_.view(), draft, tokens_.view(), layout_, sources, verdicts);
    }
    py::dict errors;
    for (std::size_t i = 0; i < verdicts_.size(); ++i)
      if (verdicts_[i].error) errors[py::int_(i)] = what(verdicts_[i].error);
      else offsets[i] = sources[i].offset();
    return answer(offsets, errors);
  }

 private:
  void check_shape(const char* name, const Rows& rows, Index each) const {
    if (rows.size(0) != tokens_.size(0) || rows.size(1) != each)
      refuse(name, " has the shape ", rows.shape(), ", expected (", tokens_.size(0), ", ", each,
             ", V), as tokens have the shape (", tokens_.size(0), ", ", tokens_.size(1), ")");
  }

  py::object answer(const std::vector<std::uint64_t>& offsets, const py::dict& errors) const {
    const EmittedArrays arrays(tokens_.view(), layout_, tokens_.size(1), draft_.view().rows(), verdicts_);
    const py::array_t<std::uint64_t> go_on(static_cast<py::ssize_t>(offsets.size()), offsets.data());
    if constexpr (of_trees)
      return Answers::get().batch_of_trees(arrays.accepted, arrays.token, arrays.emitted, go_on, errors,
                                           paths_of(verdicts_, tokens_.size(1)));
    else return Answers::get().batch(arrays.accepted, arrays.token, arrays.emitted, go_on, errors);
  }

  Ids tokens_;
  std::vector<Judging> rules_;
  Temperatures temperatures_;
  std::optional<Ids> parents_;
  Rows target_;
  DraftRows draft_;
  specdec::PaddedDrafts layout_;
  std::vector<Found> verdicts_;
};

// P(τ > i | x_1..x_{i+1}) along a draft.
inline py::array_t<double> survival(const Rule& name, const py::object& target, const py::object& draft,
                                    const py::object& tokens, const Temperature& temperature) {
  const Ids ids("tokens", tokens);
  const Rows p("target", target, temperature);
  const DraftRows q(draft, ids, true, temperature);
  const specdec::Survival found = with_product_rule(name, [&](const auto& rule) {
    return specdec::survival_of_draft(rule, p.view(), q.view(), ids.view());
  });
  return py::array_t<double>(static_cast<py::ssize_t>(found.beyond.size()), found.beyond.data());
}

// Bounds of E[τ] if every position has these two rows. For the token rule both are the very number.
inline std::pair<double, double> expected_accepted(const Rule& name, const py::object& target,
                                                   const py::object& draft,
                                                   const Given<Index, "gamma">& gamma,
                                                   const Temperature& temperature) {
  const Rows rows_p("target", target, temperature, 1), rows_q("draft", draft, temperature, 1);
  const auto p = rows_p.view().row(0), q = rows_q.view().row(0);
  const double cell =
      p.vocab_size() <= 256 ? 1. / 1024 : 1. / 64;  // how close the bounds are: small rows cost little
  return with_product_rule(name, [&](const auto& rule) -> std::pair<double, double> {
    if constexpr (std::same_as<decltype(rule), const specdec::TokenVerifier&>) {
      const double exact = specdec::context_free_survival(rule, p, q, gamma).expected_accepted();
      return {exact, exact};
    } else {
      const auto bounds = specdec::context_free_survival_bounds(rule, p, q, gamma, cell);
      return {bounds.lower.expected_accepted(), bounds.upper.expected_accepted()};
    }
  });
}

}  // namespace in_python
