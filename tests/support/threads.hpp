// An executor of two threads.
// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <specdec/executor.hpp>
#include <thread>
#include <utility>

namespace support {

// A second thread, for one piece of work at a time. (libc++ 16 has no std::jthread.)
class SecondThread {
 public:
  ~SecondThread() {
    begin(nullptr);
    thread_.join();
  }

  void begin(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_ = std::move(work);
    begun_ = true;
    changed_.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !begun_; });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return begun_; });
      if (!work_) return;
      lock.unlock();
      work_();
      lock.lock();
      begun_ = false;
      changed_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // empty: the thread ends
  bool begun_ = false;
  std::thread thread_{[this] { run(); }};
};

// It lives as long as the program: to begin one for each piece of work would take a third of the soak's time.
inline SecondThread& second_thread() {
  static SecondThread thread;
  return thread;
}

// Runs half of the work on a second thread, from the last to the first. Only one thread may use it.
struct TwoThreads {
  void operator()(specdec::Index n, const auto& f) const {
    const auto every_other = [&f](specdec::Index i) {
      for (; i >= 0; i -= 2) f(i);
    };
    second_thread().begin([&] { every_other(n - 2); });
    every_other(n - 1);
    second_thread().wait();
  }
};

}  // namespace support
