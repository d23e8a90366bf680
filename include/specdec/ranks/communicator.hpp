// How ranks that each hold a part of something tell one another.
#pragma once

#include <concepts>
#include <span>

#include "specdec/types.hpp"

namespace specdec {

/// One of several ranks that all run the same program:
///
///   rank()                  the number of this one, 0..size() − 1
///   size()                  how many there are
///   all_gather(mine, all)   every rank gives as many numbers, and gets those of all ranks, rank after rank: `all` has
///                           mine.size()·size() places. Returns when they are there. Where ranks give different
///                           counts all throw, rather than wait. A rank that has failed gives none: `mine` and `all`
///                           are empty there.
///
/// That is all that the library asks of a transport: what all ranks get is the same to the bit, and each adds up for
/// itself, in one order, so that all come to the same verdict. That takes processors that compute alike: an exponential of
/// the system's library may differ in the last bit between kinds of them. specdec/ranks/mpi.hpp has one over MPI.
template <class C>
concept Communicator =
    requires(C& ranks, const C& constant, std::span<const double> mine, std::span<double> all) {
      { constant.rank() } -> std::convertible_to<Index>;
      { constant.size() } -> std::convertible_to<Index>;
      ranks.all_gather(mine, all);
    };

}  // namespace specdec
