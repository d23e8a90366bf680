// A model with its temperature applied: the distribution that is sampled, of target and draft model alike.
// SPDX-License-Identifier: MIT
#pragma once

#include <specdec/specdec.hpp>

namespace generate {

template <class M>
auto sampled(M& model, double temperature) {
  return specdec::ProcessedModel{model, specdec::Chain{specdec::Temperature{temperature}}};
}

/// The temperature of the rows of which a tree takes the likeliest tokens. At temperature 0 a row has only one token. At 1 it says
/// too little of the likeliest token, which the target takes more often than that, so trees would be too wide.
inline double choosing_temperature(double temperature) { return temperature > 0 ? temperature : 0.5; }

}  // namespace generate
