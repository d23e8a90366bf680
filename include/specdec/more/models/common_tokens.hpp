// Draft models that have another vocabulary than the target.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/fed_texts.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/model.hpp"
#include "specdec/more/rows/mapped.hpp"
#include "specdec/more/text/spelled_text.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/rows/kinds/part_of_row.hpp"
#include "specdec/rows/kinds/row_copy.hpp"
#include "specdec/rows/kinds/variant_rows.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The draft model's distribution restricted to the tokens that the target has, too, and read with the target's ids.
/// Cost: for look-ups and draws see MappedRow and PartOfRow.
template <Distribution R>
using CommonTokensRow = MappedRow<VariantRow<PartOfRow<R, OnlyTokens>, OneHotRow>>;

/// Copies the draft model's row with the RowCopy of that row's type.
template <class R>
class RowCopy<CommonTokensRow<R>> {
  using Copied = typename RowCopy<R>::View;
  using Either = VariantRow<PartOfRow<Copied, OnlyTokens>, OneHotRow>;

 public:
  using View = CommonTokensRow<Copied>;

  View assign(const CommonTokensRow<R>& row) & {
    const auto& held = row.row().held();
    if (const auto* const common = std::get_if<0>(&held))
      return row.of_copy(Either(std::in_place_index<0>, common->of_copy(copy_.assign(common->row()))));
    return row.of_copy(Either(std::in_place_index<1>, std::get<1>(held)));
  }

 private:
  RowCopy<R> copy_;
};

namespace detail {

/// The row restricted to common tokens. If they have no mass, or if there is no row, the one-hot row of draft token `otherwise`,
/// which the target has. The map, or a copy of it, must outlive the row.
/// Throws: InvalidDistribution if the mass of these tokens is no finite number.
/// Cost: one pass over the row.
template <Distribution R>
CommonTokensRow<R> common_tokens(const std::optional<R>& row, const TokenMap& map, Token otherwise) {
  if (row)
    if (const PartOfRow<R, OnlyTokens> common(*row, {map.mapped()}); common.mass() > 0)
      return {{std::in_place_index<0>, common}, map};
  return {{std::in_place_index<1>, OneHotRow(otherwise)}, map};
}

/// The rows of a model with another vocabulary, as rows over the target's vocabulary. Row i is the model's row places[i]. A
/// view of the model's rows, of `places` and of the map.
template <class Matrix>
class CommonTokensRows {
  using Row = RowOf<Matrix>;

 public:
  CommonTokensRows(const std::optional<Matrix>& rows, std::span<const Index> places, const TokenMap& map,
                   Token otherwise)
      : rows_(rows), places_(places), map_(&map), otherwise_(otherwise) {}

  Index rows() const { return std::ssize(places_); }
  Index vocab_size() const { return map_->vocab_size(); }
  CommonTokensRow<Row> row(Index i) const {
    const Index place = at(places_, i);
    return common_tokens<Row>(
        place == SpelledText::nowhere ? std::nullopt : std::optional<Row>(rows_->row(place)), *map_,
        otherwise_);
  }

 private:
  std::optional<Matrix> rows_;  // none if the model was not called
  std::span<const Index> places_;
  const TokenMap* map_;
  Token otherwise_;
};

}  // namespace detail

/// Makes a model with another vocabulary a model over the target's vocabulary. Its rows hold the tokens that both
/// vocabularies have, with the model's probabilities renormalised over these common tokens. A wrapper (see model/feeds.hpp)
/// that takes trees if the model does.
///
///   ModelDrafter drafter{CommonTokens{small, map}};    // a reduced draft head, or token-level intersection
///   ModelDrafter drafter{CommonTokens{small, map, spelled}, ConfidentTree{.nodes = 48}};
///   CommonTokens{Windowed{ProcessedModel{engine, chain}, 4, 508}, map, spelled};
///
/// The model reads the text in its own tokens. A common token is shown as its partner in the model's vocabulary. Any other
/// token x is shown as spelled(x), a range of draft tokens: for example its bytes as the draft's tokenizer writes them.
/// spelled() is called once for each such token. A token is shown as token 0 if there is no spelled(), if its spelling is
/// empty, or if it lies beyond the map (padding of a target's rows). A bad spelling costs acceptance, never exactness: the
/// rows depend on the text alone, and tokens are drawn from these rows alone.
///
/// If the model's row has no mass on common tokens, the row is one-hot at the common token with the lowest draft id. This
/// costs acceptance, too. The row is also one-hot at this token if the spelled text does not fit into the model's context.
/// This can happen because context_size() is the model's own, a spelling may take more tokens than one, and all nodes of a
/// tree count. A Windowed inside, as above, shows the model the latest part of the text instead; it takes no trees.
/// Top-k, temperature 0 and other cuts inside the model come before the renormalisation. To cut among common tokens only,
/// forbid the other tokens in the hook of a ProcessedModel: a logit of −inf where map.mapped() is 0.
/// Source: Timor et al., "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for Heterogeneous
/// Vocabularies", arXiv:2502.05202 (token-level intersection, TLI); the spelling is ours. Li et al., "EAGLE-3",
/// arXiv:2503.01840 (draft heads over a part of the target's vocabulary: all their tokens are common).
/// Throws: also InvalidArgument if the map is for another vocabulary than the model's, if it maps nothing, or if a
/// spelling has a token outside the model's vocabulary; what spelled() throws. A throw of forward() closes the trees of the
/// texts in the call. Reading a row with a mass on common tokens that is not finite throws InvalidDistribution.
/// Cost: a call of the model, with the tokens of the spellings; a pass over each row that is read. Rows are stable if the
/// model's are.
/// Example: examples/write/other_tokenizer.cpp.
template <class M>
class CommonTokens : public detail::WrapsModel<CommonTokens<M>, M> {
  using Base = detail::WrapsModel<CommonTokens, M>;
  friend typename Base::Functions;
  using Bare = std::remove_reference_t<M>;
  static_assert(detail::can_be_wrapped<Bare>());
  using Output = detail::OutputOf<Bare>;
  using Value = std::remove_cvref_t<Output>;
  static_assert(Probabilities<Value>,
                "the model's forward() returns no rows of probabilities: a model of logits goes into a "
                "ProcessedModel, and that into this");
  using Matrix = std::remove_cvref_t<decltype(distributions(std::declval<const Value&>()))>;

