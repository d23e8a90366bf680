// One type for random bit generators of all types, which can take numbers back.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/random.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

template <class G>
inline constexpr bool is_reference_wrapper = false;
template <class G>
inline constexpr bool is_reference_wrapper<std::reference_wrapper<G>> = true;

}  // namespace detail

/// Holds a generator of any type and passes on its bits, 64 at a time. Draws and coins are equal to those from the generator
/// itself. Use it to store generators of several types, one for each text.
///
///   AnyGenerator own{std::mt19937_64{seed}};   // moved in
///   AnyGenerator here{std::ref(rng)};          // rng itself, which must outlive this; afterwards its state is known
///
/// An lvalue generator is refused: it would be copied, and the original would give the same numbers once more.
///
/// It remembers its numbers since the last mark(). After rewind() it gives these numbers again, so a failed attempt can be
/// repeated with equal random numbers. A generator that is referred to goes back itself, so that nothing shows in it of an
/// attempt that was taken back. If somebody else has drawn from it since, it stays where it is, and the numbers come from
/// memory. (It also stays if it has no operator==, or cannot be copied.)
/// Cost: an indirect call for 64 bits. rewind() of a generator that is referred to draws its numbers once more, to see whether
/// somebody else has drawn. No allocation in steady state.
class AnyGenerator {
 public:
  using result_type = std::uint64_t;

  template <class G>
    requires(!std::same_as<std::remove_cvref_t<G>, AnyGenerator> &&
             (RandomBitGenerator<std::remove_cvref_t<G>> ||
              detail::is_reference_wrapper<std::remove_cvref_t<G>>))
  AnyGenerator(G&& generator) {
    using Value = std::remove_cvref_t<G>;
    if constexpr (detail::is_reference_wrapper<Value>) {
      held_ = std::make_unique<ReferredGenerator<typename Value::type>>(generator.get());
    } else {
      static_assert(
          !std::is_lvalue_reference_v<G>,
          "a generator that is an lvalue would be copied, and give its numbers twice: pass std::ref(rng) to "
          "draw from rng itself, or a generator of the text's own, such as std::mt19937_64{seed}");
      held_ = std::make_unique<OwnedGenerator<Value>>(std::forward<G>(generator));
    }
  }

  /// A number is no generator, and neither is nothing: a compile error that says so.
  template <class T>
    requires(std::is_arithmetic_v<T> || std::same_as<T, detail::MissingGenerator>)
  AnyGenerator(T) {
    static_assert(!std::is_arithmetic_v<T>,
                  "a number is no generator of random numbers: pass a generator that has it as its seed, "
                  "such as std::mt19937_64{seed}");
    static_assert(std::is_arithmetic_v<T>,
                  "the generator is missing: pass one after the options, such as std::mt19937_64{seed}");
  }

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

  result_type operator()() {
    if (next_ == given_.size()) given_.push_back(held_->bits());
    return given_[next_++];
  }

  /// Gives the numbers since the last mark() again.
  void rewind() {
    if (!given_.empty() && held_->rewind(given_.size())) given_.clear();
    next_ = 0;
  }
  /// Forgets the numbers given so far: rewind() does not repeat them.
  void mark() {
    given_.erase(given_.begin(), given_.begin() + static_cast<std::ptrdiff_t>(next_));
    next_ = 0;
    held_->mark(given_.empty());
  }

 private:
  struct HeldGenerator {
    HeldGenerator() = default;
    HeldGenerator(const HeldGenerator&) = delete;
    HeldGenerator& operator=(const HeldGenerator&) = delete;
    virtual ~HeldGenerator() = default;
    virtual std::uint64_t bits() = 0;
    // Remembers the state, if it is the one after the last number that was used.
    virtual void mark(bool /*here*/) {}
    // Goes back to the marked state, `count` numbers ago. Returns whether it could.
    virtual bool rewind(std::size_t /*count*/) { return false; }
  };

  template <class G>
  struct OwnedGenerator final : HeldGenerator {
    explicit OwnedGenerator(G g) : generator(std::move(g)) {}
    std::uint64_t bits() override { return random_bits64(generator); }
    G generator;
  };

  template <class G>
  struct ReferredGenerator final : HeldGenerator {
    static constexpr bool rewinds = std::copyable<G> && std::equality_comparable<G>;

    explicit ReferredGenerator(G& g) : generator(&g) { ReferredGenerator::mark(true); }
    std::uint64_t bits() override { return random_bits64(*generator); }
    void mark(bool here) override {
      if constexpr (rewinds) {
        if (here) marked = *generator;
        else marked.reset();
      }
    }
    bool rewind([[maybe_unused]] std::size_t count) override {
      if constexpr (rewinds) {
        if (!marked) return false;
        G again = *marked;
        for (std::size_t i = 0; i < count; ++i) random_bits64(again);
        if (again != *generator) return false;
        *generator = *marked;
        return true;
      }
      return false;
    }
    G* generator;
    std::conditional_t<rewinds, std::optional<G>, char> marked{};
  };

  std::unique_ptr<HeldGenerator> held_;
  std::vector<result_type> given_;
  std::size_t next_ = 0;
};

}  // namespace specdec
