// An executor with its own threads.
// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <specdec/executor.hpp>
#include <thread>
#include <vector>

namespace serve {

using specdec::Index;

/// An executor: calls f(0), ..., f(n − 1) on `count` threads, including the calling thread.
class Threads {
 public:
  explicit Threads(Index count) {
    for (Index i = 1; i < count; ++i) others_.emplace_back([this] { wait_and_work(); });
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() {
    {
      const std::scoped_lock lock(mutex_);
      over_ = true;
    }
    begun_.notify_all();
    for (std::thread& other : others_) other.join();
  }

  template <class F>
  void operator()(Index n, const F& f) {
    if (others_.empty() || n < 2) return specdec::InOrder{}(n, f);
    {
      const std::scoped_lock lock(mutex_);
      work_ = std::cref(f);
      size_ = n;
      next_ = 0;
      working_ = others_.size();
      ++round_;
    }
    begun_.notify_all();
    work();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return working_ == 0; });
  }

 private:
  void work() {
    for (Index i = next_++; i < size_; i = next_++) work_(i);
  }

  void wait_and_work() {
    std::unique_lock lock(mutex_);
    for (unsigned long seen = 0;; ++seen) {
      begun_.wait(lock, [&] { return over_ || round_ != seen; });
      if (over_) return;
      lock.unlock();
      work();
      lock.lock();
      if (--working_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable begun_, done_;
  std::function<void(Index)> work_;
  Index size_ = 0;
  std::atomic<Index> next_ = 0;
  std::size_t working_ = 0;
  unsigned long round_ = 0;
  bool over_ = false;
  std::vector<std::thread> others_;
};

}  // namespace serve
