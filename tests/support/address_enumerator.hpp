// Proofs for chance by address: all values of the numbers at all addresses.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <specdec/error.hpp>
#include <specdec/more/device/address.hpp>
#include <specdec/more/device/addressed_chance.hpp>
#include <specdec/rows/distribution.hpp>
#include <specdec/testing/enumerator.hpp>
#include <specdec/types.hpp>
#include <tuple>
#include <vector>

namespace support {

using specdec::Address, specdec::Index, specdec::Token;

/// Runs code over all values of the random numbers that stand at addresses:
///
///   AddressEnumerator all;
///   do {
///     auto chance = all.chance();
///     run(chance);
///     use(all.probability());
///   } while (all.next());
///
/// chance() is AddressedChance's own code, over these numbers. A number is an interval, at first [0, 1). Where it is compared
/// with a limit inside the interval, both outcomes are taken, with their exact probabilities, and the interval is cut. So a number
/// that is used twice gives the law that it has then: code that must not do so is found out.
///
/// A number that draws a token may be asked once.
class AddressEnumerator {
 public:
  /// Races are settled by a sum after `race_rounds` rounds.
  explicit AddressEnumerator(int race_rounds = 2) : race_rounds_(race_rounds) {}

  class Numbers;
  using Chance = specdec::detail::ChanceByAddress<Numbers>;

  /// A source of chance for the current run. The enumerator must outlive it.
  Chance chance(std::uint64_t step = 0);

  /// The probability of the outcomes of the current run so far.
  double probability() const { return all_.probability(); }

  /// Prepares the next run; false if there is none left.
  [[nodiscard]] bool next() {
    coins_.clear();
    drawn_.clear();
    return all_.next();
  }

 private:
  struct Interval {
    double low = 0, high = 1;
  };
  using Key = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>;
  static Key key_of(const Address& at) { return {at.step, at.question, at.round}; }

  bool below(const Address& at, double limit) {
    Interval& here = coins_[key_of(at)];
    if (limit <= here.low) return false;
    if (limit >= here.high) return true;
    const bool lower = all_.coin((limit - here.low) / (here.high - here.low));
    (lower ? here.high : here.low) = limit;
    return lower;
  }

  // Whatever has a size and probabilities, as a row. Nobody calls the sampler: all tokens are drawn.
  template <class R>
  struct AskedRow {
    const R* row;
    Index vocab_size() const { return row->vocab_size(); }
    double probability(Token x) const { return row->probability(x); }
    auto sampler() const {
      return [](double) { return Token{}; };
    }
  };

  template <class R>
  Token draw(const Address& at, const R& row) {
    if (std::find(drawn_.begin(), drawn_.end(), key_of(at)) != drawn_.end())
      specdec::detail::invalid_call("question ", at.question, ", round ", at.round,
                                    " draws twice with one number");
    drawn_.push_back(key_of(at));
    return all_.draw(AskedRow<R>{&row});
  }

  specdec::testing::Enumerator all_;
  std::map<Key, Interval> coins_;
  std::vector<Key> drawn_;
  int race_rounds_;
};

/// The numbers of the enumerator's current run.
class AddressEnumerator::Numbers {
 public:
  struct Pair {
    AddressEnumerator* all;
    Address address;

    bool below(double limit) const { return all->below(address, limit); }
    template <class Sampler, class R>
    Token draw(Sampler&&, const R& row) const {
      return all->draw(address, row);
    }
  };

  explicit Numbers(AddressEnumerator& all) : all_(&all) {}

  Pair at(const Address& address) const { return {all_, address}; }
  int race_rounds() const { return all_->race_rounds_; }

 private:
  AddressEnumerator* all_;
};

inline AddressEnumerator::Chance AddressEnumerator::chance(std::uint64_t step) {
  return Chance(Numbers(*this), step);
}

}  // namespace support
