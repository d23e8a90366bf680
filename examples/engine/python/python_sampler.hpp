// A sampler that is a function of Python, for sampler_check.hpp.
// SPDX-License-Identifier: MIT
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "given.hpp"
#include "sampler_check.hpp"

namespace in_python {

// A new array of numpy. The function may keep it, and may write into it.
template <class S>
py::array_t<S> new_array(const std::vector<S>& numbers, const std::vector<Index>& shape) {
  return py::array_t<S>(std::vector<py::ssize_t>(shape.begin(), shape.end()), numbers.data());
}

inline std::int64_t integer(const char* name, const py::handle& given) {
  try {
    return given.cast<std::int64_t>();
  } catch (const py::cast_error&) {
    throw py::type_error("specdec: " + std::string(name) + " is " + type_of(given) + ", expected an integer");
  }
}

// As many integers as there are drafts: one number if they come one by one, else an array.
class Integers {
 public:
  Integers(const char* name, const py::object& given, bool one_by_one, Index drafts) {
    if (one_by_one) {
      numbers_.push_back(integer(name, given));
      return;
    }
    const Ids ids(name, given);
    if (ids.size(0) != drafts) refuse(name, " has ", ids.size(0), " entries for ", drafts, " drafts");
    for (Index b = 0; b < drafts; ++b) numbers_.push_back(ids.view()[b]);
  }

  const std::vector<std::int64_t>& all() const { return numbers_; }

 private:
  std::vector<std::int64_t> numbers_;
};

// f(target, draft, tokens, seed) -> (accepted, token). Without a batch the arrays have no dimension for the drafts.
class PythonSampler {
 public:
  PythonSampler(py::function f, bool one_by_one) : f_(std::move(f)), one_by_one_(one_by_one) {}

  std::vector<specdec::Verdict> operator()(const sampler_check::Call& call) const {
    const py::object answer = f_(new_array(call.target, shape(call, {call.gamma + 1, call.vocab_size})),
                                 new_array(call.draft, shape(call, {call.gamma, call.vocab_size})),
                                 new_array(call.tokens, shape(call, {call.gamma})), call.seed);
    if (!py::isinstance<py::sequence>(answer) || py::len(answer) != 2)
      throw py::type_error("specdec: the sampler returned " + type_of(answer) +
                           ", expected (accepted, token)");
    const Integers accepted("accepted", answer[py::int_(0)], one_by_one_, call.drafts);
    const Integers tokens("token", answer[py::int_(1)], one_by_one_, call.drafts);
    std::vector<specdec::Verdict> verdicts;
    for (std::size_t b = 0; b < accepted.all().size(); ++b)
      verdicts.push_back({accepted.all()[b], as_token(tokens.all()[b])});
    return verdicts;
  }

 private:
  std::vector<Index> shape(const sampler_check::Call& call, std::vector<Index> of_one) const {
    if (!one_by_one_) of_one.insert(of_one.begin(), call.drafts);
    return of_one;
  }

  // An id that does not fit into a Token is outside any vocabulary.
  static Token as_token(std::int64_t id) {
    return std::in_range<Token>(id) ? static_cast<Token>(id) : Token{-1};
  }

  py::function f_;
  bool one_by_one_;
};

// draw(row, i, seed) -> token i of a draft.
class PythonDraw {
 public:
  PythonDraw(py::function draw, bool one_by_one) : draw_(std::move(draw)), one_by_one_(one_by_one) {}

  std::vector<std::int64_t> operator()(const sampler_check::Call& call, const std::vector<float>& rows,
                                       Index i) const {
    std::vector<Index> shape{call.vocab_size};
    if (!one_by_one_) shape.insert(shape.begin(), call.drafts);
    return Integers("draw's answer", draw_(new_array(rows, shape), i, call.seed), one_by_one_, call.drafts)
        .all();
  }

 private:
  py::function draw_;
  bool one_by_one_;
};

inline sampler_check::Report check_sampler(const Given<py::function, "f">& f,
                                           const Given<std::optional<Index>, "batch">& batch,
                                           const Given<std::optional<py::function>, "draw">& draw,
                                           const Given<Index, "samples">& samples,
                                           const Given<double, "false_alarm">& false_alarm,
                                           const Seed& seed) {
  const sampler_check::Draw honest;  // empty: the check draws
  const bool one_by_one = !batch.value;
  return sampler_check::check(PythonSampler(f, one_by_one),
                              draw.value ? PythonDraw(*draw.value, one_by_one) : honest,
                              {batch.value.value_or(1), samples, false_alarm, seed});
}

}  // namespace in_python
