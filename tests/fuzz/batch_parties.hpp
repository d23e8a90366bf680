// The parts of a batch: models of many contexts, which fail or lie when the bytes say so, and drafters of trees.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/specdec.hpp>
#include <type_traits>
#include <variant>
#include <vector>

#include "fuzz/bytes.hpp"
#include "fuzz/engine.hpp"
#include "fuzz/model.hpp"
#include "support/any_tree_drafter.hpp"

namespace fuzz {

// What was done to the sequences of a batch.
struct Harm {
  std::set<Index> spoilt;   // sequences that were shown invalid rows
  bool miscounted = false;  // whether a call has returned rows of a wrong number or length
};

// A Model for each sequence.
class BatchModel {
 public:
  BatchModel(std::uint64_t seed, Faults& faults, Harm& harm, Index most)
      : seed_(seed), faults_(&faults), harm_(&harm), most_(most) {}

  Index vocab_size() const { return vocabulary; }
  Index context_size() const { return most_; }
  Index size() const { return std::ssize(models_); }
  // The model of a sequence that has been fed.
  const Model& model(Index sequence) const { return models_.at(sequence); }
  Faults& faults() const { return *faults_; }
  Harm& harm() const { return *harm_; }
  bool has_lied() const { return lied_; }
  // The context of a sequence.
  Tokens context(Index sequence) const {
    const auto found = models_.find(sequence);
    return found == models_.end() ? Tokens{} : found->second.context();
  }

  const Matrix& forward(std::span<const specdec::BatchFeed> feeds) {
    require(!feeds.empty());
    faults_->may_fail();
    Index rows = 0;
    for (const specdec::BatchFeed& feed : feeds) rows += feed.rows;
    rows_.resize(rows, vocabulary);
    rows = 0;
    std::set<Index> met;
    for (const specdec::BatchFeed& feed : feeds) {
      require(met.insert(feed.sequence).second);
      take_in(feed, rows);
      rows += feed.rows;
    }
    try {
      faults_->may_fail();
    } catch (...) {
      for (const specdec::BatchFeed& feed : feeds) keep(feed.sequence, feed.from);
      throw;
    }
    lied_ = faults_->may_lie();
    if (lied_) lie(feeds);
    return rows_;
  }
  void keep(Index sequence, Index length) {
    if (const auto found = models_.find(sequence); found != models_.end()) found->second.truncate(length);
  }
  void keep(Index sequence, std::span<const Index> path) {
    if (const auto found = models_.find(sequence); found != models_.end()) found->second.keep(path);
    else require(path.empty());
  }
  void release(Index sequence) { models_.erase(sequence); }

 private:
  void take_in(const specdec::BatchFeed& feed, Index row) {
    Model& model = models_.try_emplace(feed.sequence, seed_, no_faults_, most_).first->second;
    require(feed.from == std::ssize(model.context()) && feed.rows >= 0);
    const Index asked = std::max<Index>(feed.rows, 1);
    const Matrix& rows = feed.parents.empty() ? model.forward(feed.tokens, asked)
                                              : model.forward(feed.tokens, feed.parents, asked);
    rows_.middleRows(row, feed.rows) = rows.bottomRows(feed.rows);
  }

  void lie(std::span<const specdec::BatchFeed> feeds) {
    const auto chosen = static_cast<std::size_t>(faults_->bytes->up_to(std::ssize(feeds) - 1));
    Index first = 0;
    for (std::size_t i = 0; i < chosen; ++i) first += feeds[i].rows;
    auto rows = rows_.middleRows(first, feeds[chosen].rows);
    switch (faults_->bytes->up_to(4)) {
      case 0:
        rows_.conservativeResize(rows_.rows() + 1, vocabulary);
        rows_.bottomRows(1).setZero();
        harm_->miscounted = true;
        return;
      case 1:
        rows_.conservativeResize(rows_.rows(), vocabulary - 1);
        harm_->miscounted = true;
        for (const specdec::BatchFeed& feed : feeds) harm_->spoilt.insert(feed.sequence);
        return;
      case 2:
        rows.setZero();
        break;
      case 3:
        rows *= 3;
        break;
      default:
        rows.bottomRows(std::min<Index>(rows.rows(), 1))
            .setConstant(std::numeric_limits<double>::quiet_NaN());
        break;
    }
    harm_->spoilt.insert(feeds[chosen].sequence);
  }

  std::uint64_t seed_;
  Faults *faults_, no_faults_;
  Harm* harm_;
  Index most_;
  std::map<Index, Model> models_;
  Matrix rows_;
  bool lied_ = false;
};

// Two ways to process rows: one for sequences with even numbers, one for the others.
struct BatchProcessing {
  std::array<Processing, 2> each;

  const Processing& of(Index sequence) const { return each[static_cast<std::size_t>(sequence % 2)]; }
};

// A BatchModel with or without processors on its rows.
class BatchEngine {
 public:
  BatchEngine(std::uint64_t seed, Faults& faults, Harm& harm, Index most, const BatchProcessing& processing)
      : model_(seed, faults, harm, most), processing_(processing) {
    if (processing.of(0).any())
      processed_.emplace(model_, Steps{&processing_}, Processors{&processing_, &faults});
  }
  BatchEngine(const BatchEngine&) = delete;
  BatchEngine& operator=(const BatchEngine&) = delete;

