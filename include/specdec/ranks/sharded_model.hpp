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
#include "specdec/model/model.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/model/wrapped_tree.hpp"
#include "specdec/ranks/chain_over_ranks.hpp"
#include "specdec/ranks/communicator.hpp"
#include "specdec/ranks/cut_logits.hpp"
#include "specdec/ranks/sharded.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/sample/chain.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// A language model of which each rank computes some columns of the logits: the output layer cut by vocabulary.
///
///   vocab_size()            number of tokens, of all ranks together
///   first_column()          the first token that this rank has a column for
///   forward(tokens, rows)   appends the tokens; the logits after each of the last `rows` of them, in this rank's columns
///   truncate(length)
template <class M>
concept ColumnsModel = requires(M& model, const M& constant, std::span<const Token> tokens, Index n) {
  { constant.vocab_size() } -> detail::Count;
  { constant.first_column() } -> detail::Count;
  { model.forward(tokens, n) } -> NumberMatrix;
  model.truncate(n);
};

/// A ColumnsModel whose calls may branch: see model/trees.hpp.
template <class M>
concept ColumnsTreeModel = ColumnsModel<M> && requires(M& model, std::span<const Token> tokens,
                                                       std::span<const Index> numbers, Index n) {
  { model.forward(tokens, numbers, n) } -> std::same_as<decltype(model.forward(tokens, n))>;
  model.keep(numbers);
};

/// How the rows of a ShardedModel are sampled.
struct ShardedOptions {
  double temperature =
      1;  ///< before the steps of a chain; 0 puts all on the largest logit, the lowest id among equals
  Index draws =
      2;  ///< tokens that are drawn ahead from every row; what a verdict needs beyond them costs an exchange
};

/// Makes a target of a model that is spread over ranks. All of them run the same loop on it, with drafters and generators of
/// equal seeds, and write the same text. It is that of one rank, too, as far as the rounding of sums decides nothing. A draft
/// length or a tree that goes by measured times is none for ranks: these differ, and the ranks find out, and throw.
///
///   specdec::ShardedModel target{mine, ranks, std::mt19937_64{seed}, {.temperature = 0.8}};
///   specdec::ShardedModel target{mine, ranks, std::mt19937_64{seed}, specdec::Chain{specdec::TopK{40}}};
///   specdec::SpecDec decoder{target, drafter, specdec::BlockVerifier{}};    // on every rank
///
/// A chain of Temperature, TopK, TopP and MinP leaves of the rows what it leaves of whole ones: see ChainOverRanks. The
/// drafter has the chain by itself, as in a loop of one rank.
/// A call takes two exchanges, whatever the vocabulary: the tokens that are fed last are those that were drafted, so they
/// are looked up with the normalisers, and draws are made ahead, from a generator of the model's own. To them come those
/// that the chain takes, one for MinP, three to five as a rule for each TopK and TopP.
/// Takes trees where the model is a ColumnsTreeModel: a call that takes in a tree looks up each token behind its
/// parent, and takes as many exchanges.
/// A model passed as an lvalue is referred to and must outlive this, as must the communicator; an rvalue is moved in. Give it
/// with an empty context. For targets: a draft model is small, and runs whole on every rank.
/// Throws what ChainOverRanks and Shards throw, on all ranks alike, with the context as it was before; an open tree,
/// too, but for room that is lost in the model's own until keep() or truncate(). What the model throws has to be thrown on
/// all ranks, too: those that go on would wait.
template <class M, Communicator C, RandomBitGenerator Generator, RowStep Steps = Chain<>>
class ShardedModel {
  using Bare = std::remove_reference_t<M>;
  static_assert(ColumnsModel<Bare>, "the model is no specdec::ColumnsModel");
  using Output =
      std::remove_cvref_t<decltype(std::declval<Bare&>().forward(std::span<const Token>{}, Index{1}))>;
  using Mine = CutLogits<NumbersOf<Output>>;

