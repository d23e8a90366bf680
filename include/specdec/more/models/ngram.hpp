// A counted n-gram language model: a real target, and a real drafter for it, with nothing to download.
// Source: Witten, Bell, "The zero-frequency problem", IEEE Trans. Information Theory 37(4), 1991, method C; interpolated as in
// Chen, Goodman, "An empirical study of smoothing techniques for language modeling", Harvard TR-10-98, 1998.
//
// h is a context of k−1 tokens, and h' is h without its first token. c(h, w) is how often w follows h in the text,
// c(h) = Σ_w c(h, w), and T(h) is the number of different tokens that follow h:
//
//     P_k(w | h) = (c(h, w) + T(h)·P_{k−1}(w | h')) / (c(h) + T(h)),    P_0(w) = 1/V
//
// If nothing ever follows h in the text, P_k(w | h) = P_{k−1}(w | h').
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "specdec/eigen.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/more/models/ngram_counts.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// An n-gram model with interpolated Witten-Bell smoothing. Every token has positive probability in every
/// context. The next token depends on the last order−1 tokens only. Satisfies Model.
///
///   auto target = NgramModel::train(text, {.order = 6, .vocab_size = 256});
///   ModelDrafter drafter{target.with_order(2)};    // a bigram model on the same counts
///
/// Copies are cheap: they share the counts, which never change. Each copy has a context of its own. A moved-from model keeps the
/// counts and has an empty context.
/// Source: above.
/// Cost: a row takes order−1 binary searches, a pass over V numbers, and one addition per distinct successor
/// of each suffix of the context. No allocation once the longest context and the most rows have been seen.
/// Numeric: rows sum to 1 up to rounding. A context gives the same bits however it was fed. At orders in the
/// hundreds the weight of the shortest contexts may underflow. Unseen tokens then get probability 0.
/// Example: examples/apps/generate.cpp.
class NgramModel {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

 public:
  static constexpr bool copies_context = true;

  struct Options {
    Index order = 3;  ///< how many tokens are counted together: 1 unigram, 2 bigram, ...
    Index vocab_size = 256;
  };

  /// rows × V, one distribution a row. A view that lives until the next call.
  using Rows = Eigen::Map<const Matrix>;

  /// One distribution, held by value.
  class Row {
   public:
    Index vocab_size() const { return std::ssize(values_); }
    double probability(Token x) const { return detail::at(values_, x); }
    Token argmax() const {
      return static_cast<Token>(std::max_element(values_.begin(), values_.end()) - values_.begin());
    }
    /// A view of the distribution, which verifiers and chance take as a row.
    DenseRow<double> view() const& { return {values_.data(), vocab_size()}; }
    DenseRow<double> view() const&& = delete;  // the view would dangle

   private:
    friend NgramModel;
    explicit Row(std::size_t vocab_size) : values_(vocab_size) {}
    std::vector<double> values_;
  };

  /// A model of the text, with an empty context. An empty text gives the uniform distribution.
  /// Throws: InvalidArgument if order is below 1, if vocab_size is not positive or is too large for
  /// Token, or if a token of the text is outside the vocabulary.
  /// Cost: O(order·(n + V)) for n tokens.
  static NgramModel train(std::span<const Token> text, const Options& options) {
    check_options(options);
    detail::check_tokens("text", text, options.vocab_size);
    return {std::make_shared<const Counts>(text, options.order, options.vocab_size), options.order};
  }

  /// A model of a lower order on the same counts, with an empty context: exactly the model that train() would make.
  /// Throws: InvalidArgument unless 1 <= order <= the order that was trained.
  NgramModel with_order(Index order) const {
    if (order < 1 || order > counts_->order())
      detail::invalid_argument("order = ", order, " is outside 1..", counts_->order(), ", the order trained");
    return {counts_, order};
  }

  Index order() const { return order_; }
  Index vocab_size() const { return counts_->vocab_size(); }

