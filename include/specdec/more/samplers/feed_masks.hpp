// The masks of a grammar for the rows of a feed, for engines that mask their logits themselves.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/sample/row_errors.hpp"
#include "specdec/sample/texts_of_model.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// A row that a grammar forbids tokens in: a bit for each token, set if the token is allowed.
class MaskRow {
 public:
  using Scalar = float;

  MaskRow(std::span<std::uint32_t> words, Index vocab_size) : words_(words), vocab_size_(vocab_size) {}

  Index vocab_size() const { return vocab_size_; }
  /// Forbids all tokens but those of the mask that are among the first `known`.
  void allow(std::span<const std::uint32_t> mask, Index known) const {
    for (Index k = 0; k < std::ssize(words_); ++k) {
      const Index left = known - 32 * k;
      const std::uint32_t among =
          left >= 32 ? ~std::uint32_t{0} : (std::uint32_t{1} << std::max<Index>(left, 0)) - 1;
      at(words_, k) &= k < std::ssize(mask) ? at(mask, k) & among : 0;
    }
  }
  /// The logit that the mask stands for.
  const Scalar* find(Token x) const {
    static constexpr Scalar allowed = 0, forbidden = -std::numeric_limits<Scalar>::infinity();
    if (x < 0 || x >= vocab_size_) return nullptr;
    return ((at(words_, x / 32) >> (x % 32)) & 1u) != 0 ? &allowed : &forbidden;
  }

 private:
  std::span<std::uint32_t> words_;
  Index vocab_size_;
};

}  // namespace detail

/// Tells which tokens a grammar allows in each row of a feed. For an engine that masks its logits itself, on its device, say: the target is a
/// plain ExternalTarget then, and the masks are made while the engine's call is out.
///
///   FeedMasks masks{AfterPrompt{prompt.size(), Grammar{matcher}}, vocab_size};
///   const Feed feed = sequence.propose(rng);
///   std::span<const std::uint32_t> bits = masks(sequence.context(), feed);                             // of one text
///   std::span<const std::uint32_t> bits = masks(batch.sequence(feed.sequence).context(), batch_feed);  // of many
///
/// `grammar` is a Grammar, Processors of grammars, either AfterPrompt, or a function of the sequence's number that returns one. Each
/// sequence has a copy, which follows the text. A feed may be asked for again, or not at all.
/// Shapes: feed.rows × words(). Bit x % 32 of word x / 32 of a row is set if token x is allowed there, as xgrammar and llguidance have
/// it. A row without a set bit is not read (or is a dead end): its token comes after one that the grammar refuses.
/// Throws: InvalidArgument where vocab_size is below 1, on a feed that does not fit the context, or if the grammar refuses the text; what the grammar throws. Can be asked again then.
/// Cost: that of the matcher; the text is compared with the tokens that were shown. No allocation in steady state.
template <class G>
class FeedMasks {
  static_assert(detail::ChangesLogits<G, detail::MaskRow>,
                "the grammar is no specdec::Grammar, and no function that returns one by a specdec::Index");
  using Changer = detail::LogitsChanger<G, detail::MaskRow>;

 public:
  FeedMasks(G grammar, Index vocab_size) : changer_(std::move(grammar)), vocab_size_(vocab_size) {
    if (vocab_size < 1) detail::invalid_argument("vocab_size = ", vocab_size, " is not positive");
  }

  /// How many words a row has.
  Index words() const { return (vocab_size_ + 31) / 32; }

  /// The masks of a feed's rows. `context` is the text, which may go on after the first feed.from tokens. They live until the next call.
  std::span<const std::uint32_t> operator()(std::span<const Token> context, const BatchFeed& feed) & {
    if (feed.from < 0 || feed.from > std::ssize(context))
      detail::invalid_argument("feed.from = ", feed.from, " is outside 0..", std::ssize(context),
                               ", the length of the context");
    if (feed.rows < 0 || feed.rows > std::ssize(feed.tokens))
      detail::invalid_argument("feed.rows = ", feed.rows, " is outside 0..", std::ssize(feed.tokens),
                               ", the number of its tokens");
    auto& text = texts_.at(feed.sequence, [&] { return changer_.begin(feed.sequence); });
    detail::assign(masks_, feed.rows * words(), 0);
    detail::assign(reached_, feed.rows, 0);
    detail::add_after(detail::first(context, feed.from), feed, text);
    changer_.process(
        feed.sequence, text, 0, feed.rows, [this](Index i) { return row(i); }, errors_);
    return detail::view_of(masks_);
  }
  std::span<const std::uint32_t> operator()(std::span<const Token> context, const Feed& feed) & {
    return (*this)(context, BatchFeed{feed, 0});
  }
  /// Forgets a sequence.
  void release(Index sequence) { texts_.erase(sequence); }

 private:
  detail::MaskRow row(Index i) {
    const std::span<std::uint32_t> words(masks_.data() + i * this->words(),
                                         static_cast<std::size_t>(this->words()));
    const detail::MaskRow row(words, vocab_size_);
    if (!std::exchange(detail::at(reached_, i), 1)) {
      std::ranges::fill(words, ~std::uint32_t{0});
      row.allow(words, vocab_size_);
    }
    return row;
  }

  Changer changer_;
  Index vocab_size_;
  detail::PerSequence<typename Changer::Text> texts_;
  std::vector<std::uint32_t> masks_;
  std::vector<int> reached_;  // for each row 1 if the text comes there
  detail::RowErrors<false> errors_;
};

}  // namespace specdec