 public:
  ShardedModel(M&& model, C& ranks, Generator source, const ShardedOptions& options = {})
    requires std::same_as<Steps, Chain<>>
      : ShardedModel(std::forward<M>(model), ranks, std::move(source), Chain<>{}, options) {}
  ShardedModel(M&& model, C& ranks, Generator source, Steps steps, const ShardedOptions& options = {})
      : model_(std::forward<M>(model)),
        ranks_(&ranks),
        source_(std::move(source)),
        steps_(std::move(steps), ranks),
        options_(options) {
    if (!(options.temperature >= 0 && options.temperature <= std::numeric_limits<double>::max()))
      detail::invalid_argument("temperature = ", options.temperature, " is not a finite number >= 0");
    if (options.draws < 0) detail::invalid_argument("draws = ", options.draws, " is negative");
  }

  Index vocab_size() const { return model_.vocab_size(); }
  Index context_size() const { return specdec::context_size(model_); }

  ShardedRows<Mine, C> forward(std::span<const Token> tokens, Index rows) & {
    shards_.reset();
    output_.emplace(model_.forward(tokens, rows));
    try {
      share(drafted(tokens, rows));
    } catch (...) {
      model_.truncate(length_);
      throw;
    }
    length_ += std::ssize(tokens);
    return shards_->rows();
  }

  ShardedRows<Mine, C> forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) &
        requires ColumnsTreeModel<Bare>
  {
    detail::check_parents(tokens, parents, tree_.size());
    const Index before = tree_.size();
    shards_.reset();
    tree_.reserve(tokens.size());
    tree_.add(tokens, parents);
    try {
      output_.emplace(model_.forward(tokens, tree_.of_model(parents), rows));
      tree_.taken(std::ssize(tokens));
      parents_.clear();
      for (const Index parent : drafted(parents, rows))
        parents_.push_back(parent - (tree_.size() - rows) - 1);
      share(drafted(tokens, rows), TokenIds(parents_));
    } catch (...) {
      tree_.forget_from(before);
      if (before == 0) truncate(length_);
      throw;
    }
    return shards_->rows();
  }

  void keep(std::span<const Index> path)
    requires ColumnsTreeModel<Bare>
  {
    detail::check_path(path, tree_.parents());
    model_.keep(tree_.of_model(path));
    length_ += std::ssize(path);
    tree_.clear();
  }

  void truncate(Index length) {
    length_ = std::clamp<Index>(length, 0, length_);
    model_.truncate(length_);
    tree_.clear();
  }

 private:
  // Row 0 stands behind what was not drafted in this call, the others behind what was.
  template <class Number>
  static std::span<const Number> drafted(std::span<const Number> fed, Index rows) {
    return fed.last(static_cast<std::size_t>(std::clamp<Index>(rows - 1, 0, std::ssize(fed))));
  }

  // Makes shards of the output, in which tokens, and their parents if these are told, are looked up.
  template <class... Parents>
  void share(std::span<const Token> tokens, const Parents&... parents) {
    shards_.emplace(steps_(*output_, vocab_size(), options_.temperature), model_.first_column(), vocab_size(),
                    *ranks_, tokens, parents...);
    shards_->draw_ahead(options_.draws, [this] { return uniform01(source_); });
  }

  M model_;
  C* ranks_;
  Generator source_;
  ChainOverRanks<Steps, C> steps_;
  ShardedOptions options_;
  Index length_ = 0;  // of the context
  detail::WrappedTree tree_;
  std::vector<Index> parents_;  // of the drafted tokens; −1 is the node that row 0 stands behind
  std::optional<Output> output_;
  std::optional<Shards<Mine, C>> shards_;
};

template <class M, class C, class G>
ShardedModel(M&&, C&, G, const ShardedOptions& = {}) -> ShardedModel<M, C, G>;
template <class M, class C, class G, RowStep Steps>
ShardedModel(M&&, C&, G, Steps, const ShardedOptions& = {}) -> ShardedModel<M, C, G, Steps>;

}  // namespace specdec