  /// Appends `tokens` to the context and returns the distributions after each of the last `rows` of them.
  /// Throws: InvalidArgument unless 1 <= rows <= tokens.size(), and on a token outside the vocabulary.
  /// After a throw nothing has changed.
  Rows forward(std::span<const Token> tokens, Index rows) & {
    const Index fed = std::ssize(tokens);
    if (rows < 1 || rows > fed)
      detail::invalid_argument("rows = ", rows, " is outside 1..", fed, ", the number of tokens");
    detail::check_tokens("tokens", tokens, vocab_size());
    const Index size = rows * vocab_size();
    if (std::ssize(output_) < size) detail::resize(output_, size);
    append(tokens);
    for (Index i = 0; i < rows; ++i)
      fill(detail::first(context_, std::ssize(context_) - rows + 1 + i), output_.data() + i * vocab_size());
    return {output_.data(), rows, vocab_size()};
  }

  /// Keeps the first `length` tokens of the context.
  void truncate(Index length) {
    if (length < std::ssize(context_)) detail::resize(context_, std::max<Index>(length, 0));
  }

  /// The distribution after `context`, with the bits that a row of forward() has. The model's own context plays no part.
  /// Throws: InvalidArgument on a token outside the vocabulary.
  /// Cost: the cost of a row, and an allocation.
  Row distribution(std::span<const Token> context) const {
    detail::check_tokens("context", context, vocab_size());
    Row result(static_cast<std::size_t>(vocab_size()));
    fill(context, result.values_.data());
    return result;
  }

 private:
  using Counts = detail::NgramCounts;

  // A move copies the pointer.
  struct SharedCounts : std::shared_ptr<const Counts> {
    using Base = std::shared_ptr<const Counts>;
    SharedCounts(Base counts) : Base(std::move(counts)) {}
    SharedCounts(const SharedCounts&) = default;
    SharedCounts& operator=(const SharedCounts&) = default;
  };

  NgramModel(const SharedCounts& counts, Index order) : counts_(counts), order_(order) {}

  static void check_options(const Options& options) {
    if (options.order < 1) detail::invalid_argument("options.order = ", options.order, " is not positive");
    if (options.vocab_size < 1)
      detail::invalid_argument("options.vocab_size = ", options.vocab_size, " is not positive");
    if (options.vocab_size > detail::most_tokens)
      detail::invalid_argument("options.vocab_size = ", options.vocab_size, " is more than the ",
                               detail::most_tokens, " that token ids can tell apart");
  }

  void append(std::span<const Token> tokens) {
    const std::size_t needed = context_.size() + tokens.size();
    if (context_.capacity() < needed) context_.reserve(2 * needed);
    detail::append(context_, tokens);
  }

  // The longest suffix of the context, of at most order−1 tokens, that has a token after it in the text.
  Index longest_seen(std::span<const Token> context) const {
    Index node = Counts::root;
    const auto used = std::min(context.size(), static_cast<std::size_t>(order_ - 1));
    for (std::size_t k = 1; k <= used; ++k) {
      const Index longer = counts_->child(node, context[context.size() - k]);
      if (longer == Counts::none) break;
      node = longer;
    }
    return node;
  }

  // The recursion unrolled from its longest context: `left` is the weight that the shorter ones share.
  void fill(std::span<const Token> context, double* values) const {
    std::fill_n(values, vocab_size(), 0.0);
    double left = 1;
    for (Index node = longest_seen(context); node != Counts::none; node = counts_->parent(node)) {
      const auto successors = counts_->successors(node);
      if (successors.empty()) break;  // the root of an empty text
      const auto distinct = static_cast<double>(successors.size());
      const double share = left / (static_cast<double>(counts_->total(node)) + distinct);
      for (const auto& [token, count] : successors) values[token] += share * static_cast<double>(count);
      left = share * distinct;
    }
    const double rest = left / static_cast<double>(vocab_size());
    for (Index x = 0; x < vocab_size(); ++x) values[x] += rest;
  }

  SharedCounts counts_;
  Index order_;
  std::vector<Token> context_;
  std::vector<double> output_;
};

}  // namespace specdec
