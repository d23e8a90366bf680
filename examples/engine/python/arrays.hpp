// What Python passes, seen as rows and ids of the library. Nothing is copied.
//
// A numpy array is read where it lies. A tensor of PyTorch or of another library is first seen as a numpy array through
// DLPack (numpy.from_dlpack): both then have one memory. The objects here keep the array alive while it is read.
// SPDX-License-Identifier: MIT
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <specdec/specdec.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace in_python {

namespace py = pybind11;
using specdec::Index, specdec::Token, specdec::TokenIds;

using Numbers = py::array_t<double, py::array::c_style | py::array::forcecast>;

// Python sees it as a ValueError, like the errors of the library.
[[noreturn]] void refuse(const auto&... parts) {
  std::ostringstream text;
  text << "specdec: ";
  (text << ... << parts);
  throw std::invalid_argument(text.str());
}

// With its article, as in "a list".
inline std::string type_of(const py::handle& given) {
  const std::string type = py::str(py::type::handle_of(given).attr("__name__"));
  return (std::string("aeiou").find(type[0]) == std::string::npos ? "a " : "an ") + type;
}

// The numbers of a masked array lie where those of others do, also where the mask says that there are none. Almost all arrays are
// of numpy's own type, and cost one comparison.
inline void refuse_masked(const std::string& name, const py::handle& given) {
  if (Py_TYPE(given.ptr()) == py::detail::npy_api::get().PyArray_Type_) return;
  if (py::isinstance<py::array>(given) &&
      py::isinstance(given, py::module_::import("numpy.ma").attr("MaskedArray")))
    refuse(name, " is a masked array, but masks are not read: pass what its filled() returns");
}

inline py::array as_array(const std::string& name, const py::object& given) {
  refuse_masked(name, given);
  if (py::isinstance<py::array>(given)) return py::reinterpret_borrow<py::array>(given);
  if (!py::hasattr(given, "__dlpack__"))
    throw py::type_error("specdec: " + name + " is " + type_of(given) +
                         ", expected a numpy array or a tensor in the host's memory");
  try {
    return py::module_::import("numpy").attr("from_dlpack")(given);
  } catch (py::error_already_set& error) {
    refuse(name, " cannot be seen as a numpy array: ", std::string(py::str(error.value())));
  }
}

inline std::string shape_of(const py::array& array) { return py::str(array.attr("shape")); }

// Two arrays that are read number by number, side by side.
inline void check_same_shape(const char* name, const py::array& array, const char* other_name,
                             const py::array& other) {
  if (!array.attr("shape").equal(other.attr("shape")))
    refuse(name, " has the shape ", shape_of(array), ", expected ", shape_of(other), ", the shape of ",
           other_name);
}

// An array of `dimensions` dimensions that lies in one piece, the last index fastest.
inline py::array solid_array(const std::string& name, const py::object& given, Index dimensions) {
  const py::array array = as_array(name, given);
  if (array.ndim() != dimensions)
    refuse(name, " has the shape ", shape_of(array), ", expected ", dimensions, " dimension",
           dimensions == 1 ? "" : "s");
  if (!(array.flags() & py::array::c_style) || !array.attr("flags").attr("aligned").cast<bool>())
    refuse(name, " does not lie in one piece in memory, row after row: pass numpy.ascontiguousarray(", name,
           "), or .contiguous() of a tensor");
  return array;
}

template <class S>
using RowMajor = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class S>
using MatrixInMemory = Eigen::Map<const RowMajor<S>>;
template <class S>
using ProbabilitiesOf = specdec::DenseRows<specdec::NumbersOf<MatrixInMemory<S>>>;

// Temperatures of logits: none if rows are probabilities, one for all rows, or one for each draft of a batch.
using Temperatures = std::vector<double>;

// Rows of logits; the drafts of a batch have as many rows each.
template <class S>
class LogitsOf {
 public:
  LogitsOf(const MatrixInMemory<S>& logits, const Temperatures& temperatures, Index rows_of_draft)
      : logits_(specdec::numbers(logits)),
        temperatures_(std::make_shared<const Temperatures>(temperatures)),
        rows_of_draft_(rows_of_draft) {
    for (std::size_t i = 0; i < temperatures.size(); ++i)
      if (!(temperatures[i] >= 0 && temperatures[i] <= std::numeric_limits<double>::max()))
        refuse("temperature", temperatures.size() > 1 ? "[" + std::to_string(i) + "]" : "", " = ",
               temperatures[i], " is not a finite number >= 0");
  }

  Index rows() const { return logits_.rows(); }
  Index vocab_size() const { return logits_.cols(); }
  auto row(Index i) const {
    const std::size_t draft = temperatures_->size() > 1 ? static_cast<std::size_t>(i / rows_of_draft_) : 0;
    return specdec::LogitsRow(logits_.row(i), (*temperatures_)[draft]);
  }

 private:
  specdec::NumbersOf<MatrixInMemory<S>> logits_;
  std::shared_ptr<const Temperatures> temperatures_;  // copies of the rows share them
  Index rows_of_draft_;
};

// One type for all rows, so that each rule is compiled once.
using AnyRows = specdec::VariantRows<ProbabilitiesOf<float>, ProbabilitiesOf<double>, LogitsOf<float>,
                                     LogitsOf<double>, specdec::OneHotRows>;

// Rows of probabilities; or of logits, if there is a temperature.
class Rows {
 public:
  // An array of more than two dimensions is a matrix of all its rows; the first one counts drafts.
  Rows(const std::string& name, const py::object& given, const Temperatures& temperatures,
       Index dimensions = 2)
      : array_(solid_array(name, given, dimensions)), rows_(of(name, temperatures)) {}
  Rows(const std::string& name, const py::object& given, std::optional<double> temperature,
       Index dimensions = 2)
      : Rows(name, given, temperature ? Temperatures{*temperature} : Temperatures{}, dimensions) {}

  const AnyRows& view() const { return rows_; }
  Index size(Index dimension) const { return array_.shape(dimension); }
  std::string shape() const { return shape_of(array_); }

 private:
  AnyRows of(const std::string& name, const Temperatures& temperatures) const {
    if (py::isinstance<py::array_t<float>>(array_)) return of_type<float>(temperatures);
    if (py::isinstance<py::array_t<double>>(array_)) return of_type<double>(temperatures);
    refuse(name, " has numbers of type ", std::string(py::str(array_.dtype())),
           ", expected float32 or float64");
  }

  template <class S>
  AnyRows of_type(const Temperatures& temperatures) const {
    constexpr std::size_t first = std::is_same_v<S, float> ? 0 : 1;  // see AnyRows
    const Index columns = array_.shape(array_.ndim() - 1);
    Index rows = 1;
    for (Index k = 0; k + 1 < array_.ndim(); ++k) rows *= array_.shape(k);
    const MatrixInMemory<S> numbers(static_cast<const S*>(array_.data()), rows, columns);
    if (temperatures.empty()) return AnyRows(std::in_place_index<first>, ProbabilitiesOf<S>(numbers));
    return AnyRows(std::in_place_index<first + 2>,
                   LogitsOf<S>(numbers, temperatures, rows / std::max<Index>(array_.shape(0), 1)));
  }

  py::array array_;
  AnyRows rows_;
};

// Token ids, or other integers.
class Ids {
 public:
  Ids(const std::string& name, const py::object& given, Index dimensions = 1)
      : array_(solid_array(name, given, dimensions)), ids_(of(name)) {}

  const TokenIds& view() const { return ids_; }
  const py::array& array() const { return array_; }
  Index size(Index dimension) const { return array_.shape(dimension); }

 private:
  TokenIds of(const std::string& name) const {
    if (py::isinstance<py::array_t<std::int32_t>>(array_)) return of_type<std::int32_t>();
    if (py::isinstance<py::array_t<std::int64_t>>(array_)) return of_type<std::int64_t>();
    refuse(name, " has numbers of type ", std::string(py::str(array_.dtype())), ", expected int32 or int64");
  }

  template <class I>
  TokenIds of_type() const {
    return std::span<const I>(static_cast<const I*>(array_.data()), static_cast<std::size_t>(array_.size()));
  }

  py::array array_;
  TokenIds ids_;
};

// The draft rows of a rule. None stands for a drafter without probabilities: each of its tokens has q = 1.
class DraftRows {
 public:
  DraftRows(const py::object& given, const Ids& tokens, bool needed, const auto& temperature,
            Index dimensions = 2)
      : one_hot_(std::in_place_index<4>, specdec::OneHotRows(tokens.view())) {
    if (needed && !given.is_none()) rows_.emplace("draft", given, temperature, dimensions);
  }

  const AnyRows& view() const { return rows_ ? rows_->view() : one_hot_; }
  const AnyRows& one_hot() const { return one_hot_; }
  const std::optional<Rows>& array() const { return rows_; }

 private:
  AnyRows one_hot_;
  std::optional<Rows> rows_;
};

}  // namespace in_python
