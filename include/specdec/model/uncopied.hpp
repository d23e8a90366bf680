// A member that copies do not share.
#pragma once

#include <optional>
#include <utility>

namespace specdec::detail {

/// A value that is left behind where its holder is copied, and goes along where that is moved.
template <class T>
struct Uncopied {
  std::optional<T> value = {};
  Uncopied() = default;
  Uncopied(const Uncopied&) {}
  Uncopied(Uncopied&& other) noexcept : value(std::move(other.value)) { other.value.reset(); }
  Uncopied& operator=(const Uncopied&) {
    value.reset();
    return *this;
  }
  Uncopied& operator=(Uncopied&& other) noexcept {
    value.reset();
    if (other.value) value.emplace(*std::move(other.value));
    other.value.reset();
    return *this;
  }
  ~Uncopied() = default;
};

}  // namespace specdec::detail
