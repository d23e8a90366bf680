// How many tokens to draft: a fixed number, or the one that is measured to be the fastest.
// SPDX-License-Identifier: MIT
#pragma once

#include <specdec/more/lengths.hpp>
#include <specdec/specdec.hpp>

namespace web {

class ChosenLength {
 public:
  explicit ChosenLength(bool automatic) : automatic_(automatic) {}

  specdec::Index next(specdec::Index most) { return automatic_ ? fastest_.next(most) : most; }
  void observe(const specdec::StepRecord& step) {
    if (automatic_) fastest_.observe(step);
  }

 private:
  bool automatic_;
  specdec::CostOptimalLength<> fastest_;
};

}  // namespace web
