// Who uses a model's context at present.
//
// A model has one context, but may have several users: two decoders over one target, or a target that is its own draft model. A
// user cannot see in the context that another one has changed it. So users take turns, and the turns are counted. If the count
// has moved on since a user's own turn, that user has lost the context. A drafter that two decoders refer to has a count, too.
// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/model/uncopied.hpp"

namespace specdec::inline v0_2_0 {

/// The addresses that identify a model or a drafter: the result of its identities(), or its own address if there is none.
template <class X>
std::vector<const void*> identities(const X& x) {
  std::vector<const void*> found;
  if constexpr (requires { x.identities(); }) found = x.identities();
  if (found.empty()) found.push_back(std::addressof(x));
  return found;
}

namespace detail {

/// The addresses that an object held as X (by value, or X& by reference) shares with others. None, if it is all its own.
template <class X>
std::vector<const void*> shared_identities(const std::remove_reference_t<X>& x) {
  if constexpr (std::is_lvalue_reference_v<X>) return identities(x);
  else if constexpr (requires { x.identities(); }) return x.identities();
  else return {};
}

/// Counts the turns of a model, or of everything that a drafter refers to. All users share the count.
///
/// Users that were handed a reference do not know each other, and a model is any class, with no room for a count. So a count is
/// found by the model's address, in one table. The table is locked, and used only when a decoder, a drafter or a search is made,
/// never in a step. It forgets an address when nobody uses it any more: at the latest when the next one is looked up.
///
/// It is a variable of an inline function, so the linker decides how far it reaches. A program and the shared libraries that it
/// is linked with have one table. A library may have a table of its own if it is loaded by dlopen(), if its symbols are hidden, or
/// if it is a DLL: decoders in two such libraries must not refer to one model. Nor does a table know that two addresses are
/// one context: a model that is a handle of an engine's context says so by identities().
class Turns {
 public:
  /// How many addresses the table knows, those included that were given up since the last one was looked up.
  static std::size_t known() {
    Table& all = table();
    const Lock lock(all.locked);
    return all.counts.size();
  }

  /// The turns of a model or a drafter that is held by value (X) or referred to (X&).
  template <class X>
  static Turns of(const std::remove_reference_t<X>& x) {
    Turns turns;
    for (const void* const address : shared_identities<X>(x)) turns.counts_.push_back(count_of(address));
    turns.shared_ = !turns.counts_.empty();
    if (!turns.shared_) turns.counts_.push_back(new_count(nullptr));
    return turns;
  }

  /// A copy of an object that holds its model by value has a model of its own, and so a count of its own.
  Turns(const Turns& other) : counts_(other.counts_), shared_(other.shared_) {
    if (!shared_) counts_.assign(1, new_count(nullptr));
  }
  Turns(Turns&&) = default;
  Turns& operator=(Turns other) noexcept {
    counts_.swap(other.counts_);
    std::swap(shared_, other.shared_);
    return *this;
  }
  ~Turns() = default;

  std::uint64_t next() {
    for (const auto& count : counts_) ++count->turns;
    return count();
  }
  /// Whether this was moved from. Then there is no count left, and turns of other users would not be seen.
  bool moved_away() const { return counts_.empty(); }
  /// The sum of all counts. It grows when any of them does, because none ever goes back.
  std::uint64_t count() const {
    std::uint64_t sum = 0;
    for (const auto& count : counts_) sum += count->turns;
    return sum;
  }

 private:
  struct Count {
    const void* address;  // of the model or drafter; null if nobody else can refer to it
    std::uint64_t turns = 0;
  };

  struct Table {
    std::atomic_flag locked;                     // a std::mutex is missing where the system has no threads
    std::vector<std::shared_ptr<Count>> counts;  // of the addresses in use, and some that were given up since
  };
  static Table& table() {
    static Table& only = *new Table;  // never destroyed: decoders may be static, too
    return only;
  }
  // Unlocks the table, also where memory runs out.
  struct Lock {
    explicit Lock(std::atomic_flag& flag) : locked(flag) {
      while (locked.test_and_set(std::memory_order_acquire)) {
      }
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() { locked.clear(std::memory_order_release); }
    std::atomic_flag& locked;
  };

  Turns() = default;
  static std::shared_ptr<Count> new_count(const void* address) {
    std::shared_ptr<Count> count(new Count{address});  // std::make_shared compiles more slowly
    return count;
  }

  static std::shared_ptr<Count> count_of(const void* address) {
    Table& all = table();
    const Lock lock(all.locked);
    // Nobody else can take up a count that only the table holds: that needs the lock.
    std::erase_if(all.counts, [](const auto& known) { return known.use_count() == 1; });
    for (const std::shared_ptr<Count>& known : all.counts)
      if (known->address == address) return known;
    return all.counts.emplace_back(new_count(address));
  }

  std::vector<std::shared_ptr<Count>> counts_;
  bool shared_ = false;
};

/// A turn that was taken, or none. A copy holds none: only one of two users can have the context.
class Turn {
 public:
  void take(Turns& turns) {
    if (turns.moved_away())
      invalid_call("a drafter drafts that was moved away, into a decoder, say: ask what it was moved into");
    number_.value = turns.next();
  }
  /// Continues this turn: the count moved on because the turn's holder used the models.
  void go_on(const Turns& turns) { number_.value = turns.count(); }
  /// Whether nobody has taken a turn since.
  bool lasts(const Turns& turns) const { return number_.value > 0 && number_.value == turns.count(); }

 private:
  Uncopied<std::uint64_t> number_;
};

}  // namespace detail
}  // namespace specdec
