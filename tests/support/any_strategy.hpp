// Any strategy of a ModelDrafter as one type. Code over it is compiled once for all strategies.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/any_chance.hpp"
#include "support/bookkeeper.hpp"
#include "support/tree_models.hpp"

namespace support {

// A drafter for one text. Its drafts are copies.
struct OneDrafter {
  virtual ~OneDrafter() = default;
  virtual KeptTree draft(std::span<const Token> context, const specdec::DraftLimits& limits,
                         AnyChance chance) = 0;
  virtual void truncate(Index length) = 0;
  virtual std::vector<const void*> identities() const = 0;
};

// A drafter for many texts.
struct ManyDrafter {
  virtual ~ManyDrafter() = default;
  virtual void draft(std::span<specdec::DraftRequest<specdec::SplitMix64>> requests) = 0;
  virtual KeptTree drafted(Index sequence) const = 0;
  virtual void keep(Index sequence, Index length) = 0;
  virtual void release(Index sequence) = 0;
  virtual void fork_context(Index from, Index to, Index length) = 0;
};

// A model of its own, or one that others may use, too. Drafters hold both by value, so that they have one type.
class OwnOrShared {
 public:
  explicit OwnOrShared(WatchedTreeModel&& own) : own_(std::move(own)) {}
  explicit OwnOrShared(WatchedTreeModel& shared) : shared_(&shared) {}

  Index vocab_size() const { return model().vocab_size(); }
  Index context_size() const { return model().context_size(); }
  const RowMajor<double>& forward(std::span<const Token> tokens, Index rows) {
    return model().forward(tokens, rows);
  }
  const RowMajor<double>& forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    return model().forward(tokens, parents, rows);
  }
  void keep(std::span<const Index> path) { model().keep(path); }
  void truncate(Index length) { model().truncate(length); }
  std::vector<const void*> identities() const {
    return shared_ ? std::vector<const void*>{shared_} : std::vector<const void*>{};
  }

 private:
  WatchedTreeModel& model() { return shared_ ? *shared_ : *own_; }
  const WatchedTreeModel& model() const { return shared_ ? *shared_ : *own_; }

  std::optional<WatchedTreeModel> own_;
  WatchedTreeModel* shared_ = nullptr;
};

template <class Strategy>
struct OneDrafterOf : OneDrafter {
  Index vocab_size;
  specdec::ModelDrafter<OwnOrShared, Strategy> drafter;

  OneDrafterOf(OwnOrShared&& model, const Strategy& strategy)
      : vocab_size(model.vocab_size()), drafter(std::move(model), strategy) {}
  KeptTree draft(std::span<const Token> context, const specdec::DraftLimits& limits,
                 AnyChance chance) override {
    return kept(drafter.draft(context, limits, chance), vocab_size);
  }
  void truncate(Index length) override { drafter.truncate(length); }
  std::vector<const void*> identities() const override { return drafter.identities(); }
};

template <class Strategy>
struct ManyDrafterOf : ManyDrafter {
  Index vocab_size;
  specdec::ModelDrafter<ForkingBookkeeper&, Strategy> drafter;

  ManyDrafterOf(ForkingBookkeeper& model, const Strategy& strategy)
      : vocab_size(model.vocab_size()), drafter(model, strategy) {}
  void draft(std::span<specdec::DraftRequest<specdec::SplitMix64>> requests) override {
    drafter.draft(requests);
  }
  KeptTree drafted(Index sequence) const override { return kept(drafter.drafted(sequence), vocab_size); }
  void keep(Index sequence, Index length) override { drafter.keep(sequence, length); }
  void release(Index sequence) override { drafter.release(sequence); }
  void fork_context(Index from, Index to, Index length) override { drafter.fork_context(from, to, length); }
};

class AnyStrategy {
 public:
  template <class Strategy>
    requires(!std::same_as<Strategy, AnyStrategy>)
  explicit(false) AnyStrategy(const Strategy& strategy) : made_(std::make_shared<Made<Strategy>>(strategy)) {}

  std::unique_ptr<OneDrafter> drafter(WatchedTreeModel& model) const { return made_->one(model); }
  std::unique_ptr<ManyDrafter> drafter(ForkingBookkeeper& model) const { return made_->many(model); }

 private:
  struct Makes {
    virtual ~Makes() = default;
    virtual std::unique_ptr<OneDrafter> one(WatchedTreeModel& model) const = 0;
    virtual std::unique_ptr<ManyDrafter> many(ForkingBookkeeper& model) const = 0;
  };
  template <class Strategy>
  struct Made : Makes {
    Strategy strategy;
    explicit Made(const Strategy& how) : strategy(how) {}
    std::unique_ptr<OneDrafter> one(WatchedTreeModel& model) const override {
      return std::make_unique<OneDrafterOf<Strategy>>(OwnOrShared(model), strategy);
    }
    std::unique_ptr<ManyDrafter> many(ForkingBookkeeper& model) const override {
      return std::make_unique<ManyDrafterOf<Strategy>>(model, strategy);
    }
  };

  std::shared_ptr<const Makes> made_;
};

}  // namespace support
