// The distribution that is sampled: of the target and of the draft model alike.
#pragma once

#include <specdec/specdec.hpp>

namespace generate {

template <class M>
auto sampled(M& model, double temperature) {
  return specdec::ProcessedModel{model, specdec::Chain{specdec::Temperature{temperature}}};
}

}  // namespace generate