 public:
  CommonTokens(M&& model, TokenMap map)
      : CommonTokens(std::forward<M>(model), std::move(map), [](Token) { return std::span<const Token>{}; }) {
  }

  template <std::invocable<Token> Spelled>
  CommonTokens(M&& model, TokenMap map, const Spelled& spelled)
      : Base(std::forward<M>(model)),
        map_(checked(std::move(map), this->inner().model().vocab_size())),
        spellings_(std::make_shared<const detail::Spellings>(map_, spelled)) {
    while (map_.to(otherwise_) == TokenMap::none) ++otherwise_;
  }

  /// The size of the target's vocabulary.
  Index vocab_size() const { return map_.vocab_size(); }

  /// This does not know tokens that the model was fed directly.
  static constexpr bool keeps_context = true;
  static constexpr bool stable_rows = has_stable_rows<Bare>;

 private:
  static TokenMap checked(TokenMap map, Index vocab_size) {
    if (map.draft_vocab_size() != vocab_size)
      detail::invalid_argument("the map is one of ", map.draft_vocab_size(),
                               " draft tokens, but the draft model has ", vocab_size);
    if (map.size() == 0) detail::invalid_argument("the map maps no token: nothing can be drafted");
    return map;
  }

  detail::SpelledText begin_text(Index) const { return detail::SpelledText(*spellings_); }

  auto rows_after(std::span<const BatchFeed> feeds, std::span<const BatchFeed>) {
    std::optional<Matrix> rows;
    begin_call(feeds);
    if (!of_model_.empty()) rows.emplace(ask());
    for (const BatchFeed& feed : feeds)
      if (feed.parents.empty()) texts_.at(feed.sequence).close_line();
    return detail::CommonTokensRows<Matrix>(rows, places_, map_, otherwise_);
  }

  // Finds the tokens that the model is fed, and the places of its rows.
  void begin_call(std::span<const BatchFeed> feeds) {
    of_model_.clear();
    places_.clear();
    rows_ = 0;
    for (const BatchFeed& feed : feeds) {
      detail::SpelledText& text = texts_.at(feed.sequence);
      const Feed shown = text.feed(feed.parents.empty(), feed.rows, this->context_size(), rows_, places_);
      if (shown.tokens.empty()) continue;
      of_model_.push_back({shown, feed.sequence});
      rows_ += std::max<Index>(shown.rows, Base::one_text ? 1 : 0);
    }
  }

  Matrix ask() {
    const Value& output = output_of_model();
    Matrix rows = distributions(output);
    detail::check_shape("model", rows.rows(), detail::row_size(rows), rows_, map_.draft_vocab_size());
    return rows;
  }
  const Value& output_of_model() {
    if constexpr (std::is_reference_v<Output>) return this->inner().forward(detail::view_of(of_model_));
    else return kept_.emplace(this->inner().forward(detail::view_of(of_model_)));
  }

  TokenMap map_;
  std::shared_ptr<const detail::Spellings> spellings_;  // copies share them
  Token otherwise_ = 0;  // in the draft vocabulary: the first token that both have
  detail::FedTexts<detail::SpelledText> texts_;
  std::vector<BatchFeed> of_model_;
  std::vector<Index> places_;  // places_[i] is the model's row for row i
  Index rows_ = 0;             // how many rows the model returns
  std::optional<Value> kept_;  // a matrix that the model returned by value: rows are views of it
};

template <class M>
CommonTokens(M&&, TokenMap) -> CommonTokens<M>;
template <class M, class Spelled>
CommonTokens(M&&, TokenMap, const Spelled&) -> CommonTokens<M>;

}  // namespace specdec
