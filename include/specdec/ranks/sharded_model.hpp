// A target whose vocabulary is spread over ranks.
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
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/model/wrapped_tree.hpp"
#include "specdec/ranks/chain_over_ranks.hpp"
#include "specdec/ranks/communicator.hpp"
#include "specdec/ranks/cut_logits.hpp"
#include "specdec/ranks/exchange.hpp"
#include "specdec/ranks/sharded.hpp"
#include "specdec/sample/chain.hpp"
#include "specdec/sample/fed_texts.hpp"
#include "specdec/sample/logit_columns.hpp"
#include "specdec/sample/of_sequence.hpp"
#include "specdec/sample/steps_of_rows.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// How the rows of a ShardedModel are sampled.
struct ShardedOptions {
  double temperature =
      1;  ///< before the steps of a chain; 0 puts all on the largest logit, the lowest id among equals
  Index draws =
      2;  ///< tokens that are drawn ahead from every row; what a verdict needs beyond them costs an exchange
};

/// Makes a target of a model of which each rank computes some columns of the logits: the output layer cut by vocabulary. The
/// model's calls return LogitColumns, and its vocab_size() is that of all ranks together. All ranks run one loop on the target,
/// with drafters and generators of equal seeds, and write one text, which is that of one rank as far as the rounding of sums
/// decides nothing. A draft length or a tree that goes by measured times is none for ranks: these differ, and the ranks find
/// out, and throw.
///
///   specdec::ShardedModel target{mine, ranks, std::mt19937_64{seed}, {.temperature = 0.8}};
///   specdec::ShardedModel target{mine, ranks, std::mt19937_64{seed}, specdec::Chain{specdec::TopK{40}}};
///   specdec::SpecDec decoder{target, drafter, specdec::BlockVerifier{}};    // on every rank
///
/// A chain of Temperature, TopK, TopP and MinP leaves of the rows what it leaves of whole ones: see ChainOverRanks.
/// Penalties, grammars and hooks come before it: ShardedModel{ProcessedModel{mine, processor}, ranks, source, chain}. The
/// drafter has both by itself, as in a loop of one rank.
/// Around a model for one text it is a Model, around one for many texts a BatchModel, and takes trees where the model does.
/// Of many texts each draws ahead by a generator of its own, which a function tells by the sequence's number when it begins,
/// and may have a chain of its own, which a function tells before each call:
///
///   specdec::ShardedModel target{many, ranks, [&](specdec::Index n) { return std::mt19937_64{seeds.at(n)}; }, chain_of};
///   specdec::Batch batch{target, drafter, specdec::BlockVerifier{}};        // on every rank
///
/// Every rank adds the same texts in the same order, and steps with InOrder, which is what Batch does by itself: what judges
/// a text may ask the other ranks.
/// A call takes two exchanges, whatever the vocabulary and however many texts there are: the tokens that are fed last are
/// those that were drafted, so they are looked up with the normalisers, each in the row that it follows, and draws are made
/// ahead. To them come those that the chain takes, one for MinP, three to five as a rule for each TopK and TopP.
/// A model passed as an lvalue is referred to and must outlive this, as must the communicator; an rvalue is moved in. Give it
/// with empty contexts. For targets: a draft model is small, and runs whole on every rank.
/// Throws what ChainOverRanks and Shards throw, on all ranks alike, with the contexts as they were before; open trees, too,
/// but for room that is lost in the model's own until they are closed. Of many texts, what is thrown about a row is thrown
/// where the row is asked for: it is the failure of that sequence. What the model, a processor or a function throws on one rank
/// alone is thrown there; the others throw InvalidDistribution where it is about a row, else what their communicator throws.
template <class M, Communicator C, class Source, class Steps = Chain<>>
class ShardedModel : public detail::WrapsModel<ShardedModel<M, C, Source, Steps>, M> {
  using Base = detail::WrapsModel<ShardedModel, M>;
  friend Base;
  using Base::for_many;
  using Bare = std::remove_reference_t<M>;
  static_assert(detail::can_be_wrapped<Bare>());
  using Output = std::remove_cvref_t<detail::OutputOf<Bare>>;
  static_assert(detail::is_logit_columns<Output>,
                "the model's forward() returns no specdec::LogitColumns, the logits of this rank's tokens");
  static_assert(for_many || RandomBitGenerator<Source>, "the source is no random bit generator");
  static_assert(!for_many || RandomBitGenerator<detail::OfSequence<Source>>,
                "of a model for many texts each draws ahead by a generator of its own: the source is no "
                "function that tells one by a specdec::Index");
  static_assert(
      RowStep<Steps> || (for_many && RowStep<detail::OfSequence<Steps>>),
      "the chain is no specdec::RowStep, such as specdec::Chain, and, of a model for many texts, no "
      "function that tells one by a specdec::Index");

  using Mine = CutLogits<Output>;

