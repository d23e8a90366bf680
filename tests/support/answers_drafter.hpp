// A drafter that learns from the rows that the target returns.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <specdec/specdec.hpp>
#include <vector>

namespace support {

using specdec::Index;
using specdec::Token;

// Proposes for every place of a text the token that the target last held most likely there, in this text or an earlier
// one.
class AnswersDrafter {
 public:
  specdec::Draft<specdec::OneHotRows> draft(std::span<const Token> context, Index gamma, auto&) & {
    seen_ = std::ssize(context);
    tokens_.clear();
    for (Index place = seen_; place < seen_ + gamma && place < std::ssize(answers_); ++place)
      tokens_.push_back(answers_[static_cast<std::size_t>(place)]);
    return {tokens_, specdec::OneHotRows(tokens_)};
  }

  void observe(const auto& judged) {
    const auto rows = specdec::distributions(judged.rows);
    // The target has not answered for the place after these. The first guess for that place is token 0.
    if (std::ssize(answers_) < seen_ + rows.rows() + 1)
      answers_.resize(static_cast<std::size_t>(seen_ + rows.rows() + 1));
    try {
      for (Index i = 0; i <= std::ssize(judged.tokens); ++i)
        answers_[static_cast<std::size_t>(seen_ + i)] = rows.row(i).argmax();
    } catch (const specdec::
                 InvalidDistribution&) {  // after a token that a grammar rules out, no token may be allowed
    }
  }

  void truncate(Index) noexcept {}
  void clear() { *this = {}; }

 private:
  std::vector<Token> answers_;  // by place in the text
  std::vector<Token> tokens_;
  Index seen_ = 0;  // how much of the context
};

}  // namespace support
