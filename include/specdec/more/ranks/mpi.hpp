// A communicator over MPI. For programs that use MPI: no other header of the library includes this one.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/more/ranks/communicator.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// A Communicator with the ranks of an MPI communicator.
///
///   MPI_Init(&argc, &argv);
///   specdec::MpiCommunicator ranks;    // of MPI_COMM_WORLD
///   specdec::ShardedModel target{mine, ranks, std::mt19937_64{seed}};
///
/// In CMake, link MPI::MPI_CXX of find_package(MPI). The constructor duplicates the MPI communicator, so that its messages
/// do not mix with the program's. All ranks must construct it together, and destroy it together, before MPI_Finalize.
/// With MPI, a rank that fails alone leaves the others waiting. If a program catches an error that perhaps only this rank
/// has thrown, it should call MPI_Abort.
/// Throws: InvalidCall if MPI_Init has not been called, and, on all ranks, if the ranks give different counts of
/// numbers. ExternalFailure with MPI's message if an MPI call fails. If a rank has no memory for the numbers, it throws
/// std::bad_alloc and the others throw ExternalFailure.
/// Cost: one MPI_Allgather of 512 bytes a rank for up to 63 numbers; for more numbers, a second one with the rest.
class MpiCommunicator {
 public:
  explicit MpiCommunicator(MPI_Comm communicator = MPI_COMM_WORLD) {
    int running = 0;
    MPI_Initialized(&running);
    if (!running) detail::invalid_call("MPI is not running: call MPI_Init first");
    check_status(MPI_Comm_dup(communicator, &ranks_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(ranks_, &rank_);
    MPI_Comm_size(ranks_, &size_);
    received_.resize(frame_size * static_cast<std::size_t>(size_));
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;
  ~MpiCommunicator() {
    int over = 0;
    MPI_Finalized(&over);
    if (!over) MPI_Comm_free(&ranks_);
  }

  Index rank() const { return rank_; }
  Index size() const { return size_; }

  void all_gather(std::span<const double> mine, std::span<double> all) {
    if (all.size() != mine.size() * static_cast<std::size_t>(size_))
      detail::invalid_argument("all has ", all.size(), " places, expected ", mine.size(), " for each of ",
                               size_, " ranks");
    const std::size_t first = std::min(mine.size(), frame_size - 1);
    const std::exception_ptr no_room =
        detail::error_of([&] { rest_.resize((mine.size() - first) * static_cast<std::size_t>(size_)); });
    sent_[0] = no_room ? no_count : static_cast<double>(mine.size());
    std::ranges::copy(mine.first(first), sent_.begin() + 1);
    gather(sent_, received_);
    if (no_room) std::rethrow_exception(no_room);
    check_counts();
    if (!rest_.empty()) gather(mine.subspan(first), rest_);
    put_together(first, mine.size() - first, all.begin());
  }

 private:
  // If ranks give different counts, MPI may wait forever, or return anything. So the first message has a fixed length, and
  // begins with the count.
  static constexpr std::size_t frame_size = 64;
  static constexpr double no_count = -1;  // this rank has no memory for the rest

  void gather(std::span<const double> mine, std::span<double> all) {
    if (mine.size() > std::numeric_limits<int>::max())
      detail::invalid_argument("mine has ", mine.size(), " numbers, more than one message of MPI holds");
    const int count = static_cast<int>(mine.size());
    check_status(MPI_Allgather(mine.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, ranks_),
                 "MPI_Allgather");
  }

  std::span<const double> frame(Index rank) const {
    return std::span(received_).subspan(static_cast<std::size_t>(rank) * frame_size, frame_size);
  }

  void check_counts() const {
    for (Index r = 0; r < size_; ++r)
      if (frame(r)[0] == no_count)
        detail::external_failure("rank ", r, " has no memory for the numbers of all ranks");
    for (Index r = 1; r < size_; ++r)
      if (frame(r)[0] != frame(0)[0])
        detail::invalid_call("the ranks do not do the same: rank 0 gives ", frame(0)[0], " numbers, rank ", r,
                             " gives ", frame(r)[0]);
  }

  // For each rank: `first` numbers from its frame, then `more` numbers from the second message.
  void put_together(std::size_t first, std::size_t more, std::span<double>::iterator out) const {
    for (Index r = 0; r < size_; ++r) {
      out = std::ranges::copy(frame(r).subspan(1, first), out).out;
      out = std::ranges::copy(std::span(rest_).subspan(static_cast<std::size_t>(r) * more, more), out).out;
    }
  }

  static void check_status(int status, const char* call) {
    if (status == MPI_SUCCESS) return;
    std::array<char, MPI_MAX_ERROR_STRING> words{};
    int length = 0;
    MPI_Error_string(status, words.data(), &length);
    detail::external_failure(call, ": ", std::string(words.data(), static_cast<std::size_t>(length)));
  }

  MPI_Comm ranks_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::array<double, frame_size> sent_{};
  std::vector<double> received_, rest_;  // of all ranks
};
static_assert(Communicator<MpiCommunicator>);

}  // namespace specdec
