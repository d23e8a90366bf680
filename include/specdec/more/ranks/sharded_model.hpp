// A target with a vocabulary that is spread over ranks.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/fed_texts.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/more/ranks/chain_over_ranks.hpp"
#include "specdec/more/ranks/communicator.hpp"
#include "specdec/more/ranks/exchange.hpp"
#include "specdec/more/ranks/logit_columns.hpp"
#include "specdec/more/ranks/sharded.hpp"
#include "specdec/more/ranks/steps_over_ranks.hpp"
#include "specdec/sample/chain.hpp"
#include "specdec/sample/model_logits.hpp"
#include "specdec/sample/steps_of_rows.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// How the rows of a ShardedModel are sampled.
struct ShardedOptions {
  double temperature = 1;  ///< applied before the chain; 0 is the argmax, the lowest id among equal logits
  Index draws = 2;  ///< tokens drawn ahead from every row; each further draw of a verdict costs an exchange
};

namespace detail {

/// A value that is neither copied nor moved with its holder: a copy, and what was moved into, have none.
template <class T>
struct Unmoved {
  std::optional<T> value = {};
  Unmoved() = default;
  Unmoved(const Unmoved&) noexcept {}
  Unmoved& operator=(const Unmoved&) noexcept {
    value.reset();
    return *this;
  }
  ~Unmoved() = default;
};

/// A function is taken by value; of a generator it must be known whether it is an lvalue.
template <class G>
using SourceOfDraws =
    std::conditional_t<RandomBitGenerator<std::remove_cvref_t<G>>, G, std::remove_cvref_t<G>>;

}  // namespace detail

/// Makes a target of a model with an output layer that is cut by vocabulary: each rank computes some columns of the logits.
/// The model's calls return LogitColumns; its vocab_size() counts the tokens of all ranks. Every rank runs the loop on the
/// target, with equal drafters and with generators of equal seeds. All ranks write one text. One rank alone would write this
/// text, too, unless the rounding of a sum decides. Do not use a draft length or a tree that depends on measured times:
/// times differ between ranks, and the ranks then throw.
///
///   specdec::ShardedModel target{mine, ranks, std::mt19937_64{seed}, {.temperature = 0.8}};
///   specdec::ShardedModel target{mine, ranks, std::mt19937_64{seed}, specdec::Chain{specdec::TopK{40}}};
///   specdec::SpecDec decoder{target, drafter, specdec::BlockVerifier{}};    // on every rank
///
/// The chain acts on whole rows: see ChainOverRanks, which says what steps it may have. Penalties, grammars and hooks come before
/// it: ShardedModel{ProcessedModel{mine, processor}, ranks, source, chain}. The drafter needs its own chain and processor, as in
/// a loop on one rank. Around a model for one text this is a Model, around a model for many texts a BatchModel. It takes trees if
/// the model does. With many texts, each text draws ahead with its own generator: the source is a function that returns it for
/// the sequence's number, called when the sequence begins. Each text may have its own chain: a function returns it before each
/// call.
///
///   specdec::ShardedModel target{many, ranks, [&](specdec::Index n) { return std::mt19937_64{seeds.at(n)}; }, chain_of};
///   specdec::Batch batch{target, drafter, specdec::BlockVerifier{}};        // on every rank
///
/// Every rank adds the same texts in the same order, and steps with InOrder, the default of Batch: judging a text may take
/// exchanges, and all ranks need one order. Holds the model like a wrapper (model/feeds.hpp): its contexts must be empty. The
/// communicator must outlive this target. The source and the chain are taken by value; a generator that is an lvalue is refused.
/// For targets only: a draft model is small, and runs whole on every rank.
/// Throws, on all ranks: what ChainOverRanks and Shards throw. Contexts and open trees are then as before. Only the model's
/// own tree may lose room, until it is closed. With many texts, an error about a row is thrown when the row is asked for, so
/// that only its sequence fails. If the model, a processor or a function throws on one rank alone, that rank throws the
/// error. The other ranks throw InvalidDistribution if the error is about a row, else their communicator's error.
/// Cost: two exchanges a call, for any vocabulary and any number of texts: one for the normalisers and the probabilities of
/// the last tokens fed, which are the drafted ones, and one for the draws ahead. The chain adds one for each MinP, TopNSigma
/// and DynamicTemperature, and usually three to five for each TopK and TopP.
template <class M, class C, class Source, class Steps = Chain<>>
class ShardedModel : public detail::WrapsModel<ShardedModel<M, C, Source, Steps>, M> {
  using Base = detail::WrapsModel<ShardedModel, M>;
  friend typename Base::Functions;
  using Bare = std::remove_reference_t<M>;
  static_assert(detail::can_be_wrapped<Bare>());
  static_assert(Communicator<C>, "the communicator is no specdec::Communicator");
  using Output = std::remove_cvref_t<detail::OutputOf<Bare>>;
  static_assert(detail::ColumnsOfLogits<Output>,
                "the model's forward() returns no specdec::LogitColumns, the logits of this rank's tokens");
  static_assert(!std::is_lvalue_reference_v<Source>,
                "a generator that is an lvalue would be copied, and give its numbers twice: pass a generator "
                "of the target's own, such as std::mt19937_64{seed}");
  static constexpr bool one_source = RandomBitGenerator<std::remove_cvref_t<Source>>;
  static_assert(one_source || !Base::one_text || RandomBitGenerator<detail::OfSequence<Source>>,
                "the source is no random bit generator");
  static_assert(Base::one_text || RandomBitGenerator<detail::OfSequence<Source>>,
                "of a model for many texts each draws ahead by a generator of its own: the source is no "
                "function that tells one by a specdec::Index");
  static_assert(RowStep<Steps> || RowStep<detail::OfSequence<Steps>>,
                "the chain is no specdec::RowStep, such as specdec::Chain, and no function that tells one by "
                "a specdec::Index");

