// Arguments of Python that must be numbers, lists of numbers, names or functions. What is none of them is an error of one
// sentence that names the argument: pybind11's own prints all signatures and all arguments, rows included.
// SPDX-License-Identifier: MIT
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "arrays.hpp"

namespace in_python {

template <std::size_t size>
struct Name {
  char text[size];
  consteval Name(const char (&name)[size]) { std::copy_n(name, size, text); }
};

// An argument of this name.
template <class T, Name name>
struct Given {
  T value;
  operator const T&() const { return value; }
};

using Rule = Given<std::string, "rule">;
using Seed = Given<std::uint64_t, "seed">;
using Seeds = Given<std::vector<std::uint64_t>, "seeds">;
using Offset = Given<std::uint64_t, "offset">;
using Temperature = Given<std::optional<double>, "temperature">;  // of all rows
using Step = Given<std::optional<std::uint64_t>, "step">;

// What is expected, in words.
template <class T>
struct Expected;
template <std::integral T>
struct Expected<T> {
  static std::string words() {
    return "an integer from " + std::to_string(std::numeric_limits<T>::min()) + " to " +
           std::to_string(std::numeric_limits<T>::max());
  }
};
template <>
struct Expected<bool> {
  static std::string words() { return "True or False"; }
};
template <>
struct Expected<double> {
  static std::string words() { return "a number"; }
};
template <>
struct Expected<std::optional<double>> {  // a temperature
  static std::string words() { return "None or one number for all rows"; }
};
template <>
struct Expected<std::string> {
  static std::string words() { return "a str"; }
};
template <>
struct Expected<py::function> {
  static std::string words() { return "a function"; }
};
template <>
struct Expected<Numbers> {
  static std::string words() { return "a number or an array of numbers"; }
};
template <class T>
struct Expected<std::optional<T>> {
  static std::string words() { return "None or " + Expected<T>::words(); }
};
template <class T>
struct Expected<std::vector<T>> {
  static std::string words() { return "a list, each entry " + Expected<T>::words(); }
};

template <class T>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<std::vector<T>> = true;
template <class T>
inline constexpr bool is_integer = std::integral<T> && !std::same_as<T, bool>;
template <class T>
inline constexpr bool is_integer<std::optional<T>> = is_integer<T>;

template <class T>
[[noreturn]] void refuse_argument(const std::string& name, const py::handle& given);

inline std::string entry_of(const std::string& name, std::size_t i) {
  return name + "[" + std::to_string(i) + "]";
}

// Names the first entry of a list that is no Entry. What is no list has none.
template <class Entry>
void check_each(const std::string& name, const py::handle& given) {
  if (!py::isinstance<py::sequence>(given) || py::isinstance<py::str>(given)) return;
  if (py::len_hint(given) == 0) return;  // an array without dimensions is a sequence that cannot be walked
  std::size_t i = 0;
  for (const py::handle entry : given) {
    if (!py::detail::make_caster<Entry>().load(entry, true)) refuse_argument<Entry>(entry_of(name, i), entry);
    ++i;
  }
}

// The argument, or an entry of it, is no T. An integer that is too small or too large is a ValueError, all else a TypeError.
template <class T>
[[noreturn]] void refuse_argument(const std::string& name, const py::handle& given) {
  if constexpr (is_list<T>) check_each<typename T::value_type>(name, given);
  const std::string expected = ", expected " + Expected<T>::words();
  if (is_integer<T> && py::isinstance<py::int_>(given))
    refuse(name, " = ", std::string(py::str(given)), expected);
  throw py::type_error("specdec: " + name + " is " + type_of(given) + expected);
}

}  // namespace in_python

namespace pybind11::detail {

template <class T, in_python::Name called>
struct type_caster<in_python::Given<T, called>> {
  using Argument = in_python::Given<T, called>;
  PYBIND11_TYPE_CASTER(Argument, make_caster<T>::name);

  bool load(handle given, bool) {
    if constexpr (std::same_as<T, in_python::Numbers>) in_python::refuse_masked(called.text, given);
    make_caster<T> loaded;
    if (!loaded.load(given, true)) in_python::refuse_argument<T>(called.text, given);
    value.value = cast_op<T>(std::move(loaded));
    return true;
  }
};

}  // namespace pybind11::detail
