// Ranks that are threads of one program.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <span>
#include <specdec/more/ranks/communicator.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

namespace support {

using specdec::Index;

// A barrier that sleeps. std::barrier may spin first. With more ranks than cores, that takes time from the ranks that
// it waits for.
class Barrier {
 public:
  explicit Barrier(Index size) : expected_(size) {}

  void arrive_and_wait() {
    std::unique_lock lock(mutex_);
    const auto phase = phase_;
    if (++arrived_ == expected_) open();
    else opened_.wait(lock, [&] { return phase_ != phase; });
  }
  void arrive_and_drop() {
    const std::lock_guard lock(mutex_);
    if (arrived_ == --expected_) open();
  }

 private:
  void open() {
    arrived_ = 0;
    ++phase_;
    opened_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable opened_;
  Index expected_, arrived_ = 0;
  std::size_t phase_ = 0;
};

// Where the ranks of a group meet.
class Meeting {
 public:
  explicit Meeting(Index size)
      : given(static_cast<std::size_t>(size)), gone(static_cast<std::size_t>(size)), barrier(size) {}

  std::vector<std::span<const double>> given;
  std::vector<char> gone;  // ranks that have left
  Barrier barrier;
};

class ThreadRank {
 public:
  ThreadRank(Meeting& meeting, Index rank) : meeting_(&meeting), rank_(rank) {}

  Index rank() const { return rank_; }
  Index size() const { return std::ssize(meeting_->given); }
  Index exchanges() const { return exchanges_; }

  // If ranks give different numbers of numbers, all of them throw. A rank that would wait for one that has left
  // throws, too.
  void all_gather(std::span<const double> mine, std::span<double> all) {
    ++exchanges_;
    meeting_->given[static_cast<std::size_t>(rank_)] = mine;
    meeting_->barrier.arrive_and_wait();
    const bool alone = std::ranges::count(meeting_->gone, 0) < size();
    const bool alike = !alone && std::ranges::all_of(meeting_->given, [&](std::span<const double> given) {
      return given.size() == mine.size();
    });
    if (alike) {
      auto out = all.begin();
      for (const auto given : meeting_->given) out = std::ranges::copy(given, out).out;
    }
    meeting_->barrier.arrive_and_wait();
    if (alone) throw std::runtime_error("a rank has left, and the others would wait for ever");
    if (!alike) throw std::logic_error("the ranks give different numbers of numbers");
  }

 private:
  Meeting* meeting_;
  Index rank_, exchanges_ = 0;
};
static_assert(specdec::Communicator<ThreadRank>);

// Runs f(rank) on one thread for each rank, and returns what each threw. Catch2's checks work on one thread only. So f
// throws, or collects results that are checked after all threads have ended.
template <class F>
std::vector<std::exception_ptr> on_ranks(Index size, const F& f) {
  Meeting meeting(size);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (Index r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      ThreadRank rank(meeting, r);
      try {
        f(rank);
      } catch (...) {
        errors[static_cast<std::size_t>(r)] = std::current_exception();
      }
      meeting.gone[static_cast<std::size_t>(r)] = 1;
      meeting.barrier.arrive_and_drop();
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline void rethrow_first(const std::vector<std::exception_ptr>& errors) {
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace support
