// The tokens of a Feed, and which of them the target keeps.
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/parents.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// The tokens of a text that are not cached, then the draft.
/// Cost: no allocation in steady state.
class FeedBuffer {
 public:
  /// A token outside the target's vocabulary is fed as token 0 (see token_ids.hpp). `parents` is empty for a linear draft.
  void fill(std::span<const Token> uncached, std::span<const Token> drafted, std::span<const Index> parents,
            Index vocab_size) {
    uncached_ = std::ssize(uncached);
    tokens_.clear();
    tokens_.reserve(uncached.size() + drafted.size());
    for (const Token x : uncached) tokens_.push_back(x);
    for (const Token x : drafted) tokens_.push_back(x < vocab_size ? x : Token{0});
    parents_.clear();
    if (branches(parents)) {
      for (Index i = 0; i < uncached_; ++i) parents_.push_back(i - 1);
      for (const Index parent : parents) parents_.push_back(uncached_ + parent);
    }
    kept_.reserve(tokens_.size());
    kept_.clear();
  }

  /// Sets kept(): all tokens that were not cached, and the draft tokens with the numbers in `accepted`.
  void keep(std::span<const Index> accepted) {
    kept_.clear();
    for (Index i = 0; i < uncached_; ++i) kept_.push_back(i);
    for (const Index k : accepted) kept_.push_back(uncached_ + k);
  }

  std::span<const Token> tokens() const { return view_of(tokens_); }
  std::span<const Index> parents() const { return view_of(parents_); }
  std::span<const Index> kept() const { return view_of(kept_); }

 private:
  std::vector<Token> tokens_;
  std::vector<Index> parents_, kept_;
  Index uncached_ = 0;
};

}  // namespace specdec::detail
