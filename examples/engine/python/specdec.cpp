// The Python module specdec: rules, the check of a sampler, the audits of a drafter and of texts. Numbers of numpy and of PyTorch are read
// where they lie.
// SPDX-License-Identifier: MIT
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <specdec/more/audits.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "asking_batch.hpp"
#include "given.hpp"
#include "python_sampler.hpp"
#include "verify.hpp"

namespace py = pybind11;
using namespace py::literals;
using namespace in_python;
using specdec::testing::DraftAudit, specdec::testing::DraftAuditReport;
using specdec::testing::TextAudit, specdec::testing::TextAuditReport;

std::string printed(const auto& object) {
  std::ostringstream text;
  text << object;
  return text.str();
}

void add_to_audit(DraftAudit& audit, const py::object& rows, const py::object& tokens,
                  const Temperature& temperature) {
  const Rows reported("rows", rows, temperature);
  const Ids ids("tokens", tokens);
  if (reported.size(0) != ids.size(0))
    refuse("rows has ", reported.size(0), " rows for ", ids.size(0), " tokens");
  std::vector<Token> drafted;
  for (Index i = 0; i < ids.size(0); ++i)  // what is no Token is -1, which has probability 0 in any row
    drafted.push_back(std::in_range<Token>(ids.view()[i]) ? static_cast<Token>(ids.view()[i]) : Token{-1});
  audit.add(reported.view(), drafted);
}

// Rows [n, V] and tokens [n], or a padded batch of both.
void add_text(TextAudit& audit, const py::object& rows, const py::object& tokens,
              const py::object& references, const Temperature& temperature,
              const Given<std::optional<double>, "reference_temperature">& reference_temperature) {
  const bool batch = py::hasattr(tokens, "shape") && py::len(tokens.attr("shape")) == 2;
  const Index dimensions = batch ? 2 : 1;
  const Ids ids("tokens", tokens, dimensions);
  const Rows target("rows", rows, temperature, dimensions + 1);
  std::optional<Rows> beside;
  if (!references.is_none())
    beside.emplace("references", references,
                   reference_temperature.value ? reference_temperature.value : temperature.value,
                   dimensions + 1);
  for (Index k = 0; k < dimensions; ++k) {
    if (target.size(k) != ids.size(k))
      refuse("rows has ", target.size(k), " entries in dimension ", k, ", tokens has ", ids.size(k));
    if (beside && beside->size(k) != ids.size(k))
      refuse("references has ", beside->size(k), " entries in dimension ", k, ", tokens has ", ids.size(k));
  }
  for (Index i = 0; i < ids.view().size(); ++i) {
    if (dimensions == 2 && ids.view()[i] < 0) continue;  // padding
    const Token x = std::in_range<Token>(ids.view()[i]) ? static_cast<Token>(ids.view()[i]) : Token{-1};
    if (beside) audit.add(target.view().row(i), x, beside->view().row(i));
    else audit.add(target.view().row(i), x);
  }
}

void add_numbers(TextAudit& audit, const Given<Numbers, "p">& ps, const Given<Numbers, "r">& rs) {
  const Numbers &p = ps, &r = rs;
  check_same_shape("r", r, "p", p);
  for (Index i = 0; i < p.size(); ++i) audit.add(p.data()[i], r.data()[i]);
}

