// How many tokens to draft: a fixed number, or the number that is measured to be the fastest.
#pragma once

#include <memory>
#include <optional>
#include <specdec/specdec.hpp>
#include <string>

#include "generate/pair.hpp"

namespace generate {

/// A type-erased draft-length policy.
/// Pre: a policy that is used for trees was made for trees. (counts_nodes is true here for any policy.)
class Length {
 public:
  static constexpr bool counts_nodes = true;

  Length() = default;
  Length(const Length&) = delete;
  Length& operator=(const Length&) = delete;
  virtual ~Length() = default;

  virtual Index next(Index most) = 0;
  virtual void observe(const specdec::StepRecord& step) = 0;
};

template <specdec::DraftLength L>
class LengthOf final : public Length {
 public:
  Index next(Index most) override { return length_.next(most); }
  void observe(const specdec::StepRecord& step) override { length_.observe(step); }

 private:
  L length_;
};

/// The value of --gamma: a number, or "auto" with the largest number that it may choose.
struct Gamma {
  bool automatic = false;
  Index most = 3;

  std::unique_ptr<Length> policy() const {
    if (automatic) return std::make_unique<LengthOf<specdec::CostOptimalLength<>>>();
    return std::make_unique<LengthOf<specdec::FixedLength>>();
  }
};

}  // namespace generate