 public:
  static constexpr bool keeps_context = true;

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
    if constexpr (for_many) return source(sequence);
    else return (source);
  }
  using Generator = std::remove_cvref_t<decltype(generator_of(std::declval<Source&>(), Index{}))>;

  // What is kept of a sequence.
  class Text {
   public:
    explicit Text(Generator generator) : source(std::move(generator)) {}

    Index length() const { return length_; }
    detail::WrappedTree& tree() { return tree_; }
    void add(std::span<const Token> tokens) { length_ += std::ssize(tokens); }
    void add(std::span<const Token> tokens, std::span<const Index> parents) {
      detail::check_parents(tokens, parents, tree_.size());
      tree_.reserve(tokens.size());
      tree_.add(tokens, parents);
    }
    void keep(std::span<const Index> path) {
      length_ += std::ssize(path);
      tree_.clear();
    }
    void forget_from(Index node) { tree_.forget_from(node); }
    void truncate(Index length) {
      length_ = std::clamp<Index>(length, 0, length_);
      tree_.clear();
    }

    Generator source;  // draws ahead

   private:
    Index length_ = 0;
    detail::WrappedTree tree_;
  };

  ShardedRows<Mine, C> forward_feeds(std::span<const BatchFeed> feeds) {
    shards_.reset();
    // A rank that fails by itself leaves none waiting: the others throw at the exchange that follows.
    detail::Exchange<C> exchange(*ranks_);
    std::span<const BatchFeed> of_model;
    exchange.prepare([&] {
      for (std::size_t k = 0; k < feeds.size(); ++k) detail::FeedCheck<for_many>{feeds[k], k}.rows();
      steps_.ask(feeds);
      of_model = texts_.enter(feeds, [this](Index n) { return Text(generator_of(source_, n)); });
    });
    try {
      exchange.prepare([&] {
        output_.emplace(this->inner().forward(of_model));
        texts_.taken(feeds);
        find_drafted(feeds);
      });
      share();
    } catch (...) {
      texts_.leave(feeds, this->inner());
      throw;
    }
    return shards_->rows();
  }

  void keep_path(Index sequence, std::span<const Index> path) { texts_.keep(sequence, path, this->inner()); }
  void keep_length(Index sequence, Index length) { texts_.truncate(sequence, length, this->inner()); }
  void forget(Index sequence) { texts_.forget(sequence, this->inner()); }

  // Where what was drafted is looked up, and whose the rows are.
  void find_drafted(std::span<const BatchFeed> feeds) {
    tokens_.clear();
    parents_.clear();
    texts_of_rows_.clear();
    for (const BatchFeed& feed : feeds) {
      find_drafted(feed, std::ssize(texts_of_rows_));
      texts_of_rows_.insert(texts_of_rows_.end(), static_cast<std::size_t>(feed.rows),
                            &texts_.at(feed.sequence));
    }
  }

  // The feed has the rows from number `first` on, of which the first one stands after what was not drafted in this call.
  void find_drafted(const BatchFeed& feed, Index first) {
    const auto drafted = static_cast<std::size_t>(std::max<Index>(feed.rows - 1, 0));
    const std::span<const Token> tokens = feed.tokens.last(drafted);
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    const Index before = feed.parents.empty() ? 0 : texts_.at(feed.sequence).tree().size() - feed.rows;
    for (std::size_t k = 0; k < drafted; ++k) {
      const Index row = feed.parents.empty() ? static_cast<Index>(k) : feed.parents.last(drafted)[k] - before;
      parents_.push_back(row < 0 ? nowhere : first + row - 1);
    }
  }

  void share() {
    const Index vocab_size = this->vocab_size();
    shards_.emplace(cuts_(*output_, vocab_size, options_.temperature, steps_), output_->first(), vocab_size,
                    *ranks_, std::span<const Token>(tokens_), TokenIds(parents_), for_many);
    shards_->draw_ahead(options_.draws, [this](Index row) {
      return uniform01(texts_of_rows_[static_cast<std::size_t>(row)]->source);
    });
  }

  static constexpr Index nowhere = -2;  // for Shards: after no token whose row there is

  C* ranks_;
  Source source_;
  detail::StepsOfRows<Steps> steps_;
  detail::CutsOverRanks<C> cuts_;
  ShardedOptions options_;
  detail::FedTexts<Text, for_many> texts_;
  std::vector<Token> tokens_;   // that were drafted
  std::vector<Index> parents_;  // of these: one less than the row that each is looked up in
  std::vector<Text*> texts_of_rows_;
  std::optional<Output> output_;
  std::optional<Shards<Mine, C>> shards_;
};

template <class M, class C, class G>
ShardedModel(M&&, C&, G, const ShardedOptions& = {}) -> ShardedModel<M, C, G>;
template <class M, class C, class G, class Steps>
  requires(!std::same_as<Steps, ShardedOptions>)
ShardedModel(M&&, C&, G, Steps, const ShardedOptions& = {}) -> ShardedModel<M, C, G, Steps>;

}  // namespace specdec