void add_rules(py::module_& module) {
  module.def("verify", verify, "rule"_a, "target"_a, "draft"_a, "tokens"_a, "seed"_a, "offset"_a = 0,
             py::kw_only(), "temperature"_a = py::none(), "step"_a = py::none(),
             R"(Judges a draft: returns (accepted, token, offset).

rule         'token', 'block', 'argmax' or 'sample-match'
target       [gamma + 1, V], float32 or float64: row i is the target's distribution after i drafted tokens
draft        [gamma, V]: row i is the distribution that tokens[i] was drawn from. None: tokens that were chosen, q = 1
tokens       [gamma], int32 or int64
seed, offset of the generator Philox4x32-10. The returned offset is the one to go on with
temperature  None: rows are probabilities. A number: rows are logits, p = softmax(logits / temperature)
step         None: the random numbers are the generator's, from offset on. A number: each decision of this step has random
             numbers of its own, and offset is not used. Then the verdict is an AskingBatch's, as far as sums round alike)");

  module.def("verify_tree", verify_tree, "rule"_a, "target"_a, "draft"_a, "tokens"_a, "parents"_a, "seed"_a,
             "offset"_a = 0, py::kw_only(), "temperature"_a = py::none(), "step"_a = py::none(),
             R"(Judges a tree of drafts: returns (path, token, offset).

rule     'traversal', 'recursive-rejection' or 'k-seq'
target   [n + 1, V]: row 0 after the context, row k + 1 after tokens[k]
draft    [n, V]: row k is what tokens[k] was drawn from, given its elder siblings. None: all tokens were chosen
parents  [n]: tokens[k] follows tokens[parents[k]], or the context if parents[k] is -1
path     the numbers of the accepted tokens, from the context outward)");

  module.def(
      "verify_batch",
      [](const py::object& rule, const py::object& target, const py::object& draft, const py::object& tokens,
         const Seeds& seeds, const Given<std::vector<std::uint64_t>, "offsets">& offsets,
         const py::object& parents, const py::object& temperature) {
        const auto judged = [&](auto batch) { return batch.judge(seeds, offsets); };
        if (parents.is_none())
          return judged(PaddedBatch<LineRule>(rule, target, draft, tokens, parents, temperature));
        return judged(PaddedBatch<TreeRule>(rule, target, draft, tokens, parents, temperature));
      },
      "rule"_a, "target"_a, "draft"_a, "tokens"_a, "seeds"_a, "offsets"_a = std::vector<std::uint64_t>{},
      py::kw_only(), "parents"_a = py::none(), "temperature"_a = py::none(),
      R"(Judges many drafts: returns (accepted, token, emitted, offsets, errors), and for trees their path.

rule     a rule for lines; for trees, one for trees. Or a list with a rule for each draft
tokens   [B, n]. A draft ends before its first negative id, and has only negative ids from there on
target   [B, n + 1, V]; draft [B, n, V] or None; seeds and offsets: one for each draft
parents  None, or of trees [B, n]: numbers of tokens of the same draft, or -1 for the context
temperature  None, a number, or a list with a number for each draft
emitted  [B, n + 1]: the accepted tokens and the token after them, padded with -1
path     [B, n]: the numbers of the accepted tokens, from the context outward, padded with -1
errors   {i: text} for drafts that could not be judged: they have accepted = token = -1, and keep their offset)");

  py::class_<GreedyBlock>(module, "GreedyBlock", "Greedy block verification of one text, which it remembers.")
      .def(py::init<>())
      .def("verify", &GreedyBlock::verify, "target"_a, "draft"_a, "tokens"_a, "seed"_a, "offset"_a = 0,
           py::kw_only(), "temperature"_a = py::none(), "step"_a = py::none(),
           "Judges the next draft of the text: see specdec.verify.")
      .def_property_readonly("min_draft_length", &GreedyBlock::min_draft_length,
                             "The least number of tokens that the next draft may have.");
}

void add_asking(py::module_& module) {
  py::class_<AskingBatch>(
      module, "AskingBatch",
      R"(Judges many drafts whose rows lie elsewhere, such as on a GPU. The rules ask, and you answer:

    batch = specdec.AskingBatch("block", tokens, seeds, steps)
    while questions := batch.questions():
        batch.answer(answers(questions))
    batch.verdicts()

rule     a rule for lines, for trees if there are parents, or a list with a GreedyBlock for each draft
tokens   [B, n]. A draft ends before its first negative id, and has only negative ids from there on. Or with offsets [B + 1]:
         draft i has the tokens offsets[i] up to offsets[i + 1] of an array
seeds, steps  two numbers for each draft: its random numbers. Never use a pair twice
parents  of trees, as for verify_batch
chosen   tokens were chosen, not drawn: q = 1. No question has a draft row then)")
      .def(py::init<const py::object&, const py::object&, const Seeds&,
                    const Given<std::vector<std::uint64_t>, "steps">&, const py::object&, const py::object&,
                    const Given<bool, "chosen">&>(),
           "rule"_a, "tokens"_a, "seeds"_a, "steps"_a, py::kw_only(), "offsets"_a = py::none(),
           "parents"_a = py::none(), "chosen"_a = false)
      .def("questions", &AskingBatch::questions,
           R"((numbers, counts) of the open questions; None if no question is left.

numbers has a row [target, draft, token, u, w, row, b, row, b, ...] for each question: target row, draft row (or -1), token,
and numbers. Rows are counted as the tokens lie: all [B, n + 1] or [B, n] of a padded batch, or one after another.
counts tells how many of them are of each kind, one kind after another:
  look-ups   p and q of the token
  draws      the token that u draws from the target row, with its p and q
  largest    the likeliest token of the target row, the lowest id among equals, with its p and q
  residuals  the token that u draws from (w*p - the sum of all b*q)+, with this number in place of p, and q; and the sum of
             these numbers. A negative row stands for the one-hot row of token -1 - row; pairs with b = 0 are padding
Token -1 says that none could be drawn, as the row has no finite sum)")
      .def("answer", &AskingBatch::answer, "answers"_a,
           "A row [token, p, q, mass] for each question. A token that is no integer is an error, and then no "
           "answer counts.")
      .def(
          "verdicts", &AskingBatch::verdicts,
          R"((accepted, token, emitted, errors, path), as verify_batch returns them; path is None for lines.)");
}

void add_expectations(py::module_& module) {
  module.def("survival", survival, "rule"_a, "target"_a, "draft"_a, "tokens"_a, py::kw_only(),
             "temperature"_a = py::none(),
             R"(P(more than i tokens are accepted | the first i + 1 drafted tokens), for each i < gamma.

Its sum is the expected number of accepted tokens, once it is averaged over drafts. Rules: 'token', 'block', and
'greedy-block' in the first step of a text.)");
  module.def(
      "expected_accepted", expected_accepted, "rule"_a, "target"_a, "draft"_a, "gamma"_a, py::kw_only(),
      "temperature"_a = py::none(),
      R"(Bounds (lower, upper) of the expected number of accepted tokens if every position has these two rows, [V].)");
}

void add_checks(py::module_& module) {
  module.def(
      "check_every",
      [](const Given<Index, "verifications">& verifications) { return specdec::check_every(verifications); },
      "verifications"_a,
      R"(From now on, one verification in so many sums one of its rows: rows that were cut and not normalised are found.

0: none does. Returns the number that was set before; at first it is 64, or 0 if the module was compiled with -DNDEBUG. Rows of
logits always sum to 1. The verification raises InvalidDistribution. Call it while no other thread verifies.)");
  using sampler_check::Report;
  py::class_<Report>(module, "SamplerReport",
                     "What check_sampler found. True unless the sampler is convicted.")
      .def_property_readonly("convicted", &Report::convicted)
      .def_readonly("counterexample", &Report::counterexample, "The first failure, in words.")
      .def_readonly("cases", &Report::cases, "How many cases were checked.")
      .def("__bool__", [](const Report& report) { return !report.convicted(); })
      .def("__str__", &printed<Report>);
  module.def("check_sampler", check_sampler, "f"_a, py::kw_only(), "batch"_a = py::none(),
             "draw"_a = py::none(), "samples"_a = 20'000, "false_alarm"_a = 1e-6, "seed"_a = 1,
             R"(Whether a sampler writes the target's law: calls it on small models whose law is known.

f            f(target, draft, tokens, seed) -> (accepted, token), over new arrays of numpy, [gamma + 1, V] and [gamma, V]
             in float32 and [gamma] in int64. gamma is 1 to 3, V is 3 or 4. Each call has another seed of 32 bits
batch        how many drafts a call has. The arrays get a first dimension for them, and f returns two arrays [batch]
draw         draw(row, i, seed) -> token i of a draft, with the seed that f will get; in a batch row is [batch, V]. None:
             the check draws. It must draw from row: DraftAudit tells
samples      texts of each case: the more, the smaller a bias that is found
false_alarm  the largest probability, over all cases, that a right sampler is convicted)");

  py::class_<DraftAuditReport>(module, "DraftAuditReport",
                               "What an audit found. True unless the drafter is convicted.")
      .def_property_readonly("convicted", &DraftAuditReport::convicted)
      .def_property_readonly("acquitted", &DraftAuditReport::acquitted)
      .def_property_readonly("fault", [](const DraftAuditReport& report) { return printed(report.fault); })
      .def_readonly("tokens", &DraftAuditReport::tokens)
      .def_readonly("informative", &DraftAuditReport::informative)
      .def("__bool__", [](const DraftAuditReport& report) { return !report.convicted(); })
      .def("__str__", &printed<DraftAuditReport>);
  py::class_<DraftAudit>(module, "DraftAudit",
                         "Were drafted tokens drawn from the rows that the drafter reported?")
      .def(py::init([](const Given<double, "false_alarm">& false_alarm, const Seed& seed) {
             return DraftAudit({.false_alarm = false_alarm, .seed = seed});
           }),
           py::kw_only(), "false_alarm"_a = 1e-4, "seed"_a = 1)
      .def("add", add_to_audit, "rows"_a, "tokens"_a, py::kw_only(), "temperature"_a = py::none(),
           "Adds a draft: rows [n, V] and tokens [n]. With a temperature, rows are logits.")
      .def("report", &DraftAudit::report);
}

void add_text_audit(py::module_& module) {
  py::class_<TextAuditReport>(module, "TextAuditReport", "What an audit of texts found.")
      .def_property_readonly("fault", [](const TextAuditReport& report) { return printed(report.fault); })
      .def_readonly("evidence", &TextAuditReport::evidence)
      .def_readonly("largest_evidence", &TextAuditReport::largest_evidence)
      .def_readonly("tokens", &TextAuditReport::tokens)
      .def_readonly("impossible", &TextAuditReport::impossible)
      .def_readonly("unreadable", &TextAuditReport::unreadable)
      .def_readonly("bad_sums", &TextAuditReport::bad_sums)
      .def_readonly("by_rank", &TextAuditReport::by_rank)
      .def_readonly("by_id", &TextAuditReport::by_id)
      .def_readonly("by_ratio", &TextAuditReport::by_ratio)
      .def_readonly("by_two_numbers", &TextAuditReport::by_two_numbers)
      .def(
          "convicts",
          [](const TextAuditReport& report, const Given<double, "alpha">& alpha) {
            return report.convicts(alpha);
          },
          "alpha"_a)
      .def("__str__", &printed<TextAuditReport>);
  py::class_<TextAudit>(module, "TextAudit",
                        R"(Is the text that an engine writes its target's? May be asked at any time.

What is added must depend on the text before a token alone, never on the step that emitted it: add all tokens, not those that
were accepted; rows of the target, not residuals; a reference row for every token, by a model that reads the text.

tolerance    how much the natural logarithm of a probability may be wrong
stream       of the audit's random numbers: audits that will be merged need distinct ones)")
      .def(py::init([](const Given<double, "tolerance">& tolerance, const Seed& seed,
                       const Given<std::uint64_t, "stream">& stream) {
             return TextAudit({.tolerance = tolerance, .seed = seed, .stream = stream});
           }),
           py::kw_only(), "tolerance"_a = 1e-3, "seed"_a = 1, "stream"_a = 0)
      .def("__copy__", [](const TextAudit& audit) { return TextAudit(audit); })
      .def(
          "add", add_text, "rows"_a, "tokens"_a, "references"_a = py::none(), py::kw_only(),
          "temperature"_a = py::none(), "reference_temperature"_a = py::none(),
          R"(Adds tokens with the target's rows, and with those of a reference: the draft model, after the same text.

rows, references  [n, V] with tokens [n]; or [B, n, V] with tokens [B, n], where places of negative ids are padding
temperature       None: rows are probabilities. A number: rows are logits. reference_temperature is this one, by default)")
      .def("add_numbers", add_numbers, "p"_a, "r"_a,
           "Adds tokens by their probabilities under the target and under the reference: numbers, or arrays "
           "of them of one shape.")
      .def(
          "merge",
          [](TextAudit& audit, const py::object& other) {
            if (!py::isinstance<TextAudit>(other))
              throw py::type_error("specdec: other is " + type_of(other) + ", expected a TextAudit");
            audit.merge(other.cast<const TextAudit&>());
          },
          "other"_a, "Adds the tokens of another audit.")
      .def_property_readonly("evidence", &TextAudit::evidence, "log10 of the evidence now.")
      .def_property_readonly("largest_evidence", &TextAudit::largest_evidence, "The largest so far.")
      .def(
          "convicts",
          [](const TextAudit& audit, const Given<double, "alpha">& alpha) { return audit.convicts(alpha); },
          "alpha"_a,
          "Whether the text is not its rows': wrongly with probability alpha at most, 0 < alpha < 1, at any "
          "time.")
      .def("report", &TextAudit::report);
}

PYBIND11_MODULE(specdec, module) {
  module.doc() = "Lossless rules of speculative decoding, and checks of samplers, drafters and texts.";
  // The other errors are what pybind11 makes of the standard's classes: ValueError and RuntimeError.
  py::register_exception<specdec::InvalidDistribution>(module, "InvalidDistribution", PyExc_ValueError);
  add_rules(module);
  add_asking(module);
  add_expectations(module);
  add_checks(module);
  add_text_audit(module);
  // Made here, by the one thread that imports: in a call, another thread could wait for them with the lock of Python.
  const auto& answers = in_python::Answers::get();
  module.attr("Verdict") = answers.verdict;
  module.attr("TreeVerdict") = answers.tree;
  module.attr("BatchVerdict") = answers.batch;
  module.attr("BatchTreeVerdict") = answers.batch_of_trees;
  module.attr("AskingVerdict") = answers.asking;
  module.attr("Questions") = answers.questions;
}
