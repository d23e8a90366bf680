// Who has a model's context at present.
//
// A model has one context, and may be referred to from several places: two decoders over one target, a target that
// is its own draft model. None of them can see in the context that another one has been there. So they take turns,
// and count them: one that finds that the count has moved on has lost the context, and knows. A drafter that two decoders
// refer to is counted in the same way.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/model/uncopied.hpp"

namespace specdec {

/// The addresses by which a model or a drafter is known that is referred to: its own, or, where it refers to others and
/// says to which (a member identities()), theirs.
template <class X>
std::vector<const void*> identities(const X& x) {
  std::vector<const void*> found;
  if constexpr (requires { x.identities(); }) found = x.identities();
  if (found.empty()) found.push_back(std::addressof(x));
  return found;
}

namespace detail {

/// The addresses of what others may use, too, of what is held as X: none of a value that refers to nothing.
template <class X>
std::vector<const void*> shared_identities(const std::remove_reference_t<X>& x) {
  if constexpr (std::is_lvalue_reference_v<X>) return identities(x);
  else if constexpr (requires { x.identities(); }) return x.identities();
  else return {};
}

/// The count of the turns of a model, or of all that a drafter refers to, shared by all that refer to it.
///
/// Those who were handed a reference cannot know of each other, so the counts of what they refer to are found by address,
/// in a table of the program. It is locked, and looked into only where a decoder or a drafter is made.
class Turns {
 public:
  /// Of a model or a drafter that is held by value (X), or referred to (X&).
  template <class X>
  static Turns of(const std::remove_reference_t<X>& x) {
    Turns turns;
    for (const void* const address : shared_identities<X>(x)) turns.counts_.push_back(count_of(address));
    turns.shared_ = !turns.counts_.empty();
    return turns.shared_ ? turns : own();
  }

  /// What holds a model by value has, as a copy, a model of its own.
  Turns(const Turns& other)
      : counts_(other.shared_ ? other.counts_ : own().counts_), shared_(other.shared_) {}
  Turns(Turns&&) = default;
  Turns& operator=(Turns other) noexcept {
    std::swap(counts_, other.counts_);
    std::swap(shared_, other.shared_);
    return *this;
  }
  ~Turns() = default;

  std::uint64_t next() {
    for (const auto& count : counts_) ++count->turns;
    return count();
  }
  /// Whether nothing is left to count: what others do to the models would not be seen.
  bool moved_away() const { return counts_.empty(); }
  /// Moves on with each of the counts, as none ever goes back.
  std::uint64_t count() const {
    std::uint64_t sum = 0;
    for (const auto& count : counts_) sum += count->turns;
    return sum;
  }

 private:
  struct Count {
    const void* address;  // of what is counted; null where nobody else can refer to it
    std::uint64_t turns = 0;
  };

  Turns() = default;
  static Turns own() {
    Turns turns;
    turns.counts_.push_back(std::make_shared<Count>(Count{nullptr}));
    return turns;
  }

  static std::shared_ptr<Count> count_of(const void* address) {
    struct Table {
      std::mutex mutex;
      std::vector<std::weak_ptr<Count>> counts;  // of all that is referred to, and of some that no longer is
    };
    static Table& table = *new Table;  // never destroyed: decoders may be static, too
    const std::lock_guard lock(table.mutex);
    std::weak_ptr<Count>* unused = nullptr;
    for (std::weak_ptr<Count>& known : table.counts) {
      std::shared_ptr<Count> count = known.lock();
      if (!count) unused = &known;
      else if (count->address == address) return count;
    }
    auto count = std::make_shared<Count>(Count{address});
    if (unused) *unused = count;
    else table.counts.push_back(count);
    return count;
  }

  std::vector<std::shared_ptr<Count>> counts_;
  bool shared_ = false;
};

/// A turn that was taken, or none. A copy has not had it: of two that hold a turn of one context one has lost it.
class Turn {
 public:
  void take(Turns& turns) {
    if (turns.moved_away())
      throw std::logic_error(
          "specdec: a drafter drafts that was moved away, into a decoder, say: ask what it was moved into");
    number_.value = turns.next();
  }
  /// Goes on with a turn during which its holder has used the models itself.
  void go_on(const Turns& turns) { number_.value = turns.count(); }
  /// Whether nobody has had one since.
  bool lasts(const Turns& turns) const { return number_.value > 0 && number_.value == turns.count(); }

 private:
  UncopiedNumber number_;
};

}  // namespace detail
}  // namespace specdec
