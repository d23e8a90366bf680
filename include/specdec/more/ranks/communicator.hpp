// The transport between ranks.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <span>

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The transport of one rank. All ranks run the same program:
///
///   rank()                  the number of this rank, 0..size() − 1
///   size()                  the number of ranks
///   all_gather(mine, all)   every rank gives an equal count of numbers, and gets the numbers of all ranks, rank after rank:
///                           `all` has mine.size()·size() places. Returns when all numbers are there. If ranks give
///                           different counts, all ranks must throw, not wait. A rank that has failed gives no numbers:
///                           its `mine` and `all` are empty.
///
/// All ranks must get bit-identical numbers. Each rank then adds them in one order, so that all reach one verdict. The
/// processors must also compute alike: exp() of the system's library may differ in the last bit between kinds of processors.
/// specdec/more/ranks/mpi.hpp is a communicator over MPI.
template <class C>
concept Communicator =
    requires(C& ranks, const C& constant, std::span<const double> mine, std::span<double> all) {
      { constant.rank() } -> std::convertible_to<Index>;
      { constant.size() } -> std::convertible_to<Index>;
      ranks.all_gather(mine, all);
    };

}  // namespace specdec
