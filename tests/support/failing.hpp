// A model for many texts whose next call fails, if the test asks for it.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <utility>

namespace support {

// Passes all calls on to a model, which it holds.
template <class M>
class Failing {
 public:
  struct Failure : std::runtime_error {
    Failure() : std::runtime_error("the engine is out of order") {}
  };
  static constexpr bool keeps_context = specdec::knows_its_context<M>;

  explicit Failing(M inner) : model(std::move(inner)) {}

  specdec::Index vocab_size() const { return model.vocab_size(); }
  specdec::Index context_size() const { return specdec::context_size(model); }
  decltype(auto) forward(std::span<const specdec::BatchFeed> feeds) & {
    if (std::exchange(fails, false)) throw Failure();
    return model.forward(feeds);
  }
  void keep(specdec::Index sequence, specdec::Index length) { model.keep(sequence, length); }
  void keep(specdec::Index sequence, std::span<const specdec::Index> path)
    requires specdec::takes_trees<M>
  {
    model.keep(sequence, path);
  }
  void release(specdec::Index sequence) { model.release(sequence); }

  M model;
  bool fails = false;  // in the next call
};

}  // namespace support
