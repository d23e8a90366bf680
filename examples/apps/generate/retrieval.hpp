// Drafts from a large text: REST.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <specdec/more/drafters/datastore_drafter.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "generate/pair.hpp"

namespace generate {

/// A text with its order, in memory.
struct Store {
  Tokens tokens;
  std::vector<std::uint32_t> order;
};

/// The store of a file's text.
/// Throws: std::runtime_error if the file cannot be read; std::invalid_argument for n-gram models, which know this text.
inline std::shared_ptr<const Store> store_of(const Pair& pair, const std::string& path) {
  if (!pair.early_exit) throw std::invalid_argument("--drafter retrieval needs transformers");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read '" + path + "'");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  auto store = std::make_shared<Store>();
  store->tokens = pair.encode(text);
  store->order = specdec::Datastore::sorted(store->tokens);
  return store;
}

/// A DatastoreDrafter that owns its store.
class RetrievalDrafter {
 public:
  static constexpr bool drafts_trees = false;

  explicit RetrievalDrafter(std::shared_ptr<const Store> store)
      : store_(std::move(store)),
        drafter_(specdec::Datastore(store_->tokens, store_->order), specdec::DatastoreOptions{}) {}

  template <specdec::RandomSource Source>
  auto draft(std::span<const Token> context, Index gamma, Source& source) {
    return drafter_.draft(context, gamma, source);
  }
  void truncate(Index length) { drafter_.truncate(length); }

 private:
  std::shared_ptr<const Store> store_;
  specdec::DatastoreDrafter<> drafter_;
};

}  // namespace generate
