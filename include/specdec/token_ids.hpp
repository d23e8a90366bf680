// Views of token ids of 32 or 64 bits. Checks the ids, and replaces the ids that a model does not know.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/types.hpp"

namespace specdec {
namespace detail {

/// A list of integers that are neither std::int32_t nor std::int64_t.
template <class Ids>
concept ForeignIds =
    std::integral<typename Ids::value_type> && !std::same_as<typename Ids::value_type, std::int32_t> &&
    !std::same_as<typename Ids::value_type, std::int64_t>;

}  // namespace detail

/// A view of token ids of 32 or 64 bits, without a copy. Converts from any contiguous range of either width.
/// The ids must outlive the view.
class TokenIds {
 public:
  TokenIds() = default;

  template <class Ids>
    requires std::is_convertible_v<const Ids&, std::span<const std::int32_t>>
  TokenIds(const Ids& ids) : TokenIds(std::span<const std::int32_t>(ids)) {}

  template <class Ids>
    requires std::is_convertible_v<const Ids&, std::span<const std::int64_t>>
  TokenIds(const Ids& ids) : TokenIds(std::span<const std::int64_t>(ids)) {}

  /// Ids of another width and unsigned ids do not compile: they would need a copy. Copy them yourself.
  template <class NeitherInt32NorInt64>
    requires detail::ForeignIds<NeitherInt32NorInt64>
  TokenIds(const NeitherInt32NorInt64& ids) = delete;

  TokenIds(std::span<const std::int32_t> ids) : narrow_(ids.data()), size_(std::ssize(ids)) {}
  TokenIds(std::span<const std::int64_t> ids) : wide_(ids.data()), size_(std::ssize(ids)) {}

  Index size() const { return size_; }
  bool empty() const { return size_ == 0; }

  std::int64_t operator[](Index i) const { return wide_ ? wide_[i] : std::int64_t{narrow_[i]}; }

  /// A view of `count` ids from ids[first] on.
  ///
  /// Pre: first + count <= size().
  TokenIds segment(Index first, Index count) const {
    TokenIds ids = *this;
    if (wide_) ids.wide_ += first;
    else if (narrow_) ids.narrow_ += first;
    ids.size_ = count;
    return ids;
  }

 private:
  const std::int32_t* narrow_ = nullptr;
  const std::int64_t* wide_ = nullptr;
  Index size_ = 0;
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
