// An executor of two threads.
#pragma once

#include <specdec/executor.hpp>
#include <thread>

namespace support {

// Runs half of the work on another thread, from the last to the first. (libc++ 16 has no std::jthread.)
struct TwoThreads {
  void operator()(specdec::Index n, const auto& f) const {
    const auto every_other = [&f](specdec::Index i) {
      for (; i >= 0; i -= 2) f(i);
    };
    std::thread other(every_other, n - 2);
    every_other(n - 1);
    other.join();
  }
};

}  // namespace support
