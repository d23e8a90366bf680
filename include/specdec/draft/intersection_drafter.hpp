// Drafts with a small model of another vocabulary, from the tokens that both have.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/draft_model.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/kinds/mapped.hpp"
#include "specdec/rows/kinds/only_tokens.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/token_ids.hpp"

namespace specdec {

/// For each token of a draft vocabulary the target's token of the very same bytes, TokenMap::none where there is none: the
/// list that a TokenMap is made of, once the tokens that are no text (an end of text, say) have been paired by hand.
///
///   auto targets = match_tokens(draft.vocab_size(), draft_bytes, target.vocab_size(), target_bytes);
///   targets[draft_end] = target_end;
///   const TokenMap map{targets, target.vocab_size()};
///
/// bytes(token) returns what converts to std::string_view. Tokens without bytes match nothing; of tokens with equal bytes in
/// one vocabulary the lowest id counts. Cost: O(bytes) of both vocabularies, in a hash table.
template <class DraftBytes, class TargetBytes>
std::vector<Token> match_tokens(Index draft_vocab_size, const DraftBytes& draft_bytes,
                                Index target_vocab_size, const TargetBytes& target_bytes) {
  std::unordered_map<std::string, Token> targets;
  for (Index x = 0; x < target_vocab_size; ++x) {
    const auto& bytes = target_bytes(static_cast<Token>(x));
    targets.try_emplace(std::string(std::string_view(bytes)), static_cast<Token>(x));
  }
  std::vector<Token> matched(static_cast<std::size_t>(std::max<Index>(draft_vocab_size, 0)), TokenMap::none);
  for (std::size_t d = 0; d < matched.size(); ++d) {
    const auto& bytes = draft_bytes(static_cast<Token>(d));
    const std::string_view piece = bytes;
    const auto found = piece.empty() ? targets.end() : targets.find(std::string(piece));
    if (found == targets.end()) continue;
    matched[d] = found->second;
    targets.erase(found);  // the next one of these bytes finds nothing
  }
  return matched;
}

/// Drafts autoregressively with a model of another vocabulary: from each of its rows the tokens that the target has, too, are
/// drawn, each as likely as it is among them, and reported by the target's ids with the very rows that they were drawn from.
///
///   IntersectionDrafter drafter{small, map};    // a reduced draft head, or token-level intersection
///
/// The model reads the text in its own tokens: a token of the target that it has by its partner, any other as token 0, or as
/// spelled(x), a range of draft tokens (those of its bytes by the draft's tokenizer, say; it may be empty), which is asked
/// once for each. A token beyond the map, which the padding of a target's rows may have, is read as token 0. How the text
/// is shown costs acceptance, never exactness: the rows are a function of the text, and tokens are drawn from nothing else.
///
/// Source: Timor et al., "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for Heterogeneous
/// Vocabularies", arXiv:2502.05202 (token-level intersection, TLI); the spelling is ours. Li et al., "EAGLE-3",
/// arXiv:2503.01840 (heads over a part of the target's vocabulary, where the map leaves nothing out).
/// A model passed as an lvalue is referred to and must outlive the drafter; an rvalue is moved in. Drafters that refer to
/// one model, and copies of a drafter, may take turns: whoever takes over feeds its context anew.
/// What the model's rows are cut to (top-k, temperature 0) is cut before that. To have it cut from common tokens, forbid the
/// others in the hook of a ProcessedModel: a logit of −inf where map.mapped() is 0.
/// A draft ends where the model has no mass on common tokens, and where its context is full (context_size). Greedy block
/// verification, which needs drafts of a settled length, does not compile with it (see Drafter: steady).
/// Random: one draw per token. Cost: γ calls of the model, of which the first also takes in what it has not seen, a copy of
/// each row unless the model promises stable ones, and a pass over it. No allocation in steady state.
template <class M>
class IntersectionDrafter {
  using DraftModel = detail::DraftModel<M>;
  using Inner = typename DraftModel::Rows;

 public:
  /// A row that is drawn from, over the target's tokens.
  using Row = MappedRow<OnlyTokensRow<typename Inner::Stored>>;

  static constexpr bool steady = false;  // a row without mass on common tokens ends the draft

  /// Throws: std::invalid_argument unless the map is one of the model's vocabulary.
  IntersectionDrafter(M&& model, const TokenMap& map)
      : IntersectionDrafter(std::forward<M>(model), map, [](Token) { return std::span(&unknown, 1); }) {}

