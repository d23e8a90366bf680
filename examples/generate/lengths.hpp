// How many tokens to draft: a fixed number, or what is measured to be the fastest.
#pragma once

#include <memory>
#include <optional>
#include <specdec/specdec.hpp>
#include <string>

#include "generate/pair.hpp"

namespace generate {

/// A draft-length policy of which no more is known. Whoever drafts trees by it has made it for trees.
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

/// What --gamma says: a number, or "auto" for at most so many as pay.
struct Gamma {
  bool automatic = false;
  Index most = 3;

  std::unique_ptr<Length> policy() const {
    if (automatic) return std::make_unique<LengthOf<specdec::CostOptimalLength<>>>();
    return std::make_unique<LengthOf<specdec::FixedLength>>();
  }
};

}  // namespace generate
