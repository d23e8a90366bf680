// What a rule asks of rows that lie elsewhere, such as on a GPU, and what it was told. Nothing here reads a row.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

namespace in_python {

using specdec::Index, specdec::Token;

// What is subtracted from a target row: the coefficient b of draft row `row`. If `row` is negative, the row is one-hot, and has
// token −1 − row.
struct Subtracted {
  Index row;
  double b;

  static Index one_hot(Token x) { return -1 - static_cast<Index>(x); }
  friend bool operator==(const Subtracted&, const Subtracted&) = default;
};

// A question about one target row, and about one draft row beside it. Rows are counted over the whole batch.
struct Question {
  enum class Kind {
    look_up,  // p and q of a token
    draw,     // the token that u draws from the target row, with its p and q
    largest,  // the likeliest token, with its p and q
    residual,  // the token that u draws from (w·p − Σ b·q)+, with this number and q; and the sum of these numbers
    count
  };
  Kind kind;
  Index target;
  Index draft = -1;  // −1: there is none
  Token token = -1;
  double u = 0, w = 1;
  std::vector<Subtracted> subtracted = {};

  friend bool operator==(const Question&, const Question&) = default;
};

struct Answer {
  Token token;
  double p, q, mass;
};

// A rule wants an answer that is not known yet, and cannot go on.
struct Unanswered {};

// All that was asked about one draft. A rule is called again and again, until it has all answers. Its random numbers stand at
// addresses, so it asks again what it has asked before.
class Inquiry {
 public:
  // The answer; if it is not known yet, nullptr, and the question is open.
  const Answer* find(const Question& question) {
    for (const auto& [asked, answer] : answered_)
      if (asked == question) return &answer;
    for (const Question& asked : open_)
      if (asked == question) return nullptr;
    open_.push_back(question);
    return nullptr;
  }

  const Answer& get(const Question& question) {
    if (const Answer* answer = find(question)) return *answer;
    throw Unanswered{};
  }

  const std::vector<Question>& open() const { return open_; }

  // One answer for each open question, in their order.
  void answer(const std::vector<Answer>& answers) {
    for (std::size_t k = 0; k < open_.size(); ++k) answered_.emplace_back(std::move(open_[k]), answers[k]);
    open_.clear();
  }

 private:
  std::vector<std::pair<Question, Answer>> answered_;
  std::vector<Question> open_;
};

}  // namespace in_python
