// Views of token ids of any integer type. Checks the ids, and replaces the ids that a model does not know.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/types.hpp"

namespace specdec {
namespace detail {

/// An integer type that an id or a number may have. Characters are refused: a text is no list of ids.
template <class T>
concept IdInteger =
    std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> && !std::same_as<T, wchar_t> &&
    !std::same_as<T, char8_t> && !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

template <class Ids>
using IdOf = std::remove_cvref_t<decltype(*std::data(std::declval<const Ids&>()))>;

/// A contiguous range of ids.
template <class Ids>
concept IdRange = IdInteger<IdOf<Ids>> && std::is_convertible_v<const Ids&, std::span<const IdOf<Ids>>>;

}  // namespace detail

/// A view of token ids, without a copy. Converts from any contiguous range of integers: signed or not, of any width. (On some
/// systems std::int64_t is another type than Eigen's Index.) The ids must outlive the view.
class TokenIds {
 public:
  TokenIds() = default;

  template <detail::IdRange Ids>
  TokenIds(const Ids& ids) : TokenIds(std::span<const detail::IdOf<Ids>>(ids)) {}

  template <detail::IdInteger Id>
  TokenIds(std::span<const Id> ids)
      : ids_(ids.data()), size_(std::ssize(ids)), bytes_(sizeof(Id)), is_signed_(std::is_signed_v<Id>) {}

  Index size() const { return size_; }
  bool empty() const { return size_ == 0; }

  /// Id number i. An unsigned id beyond the largest std::int64_t is told as that largest number, which no vocabulary holds.
  std::int64_t operator[](Index i) const {
    const unsigned char* const id = static_cast<const unsigned char*>(ids_) + i * bytes_;
    switch (bytes_) {
      case 4:
        return is_signed_ ? read<std::int32_t>(id) : read<std::uint32_t>(id);
      case 8:
        return is_signed_ ? read<std::int64_t>(id) : read<std::uint64_t>(id);
      case 2:
        return is_signed_ ? read<std::int16_t>(id) : read<std::uint16_t>(id);
      default:
        return is_signed_ ? read<std::int8_t>(id) : read<std::uint8_t>(id);
    }
  }

  /// A view of `count` ids from ids[first] on.
  ///
  /// Pre: first + count <= size().
  TokenIds segment(Index first, Index count) const {
    TokenIds ids = *this;
    if (ids_) ids.ids_ = static_cast<const unsigned char*>(ids_) + first * bytes_;
    ids.size_ = count;
    return ids;
  }

 private:
  // Types of equal width may be different types, so the bytes are copied.
  template <class Id>
  static std::int64_t read(const unsigned char* bytes) {
    Id id;
    std::memcpy(&id, bytes, sizeof(id));
    if constexpr (std::is_same_v<Id, std::uint64_t>)
      return static_cast<std::int64_t>(std::min<std::uint64_t>(id, std::numeric_limits<std::int64_t>::max()));
    else return id;
  }

  const void* ids_ = nullptr;
  Index size_ = 0;
  Index bytes_ = sizeof(Token);
  bool is_signed_ = true;
};

namespace detail {

/// Throws unless every id is in the vocabulary and fits into a Token. (An id that is cut to 32 bits would become another
/// token.) The message calls the argument `name`.
inline void check_tokens(std::string_view name, TokenIds tokens, Index vocab_size) {
  constexpr Index largest = std::numeric_limits<Token>::max();
  for (Index i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocab_size)
      invalid_argument(name, "[", i, "] = ", tokens[i], " is outside the vocabulary 0..", vocab_size - 1);
    if (tokens[i] > largest)
      invalid_argument(name, "[", i, "] = ", tokens[i], " is more than ", largest, ", the largest token id");
  }
}

/// The tokens, with token 0 in place of each id outside the vocabulary, for a model with a smaller vocabulary. This costs
/// acceptance, never exactness. Returns `tokens` itself if all ids are inside, else a copy that lies in `replaced`.
inline std::span<const Token> tokens_in_vocabulary(std::span<const Token> tokens, Index vocab_size,
                                                   std::vector<Token>& replaced) {
  Token largest = 0;
  for (const Token x : tokens) largest = std::max(largest, x);
  if (largest < vocab_size) return tokens;
  replaced.clear();
  for (const Token x : tokens) replaced.push_back(x < vocab_size ? x : 0);
  return view_of(replaced);
}

}  // namespace detail
}  // namespace specdec