  /// Throws also on a spelling that holds a token outside the model's vocabulary, and what spelled() throws.
  template <std::invocable<Token> Spelled>
  IntersectionDrafter(M&& model, const TokenMap& map, const Spelled& spelled)
      : model_(std::forward<M>(model)), map_(map) {
    if (map.draft_vocab_size() != model_.vocab_size())
      detail::invalid_argument("the map is one of ", map.draft_vocab_size(),
                               " draft tokens, but the draft model has ", model_.vocab_size());
    for (Index x = 0; x < map.vocab_size(); ++x) spell(static_cast<Token>(x), spelled);
  }

  /// Throws: std::invalid_argument on an empty context, and where the model returns rows of another shape than asked for.
  template <RandomSource Source>
  Draft<RowSpan<Row>> draft(std::span<const Token> context, Index gamma, Source& source) & {
    return draft(context, gamma, source, [](const Row&, Index) { return true; });
  }

  /// Drafts, and ends the draft where goes_on(row, i) says no to the row that token i would be drawn from.
  template <RandomSource Source, std::predicate<const Row&, Index> GoesOn>
  Draft<RowSpan<Row>> draft(std::span<const Token> context, Index gamma, Source& source, GoesOn&& goes_on) & {
    if (context.empty()) detail::invalid_argument("context is empty: there is nothing to continue");
    auto&& chance = as_chance(source);
    tokens_.clear();
    inner_.clear();
    rows_.clear();
    read(context);
    const Index most = read_.empty() ? 0 : std::min(gamma, model_.room(read_));
    if (most > 0) model_.take();
    for (Index i = 0; i < most; ++i) {
      const auto& output =
          model_.forward(i == 0 ? model_.unseen(read_) : std::span<const Token>(read_).last(1));
      const Row q = common_row(model_.row(distributions(output)), i);
      if (!(q.row().mass() > 0) || !goes_on(q, i)) break;
      add(chance.draw(detail::NamedRow(q, "draft", i)));
      rows_.add(q);
    }
    return {tokens_, rows_.first(rows_.size(), map_.vocab_size())};
  }

  /// The model, where others may refer to it, too.
  template <class Visit>
    requires detail::MayBeShared<M>
  void each_identity(const Visit& visit) const {
    model_.each_identity(visit);
  }

  void truncate(Index length) {
    keep(static_cast<std::size_t>(std::max<Index>(length, 0)));
    model_.truncate(std::ssize(read_));
  }

 private:
  static constexpr Token unknown = 0;

  template <class Spelled>
  void spell(Token x, const Spelled& spelled) {
    if (const Token d = map_.from(x); d != TokenMap::none) {
      spellings_.push_back(d);
    } else {
      const std::size_t before = spellings_.size();
      for (const Token part : spelled(x)) spellings_.push_back(part);
      detail::check_tokens("spelled", std::span<const Token>(spellings_).subspan(before),
                           model_.vocab_size());
    }
    spelling_ends_.push_back(spellings_.size());
  }

  // Keeps what was read of the first `length` tokens of the text, drafted ones included.
  void keep(std::size_t length) {
    if (length < ends_.size()) ends_.resize(length);
    read_.resize(ends_.empty() ? 0 : ends_.back());
  }

  // The context in the model's tokens. What survived of it, and of the draft, has been read.
  void read(std::span<const Token> context) {
    keep(context.size());
    for (const Token x : context.subspan(ends_.size())) {
      const auto i = static_cast<std::size_t>(x);
      if (i < spelling_ends_.size()) {
        for (std::size_t k = i == 0 ? 0 : spelling_ends_[i - 1]; k < spelling_ends_[i]; ++k)
          read_.push_back(spellings_[k]);
      } else {
        read_.push_back(unknown);  // it is beyond the map
      }
      ends_.push_back(read_.size());
    }
  }

  // What token i is drawn from: the model's row, as far as the target has its tokens.
  Row common_row(const typename DraftModel::Row& row, Index i) {
    const detail::NamedRow name(row, "draft", i);
    inner_.add(name);
    return name.named([&] { return Row(OnlyTokensRow(inner_[i], map_.mapped()), map_); });
  }

  void add(Token x) {
    tokens_.push_back(x);
    read_.push_back(map_.from(x));
    ends_.push_back(read_.size());
  }

  DraftModel model_;
  TokenMap map_;
  std::vector<Token> spellings_;  // of all tokens of the target, one behind the other
  std::vector<std::size_t> spelling_ends_;
  std::vector<Token> read_;        // the text in the model's tokens
  std::vector<std::size_t> ends_;  // of the text's tokens in it
  std::vector<Token> tokens_;
  Inner inner_;
  StoredRows<Row, true> rows_;
};

template <class M>
IntersectionDrafter(M&&, const TokenMap&) -> IntersectionDrafter<M>;
template <class M, class Spelled>
IntersectionDrafter(M&&, const TokenMap&, const Spelled&) -> IntersectionDrafter<M>;

}  // namespace specdec
