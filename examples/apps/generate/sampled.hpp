// A model with its temperature applied: the distribution that is sampled, of target and draft model alike.
// SPDX-License-Identifier: MIT
#pragma once

#include <specdec/specdec.hpp>

namespace generate {

template <class M>
auto sampled(M& model, double temperature) {
  return specdec::ProcessedModel{model, specdec::Chain{specdec::Temperature{temperature}}};
}

}  // namespace generate
