// Who has a model's context at present.
//
// A model has one context, and may be referred to from several places: two decoders over one target, a target that
// is its own draft model. None of them can see in the context that another one has been there. So they take turns,
// and count them: who finds that the count has moved on has lost the context, and knows.
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
namespace detail {

/// What somebody has a turn of: a model's context, or the drafts that are made with a model or a drafter.
enum class Role { model, drafter };

struct AnyVisit {
  void operator()(const void*, Role) const {}
};

/// A model or a drafter that refers to others, and says to which.
template <class M>
concept RefersToOthers = requires(const M& model) { model.identity(); } ||
                         requires(const M& drafter, const AnyVisit& visit) { drafter.each_identity(visit); };

/// Held as M, which is a reference or a value, it may be what somebody else holds, too.
template <class M>
concept MayBeShared = std::is_lvalue_reference_v<M> || RefersToOthers<M>;

/// What identifies a model, or a drafter: its address, or, of one that refers to another, what that is identified by.
template <class M>
const void* identity(const M& model) {
  if constexpr (requires { model.identity(); }) return model.identity();
  else return std::addressof(model);
}

}  // namespace detail

/// Tells visit(identity, role) of all that a drafter refers to, which is the drafter itself where it does not say. For
/// drafters that refer to others: see Drafter.
template <class D, class Visit>
void each_identity(const D& drafter, const Visit& visit) {
  if constexpr (requires { drafter.each_identity(visit); }) drafter.each_identity(visit);
  else visit(detail::identity(drafter), detail::Role::drafter);
}

namespace detail {

/// Tells what a drafter shares that drafts with this model. Drafters with one model overwrite what the others have
/// drafted; and where the model owns the rows of a draft, whoever calls it does.
template <class M, class Visit>
void each_identity_of_model(const M& model, bool owns_rows, const Visit& visit) {
  visit(identity(model), Role::drafter);
  if (owns_rows) visit(identity(model), Role::model);
}

/// The count of the turns of a model, or of all that a drafter refers to, shared by all that refer to it.
///
/// Those who were handed a reference cannot know of each other, so the counts of such models are found by address,
/// in a table of the program. It is locked, and looked into only where a decoder or a drafter is made.
class Turns {
 public:
  /// Of a model that is held by value (M), or referred to (M&).
  template <class M>
  static Turns of(const std::remove_reference_t<M>& model) {
    if constexpr (MayBeShared<M>) return {{shared_count(identity(model), Role::model)}, true};
    else return own();
  }
  /// Of a drafter that is held by value (D), or referred to (D&).
  template <class D>
  static Turns of_drafter(const std::remove_reference_t<D>& drafter) {
    if constexpr (MayBeShared<D>) {
      std::vector<Count> counts;
      each_identity(drafter,
                    [&](const void* shared, Role role) { counts.push_back(shared_count(shared, role)); });
      if (counts.empty()) return own();  // it refers to nobody after all
      return {std::move(counts), true};
    } else {
      return own();
    }
  }

  /// Whoever copies what holds a model by value has a model of his own.
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
    for (const Count& count : counts_) ++*count;
    return count();
  }
  /// Whether nothing is left to count: whoever goes on would not see what others do to the models.
  bool moved_away() const { return counts_.empty(); }
  /// Moves on with each of the counts, as none ever goes back.
  std::uint64_t count() const {
    std::uint64_t sum = 0;
    for (const Count& count : counts_) sum += *count;
    return sum;
  }

 private:
  using Count = std::shared_ptr<std::uint64_t>;

  Turns(std::vector<Count> counts, bool shared) : counts_(std::move(counts)), shared_(shared) {}
  static Turns own() { return {{std::make_shared<std::uint64_t>(0)}, false}; }

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

  std::vector<Count> counts_;
  bool shared_;
};

/// A turn that was taken, or none. A copy has not had it: whoever copies what holds a turn has two of them, and one
/// context.
class Turn {
 public:
  void take(Turns& turns) {
    if (turns.moved_away())
      throw std::logic_error(
          "specdec: a drafter drafts that was moved away, into a decoder, say: ask what it was moved into");
    number_.value = turns.next();
  }
  /// Goes on with a turn during which its holder has used the models himself.
  void go_on(const Turns& turns) { number_.value = turns.count(); }
  /// Whether nobody has had one since.
  bool lasts(const Turns& turns) const { return number_.value == turns.count(); }

 private:
  Uncopied<std::uint64_t> number_;
};

}  // namespace detail
}  // namespace specdec
