// The setting of a bench, and its name.
// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "input.hpp"
#include "rows.hpp"

namespace bench {

struct Setting {
  PoolSetting pool;
  Index gamma;
  bool warm;

  Cut cut() const { return {gamma, warm, pool.vocab_size > 1000 ? Index{480} : Index{2000}}; }

  std::string name(const std::string& kind) const {
    return "/gamma:" + std::to_string(gamma) + "/vocab:" + std::to_string(pool.vocab_size) + "/" + kind +
           "/" + (pool.order == Order::ordered ? "ordered" : "shuffled") +
           "/accept:" + std::to_string(pool.accept) + (warm ? "/warm" : "/cold");
  }
};

}  // namespace bench