  Index vocab_size() const { return vocabulary; }
  Index context_size() const { return model_.context_size(); }
  const BatchModel& model() const { return model_; }

  // An error in a row belongs to the row's sequence.
  ShownRows forward(std::span<const specdec::BatchFeed> feeds) {
    if (!processed_) {
      const Matrix& rows = model_.forward(feeds);
      return {rows, rows};
    }
    const auto rows = processed_->forward(feeds);
    rows_.resize(rows.rows(), vocabulary);
    raw_.resize(rows.rows(), vocabulary);
    errors_.assign(static_cast<std::size_t>(rows.rows()), nullptr);
    Index row = 0;
    for (const specdec::BatchFeed& feed : feeds)
      for (Index i = 0; i < feed.rows; ++i, ++row) copy(rows, row, i, feed);
    return {rows_, raw_, errors_};
  }
  void keep(Index sequence, Index length) {
    if (processed_) processed_->keep(sequence, length);
    else model_.keep(sequence, length);
  }
  void keep(Index sequence, std::span<const Index> path) {
    if (processed_) processed_->keep(sequence, path);
    else model_.keep(sequence, path);
  }
  void release(Index sequence) {
    if (processed_) processed_->release(sequence);
    else model_.release(sequence);
  }

 private:
  struct Steps {
    const BatchProcessing* processing;
    Processing::Steps operator()(Index sequence) const { return processing->of(sequence).steps(); }
  };
  struct Processors {
    const BatchProcessing* processing;
    Faults* faults;
    AnyProcessor operator()(Index sequence) const { return processing->of(sequence).made(faults); }
  };

  void copy(const auto& rows, Index row, Index i, const specdec::BatchFeed& feed) {
    try {
      const auto from = rows.row(row);
      const auto raw = from.unprocessed();
      for (Token x = 0; x < vocabulary; ++x) rows_(row, x) = from.probability(x);
      for (Token x = 0; x < vocabulary; ++x) raw_(row, x) = raw.probability(x);
    } catch (...) {
      errors_[static_cast<std::size_t>(row)] = std::current_exception();
      model_.harm().spoilt.insert(feed.sequence);
      return;
    }
    if (model_.has_lied()) return;
    const Model& model = model_.model(feed.sequence);
    check_row(processing_.of(feed.sequence), model, model.way(i, feed.rows), rows_.row(row));
  }

  BatchModel model_;
  BatchProcessing processing_;
  std::optional<specdec::ProcessedModel<BatchModel&, Steps, Processors>> processed_;
  Matrix rows_, raw_;
  std::vector<std::exception_ptr> errors_;
};

// One of the drafters that draft trees for many sequences. The trees are copied, so that all drafters' trees have one
// type.
class TreesTogether {
  using Alone = support::AnyTreeDrafter<Engine>;

 public:
  enum Kind : Index { independent, without_replacement, likeliest, spares, kinds };
  // The drafter that drafts the trees of one sequence alone.
  static Index alone(Index which) { return which == spares ? Index{Alone::spares} : which; }
  static_assert(Index{independent} == Index{Alone::independent} &&
                Index{without_replacement} == Index{Alone::without_replacement} &&
                Index{likeliest} == Index{Alone::likeliest});

  TreesTogether(Index which, BatchEngine& small) {
    using namespace specdec;
    const TreeShape shape = TreeShape::of_widths({3, 2, 1});
    switch (which) {
      case independent:
        drafter_.emplace<ByModel<Independent>>(small, Tree{shape, Independent{}});
        break;
      case without_replacement:
        drafter_.emplace<ByModel<WithoutReplacement>>(small, Tree{shape, WithoutReplacement{}});
        break;
      case likeliest:
        drafter_.emplace<ByModel<Likeliest>>(small, Tree{TreeShape{-1, 0, 0, -1, 1, 2, 4}, Likeliest{}});
        break;
      default:
        drafter_.emplace<BySpares>(small, Spares{4, {2, 1}, 2});
        break;
    }
  }

  template <class Request>
  void draft(std::span<Request> requests) {
    visit([&](auto& drafter) {
      drafter.draft(requests);
      for (const auto& request : requests)
        if (!request.error) drafted_[request.sequence].assign(drafter.drafted(request.sequence), vocabulary);
    });
  }
  auto drafted(Index sequence) const { return drafted_.at(sequence).view(); }
  void keep(Index sequence, Index length) {
    visit([&](auto& drafter) { drafter.keep(sequence, length); });
  }
  void release(Index sequence) {
    visit([&](auto& drafter) { drafter.release(sequence); });
    drafted_.erase(sequence);
  }

 private:
  template <class Siblings>
  using ByModel = specdec::ModelDrafter<BatchEngine&, specdec::Tree<Siblings>>;
  using BySpares = specdec::ModelDrafter<BatchEngine&, specdec::Spares>;

  template <class F>
  void visit(const F& f) {
    std::visit(
        [&](auto& drafter) {
          if constexpr (!std::is_same_v<decltype(drafter), std::monostate&>) f(drafter);
        },
        drafter_);
  }

  std::variant<std::monostate, ByModel<specdec::Independent>, ByModel<specdec::WithoutReplacement>,
               ByModel<specdec::Likeliest>, BySpares>
      drafter_;
  std::map<Index, support::ProposedTree> drafted_;
};

}  // namespace fuzz
