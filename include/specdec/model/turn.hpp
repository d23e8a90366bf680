// Who has a model's context at present.
//
// A model has one context, and may be referred to from several places: two decoders over one target, a target that
// is its own draft model. None of them can see in the context that another one has been there. So they take turns,
// and count them: who finds that the count has moved on has lost the context, and knows.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/model/uncopied.hpp"

namespace specdec::detail {

/// Held as M, which is a reference or a value, it may be what somebody else holds, too: it is referred to, or refers to
/// another and says to which.
template <class M>
concept MayBeShared =
    std::is_lvalue_reference_v<M> || requires(const std::remove_reference_t<M>& model) { model.identity(); };

/// What identifies a model, or a drafter: its address, or, of one that refers to another, what that is identified by.
template <class M>
const void* identity(const M& model) {
  if constexpr (requires { model.identity(); }) return model.identity();
  else return std::addressof(model);
}

/// The count of a model's turns, shared by all that refer to the model.
///
/// Those who were handed a reference cannot know of each other, so the counts of such models are found by address,
/// in a table of the program. It is locked, and looked into only where a decoder or a drafter is made.
class Turns {
 public:
  /// Of a model that is held by value (M), or referred to (M&).
  template <class M>
  static Turns of(const std::remove_reference_t<M>& model) {
    return of<M>(model, Role::model);
  }
  /// Of a drafter, likewise. Those that refer to one model are counted together, apart from the model: whoever drafts
  /// overwrites what the others have drafted.
  template <class D>
  static Turns of_drafter(const std::remove_reference_t<D>& drafter) {
    return of<D>(drafter, Role::drafter);
  }

  /// Whoever copies what holds a model by value has a model of his own.
  Turns(const Turns& other)
      : count_(other.shared_ ? other.count_ : std::make_shared<std::uint64_t>(0)), shared_(other.shared_) {}
  Turns(Turns&&) = default;
  Turns& operator=(Turns other) noexcept {
    std::swap(count_, other.count_);
    std::swap(shared_, other.shared_);
    return *this;
  }
  ~Turns() = default;

  std::uint64_t next() { return ++*count_; }
  std::uint64_t count() const { return *count_; }

 private:
  using Count = std::shared_ptr<std::uint64_t>;
  enum class Role { model, drafter };

  template <class M>
  static Turns of(const std::remove_reference_t<M>& model, Role role) {
    if constexpr (MayBeShared<M>) return {shared_count(identity(model), role), true};
    else return {std::make_shared<std::uint64_t>(0), false};
  }

  Turns(Count count, bool shared) : count_(std::move(count)), shared_(shared) {}

  static Count shared_count(const void* model, Role role) {
    struct Entry {
      const void* model;
      Role role;
      std::weak_ptr<std::uint64_t> count;
    };
    struct Table {
      std::mutex mutex;
      std::vector<Entry> entries;
    };
    static Table& table = *new Table;  // never destroyed: decoders may be static, too
    const std::scoped_lock lock(table.mutex);
    std::erase_if(table.entries, [](const Entry& entry) { return entry.count.expired(); });
    for (const Entry& entry : table.entries)
      if (entry.model == model && entry.role == role) return entry.count.lock();
    Count count = std::make_shared<std::uint64_t>(0);
    table.entries.push_back({model, role, count});
    return count;
  }

  Count count_;
  bool shared_;
};

/// A turn that was taken, or none. A copy has not had it: whoever copies what holds a turn has two of them, and one
/// context.
class Turn {
 public:
  void take(Turns& turns) { number_.value = turns.next(); }
  /// Whether nobody has had one since.
  bool lasts(const Turns& turns) const { return number_.value == turns.count(); }

 private:
  Uncopied<std::uint64_t> number_;
};

}  // namespace specdec::detail
