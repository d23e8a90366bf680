// Views of token ids of 32 or 64 bits. Checks the ids.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

// Integers of equal width may be different types (std::int64_t and Eigen's Index, on some systems): a view reads them as one.
#ifdef __GNUC__
using Id32 [[gnu::may_alias]] = std::int32_t;
using Id64 [[gnu::may_alias]] = std::int64_t;
#else
using Id32 = std::int32_t;
using Id64 = std::int64_t;
#endif

template <class Ids>
using IdOf = std::remove_cvref_t<decltype(*std::data(std::declval<const Ids&>()))>;

/// A contiguous range of integers of 32 or 64 bits. Characters are refused: a text is no list of ids.
template <class Ids>
concept IdRange = std::integral<IdOf<Ids>> && (sizeof(IdOf<Ids>) == 4 || sizeof(IdOf<Ids>) == 8) &&
                  !std::same_as<IdOf<Ids>, wchar_t> && !std::same_as<IdOf<Ids>, char32_t> &&
                  std::is_convertible_v<const Ids&, std::span<const IdOf<Ids>>>;

/// The id as a Token. An id that does not fit into one becomes the largest Token, which no vocabulary has.
template <std::integral Id>
constexpr Token as_token(Id id) {
  return std::in_range<Token>(id) ? static_cast<Token>(id) : std::numeric_limits<Token>::max();
}

/// A text: it is no list of ids.
template <class T>
concept IsText = std::convertible_to<const T&, std::string_view>;

/// A list of integers of another width.
template <class Ids>
concept ForeignIds = std::integral<typename Ids::value_type> && !IdRange<Ids> && !IsText<Ids>;

}  // namespace detail

/// A view of token ids of 32 or 64 bits, without a copy. Converts from any contiguous range of integers of either width. Ids may
/// be unsigned: those that are too large for a signed integer read as negative, which no id is. The ids must outlive the view.
class TokenIds {
 public:
  TokenIds() = default;

  template <detail::IdRange Ids>
  TokenIds(const Ids& ids) : size_(static_cast<Index>(std::size(ids))) {
    if constexpr (sizeof(detail::IdOf<Ids>) == 4)
      narrow_ = reinterpret_cast<const detail::Id32*>(std::data(ids));
    else wide_ = reinterpret_cast<const detail::Id64*>(std::data(ids));
  }

  /// Ids of another width do not compile: they would need a copy. Copy them yourself.
  template <class Neither32Nor64Bits>
    requires detail::ForeignIds<Neither32Nor64Bits>
  TokenIds(const Neither32Nor64Bits& ids) = delete;
  /// A text is no list of ids: pass those that your tokenizer returns for it.
  template <detail::IsText ATextIsNoListOfTokenIds>
  TokenIds(const ATextIsNoListOfTokenIds& text) = delete;

  Index size() const { return size_; }
  bool empty() const { return size_ == 0; }

  std::int64_t operator[](Index i) const { return wide_ ? std::int64_t{wide_[i]} : std::int64_t{narrow_[i]}; }

  /// A view of `count` ids from ids[first] on.
  /// Pre: first + count <= size().
  TokenIds segment(Index first, Index count) const {
    TokenIds ids = *this;
    if (wide_) ids.wide_ += first;
    else if (narrow_) ids.narrow_ += first;
    ids.size_ = count;
    return ids;
  }

 private:
  const detail::Id32* narrow_ = nullptr;
  const detail::Id64* wide_ = nullptr;
  Index size_ = 0;
};

namespace detail {

/// Compiles unless the argument is meant as token ids, and is none; the error says why.
template <class Ids>
consteval bool fits_ids() {
  static_assert(!IsText<Ids>,
                "a text is no list of token ids: pass the ids that your tokenizer returns for it");
  static_assert(!ForeignIds<Ids>, "token ids have 32 or 64 bits: copy ids of another width");
  return true;
}

/// What TokenIds takes, or what fits_ids() has said why it does not.
template <class Ids>
concept MeantAsIds = std::convertible_to<const Ids&, TokenIds> || IsText<Ids> || ForeignIds<Ids>;

/// Throws unless all ids are in the vocabulary and fit into a Token: cut to 32 bits they would be others. Errors name it `name`.
inline void check_tokens(std::string_view name, TokenIds tokens, Index vocab_size) {
  constexpr Index largest = std::numeric_limits<Token>::max();
  for (Index i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocab_size)
      invalid_argument(name, "[", i, "] = ", tokens[i], " is outside the vocabulary 0..", vocab_size - 1);
    if (tokens[i] > largest)
      invalid_argument(name, "[", i, "] = ", tokens[i], " is more than ", largest, ", the largest token id");
  }
}

}  // namespace detail
}  // namespace specdec