  using Mine = CutLogits<Output>;

 public:
  static constexpr bool keeps_context = true;
  static constexpr bool adopts = can_adopt<Bare>;  // on every rank

  ShardedModel(M&& model, C& ranks, Source source, const ShardedOptions& options = {})
    requires std::same_as<Steps, Chain<>>
      : ShardedModel(std::forward<M>(model), ranks, std::move(source), Chain<>{}, options) {}
  ShardedModel(M&& model, C& ranks, Source source, Steps steps, const ShardedOptions& options = {})
      : Base(std::forward<M>(model)),
        ranks_(&ranks),
        source_(std::move(source)),
        steps_(std::move(steps)),
        cuts_(ranks),
        options_(options) {
    if (!(options.temperature >= 0 && options.temperature <= std::numeric_limits<double>::max()))
      detail::invalid_argument("temperature = ", options.temperature, " is not a finite number >= 0");
    if (options.draws < 0) detail::invalid_argument("draws = ", options.draws, " is negative");
  }

 private:
  static decltype(auto) generator_of(Source& source, [[maybe_unused]] Index sequence) {
    if constexpr (one_source) return (source);
    else return source(sequence);
  }
  using Generator = std::remove_cvref_t<decltype(generator_of(std::declval<Source&>(), Index{}))>;

  struct Text : detail::FedText {
    explicit Text(Generator generator) : source(std::move(generator)) {}

    Generator source;  // draws ahead
  };

  auto begin() {
    return [this](Index sequence) { return Text(generator_of(source_, sequence)); };
  }

  ShardedRows<Mine, C> forward_feeds(std::span<const BatchFeed> feeds) {
    shards_.value.reset();
    // If this rank fails alone, no other rank waits: the others throw at the next exchange.
    detail::Exchange<C> exchange(*ranks_);
    std::span<const BatchFeed> of_model;
    exchange.prepare([&] {
      steps_.ask(feeds);
      of_model = texts_.enter(feeds, begin(), this->inner());
    });
    const auto ask = [&] {
      exchange.prepare([&] {
        output_.emplace(this->inner().forward(of_model));
        texts_.taken(feeds);
        find_drafted(feeds);
      });
      share();
    };
    detail::undo_on_error(ask, [&] { texts_.leave(feeds, this->inner()); });
    return shards_.value->rows();
  }

  // The twin draws ahead with a generator of its own.
  void fork_text(Index from, Index to) {
    const auto twin_of = [&](const Text& text) {
      Text twin = begin()(to);
      twin.detail::FedText::operator=(text);
      return twin;
    };
    texts_.fork(from, to, this->inner(), twin_of);
  }
  void adopt_text(Index sequence, std::span<const Token> tokens) {
    this->inner().adopt(sequence, tokens);
    texts_.adopt(sequence, tokens, begin());
  }

  // Finds the drafted tokens, the row that each is looked up in, and the text of each row. A feed's first row stands after the
  // last token that was not drafted in this call.
  void find_drafted(std::span<const BatchFeed> feeds) {
    tokens_.clear();
    parents_.clear();
    texts_of_rows_.clear();
    for (const BatchFeed& feed : feeds) {
      Text& text = texts_.at(feed.sequence);
      const TokenTreeView fed(feed.tokens, feed.parents);
      const Index first = std::ssize(texts_of_rows_);
      const Index last = feed.parents.empty() ? fed.size() : text.tree().size();
      for (Index k = fed.size() - std::max<Index>(feed.rows - 1, 0); k < fed.size(); ++k) {
        const Index row = fed.parent(k) - (last - feed.rows);
        tokens_.push_back(fed.token(k));
        parents_.push_back(row < 0 ? nowhere : first + row - 1);
      }
      texts_of_rows_.insert(texts_of_rows_.end(), static_cast<std::size_t>(feed.rows), &text);
    }
  }

  void share() {
    const Index vocab_size = this->vocab_size();
    shards_.value.emplace(cuts_(*output_, vocab_size, options_.temperature, steps_), output_->first(),
                          vocab_size, *ranks_, std::span<const Token>(tokens_), TokenIds(parents_),
                          !Base::one_text);
    shards_.value->draw_ahead(
        options_.draws, [this](Index row) { return uniform01(detail::at(texts_of_rows_, row)->source); });
  }

  static constexpr Index nowhere = -2;  // for Shards: no row to look the token up in

  C* ranks_;
  Source source_;
  detail::StepsOfRows<Steps> steps_;
  detail::CutsOverRanks<C> cuts_;
  ShardedOptions options_;
  detail::FedTexts<Text> texts_;
  std::vector<Token> tokens_;   // the drafted tokens
  std::vector<Index> parents_;  // their parents: tokens_[k] is looked up in row parents_[k] + 1
  std::vector<Text*> texts_of_rows_;
  std::optional<Output> output_;
  detail::Unmoved<Shards<Mine, C>> shards_;  // of the last call; they refer to output_
};

template <class M, class C, class G>
ShardedModel(M&&, C&, G&&, const ShardedOptions& = {}) -> ShardedModel<M, C, detail::SourceOfDraws<G>>;
template <class M, class C, class G, class Steps>
  requires(!std::same_as<Steps, ShardedOptions>)
ShardedModel(M&&, C&, G&&, Steps, const ShardedOptions& = {})
    -> ShardedModel<M, C, detail::SourceOfDraws<G>, Steps>;

}  // namespace specdec
