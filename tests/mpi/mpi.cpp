// Processes as ranks. All of them run each test case together. A process that fails a REQUIRE would leave the others
// waiting.
// SPDX-License-Identifier: MIT
#include "specdec/more/ranks/mpi.hpp"

#include <cstddef>
#include <new>
#include <random>
#include <span>
#include <specdec/more/ranks.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/counted_allocations.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace {

std::vector<int> gathered;          // the counts that MPI_Allgather was called with
int status_of_calls = MPI_SUCCESS;  // what the next calls return, if not success

}  // namespace

// A program may replace any function of MPI; the original is then PMPI_...
extern "C" int MPI_Allgather(const void* mine, int count, MPI_Datatype type, void* all, int count_of_each,
                             MPI_Datatype type_of_each, MPI_Comm ranks) {
  gathered.push_back(count);
  if (status_of_calls != MPI_SUCCESS) return status_of_calls;
  return PMPI_Allgather(mine, count, type, all, count_of_each, type_of_each, ranks);
}

namespace test_mpi {

using namespace specdec;
using support::RowMajor;

namespace {

// Lives from the first test case to the last.
struct Mpi {
  Mpi() {
    before = support::message_of<InvalidCall>([] { MpiCommunicator ranks; });
    MPI_Init(nullptr, nullptr);
  }
  ~Mpi() { MPI_Finalize(); }

  std::string before;  // the error message before MPI_Init
};

const Mpi& mpi() {
  static const Mpi mpi;
  return mpi;
}

MpiCommunicator world() {
  mpi();
  return MpiCommunicator();
}

// The k-th number that a rank contributes.
double number(Index rank, std::size_t k) {
  return 1000.0 * static_cast<double>(rank) + static_cast<double>(k);
}

std::vector<double> numbers(Index rank, std::size_t count) {
  std::vector<double> mine;
  for (std::size_t k = 0; k < count; ++k) mine.push_back(number(rank, k));
  return mine;
}

}  // namespace

TEST_CASE("processes exchange any count of numbers") {
  MpiCommunicator ranks = world();
  const auto size = static_cast<std::size_t>(ranks.size());
  for (const std::size_t count : {1u, 0u, 62u, 63u, 64u, 65u, 700u, 3u}) {
    std::vector<double> all(count * size, -1.0), expected;
    for (Index r = 0; r < ranks.size(); ++r)
      for (const double x : numbers(r, count)) expected.push_back(x);
    ranks.all_gather(numbers(ranks.rank(), count), all);
    CHECK(all == expected);
  }
}

TEST_CASE("up to 63 numbers take one message of 64, and more take a second message for the rest") {
  MpiCommunicator ranks = world();
  for (const std::size_t count : {1u, 63u, 64u, 700u}) {
    std::vector<double> all(count * static_cast<std::size_t>(ranks.size()));
    gathered.clear();
    ranks.all_gather(numbers(ranks.rank(), count), all);
    if (count <= 63) CHECK(gathered == std::vector<int>{64});
    else CHECK(gathered == std::vector<int>{64, static_cast<int>(count) - 63});
  }
}

TEST_CASE("a failing MPI call is reported with MPI's own error text") {
  MpiCommunicator ranks = world();
  std::vector<double> all(static_cast<std::size_t>(ranks.size()));
  char words[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(MPI_ERR_OTHER, words, &length);
  status_of_calls = MPI_ERR_OTHER;
  const std::string message =
      support::message_of<std::runtime_error>([&] { ranks.all_gather(numbers(ranks.rank(), 1), all); });
  status_of_calls = MPI_SUCCESS;
  CHECK(message == "specdec: MPI_Allgather: " + std::string(words, static_cast<std::size_t>(length)));
}

TEST_CASE("if processes give different counts, all of them throw and can go on") {
  MpiCommunicator ranks = world();
  const auto size = static_cast<std::size_t>(ranks.size());
  for (const std::size_t more : {1u, 100u}) {
    const std::size_t count = ranks.rank() == ranks.size() - 1 ? 5 + more : 5;
    std::vector<double> all(count * size, -1.0);
    const std::vector<double> before = all;
    if (ranks.size() == 1) continue;  // a single rank always agrees with itself
    const std::string message =
        support::message_of<InvalidCall>([&] { ranks.all_gather(numbers(ranks.rank(), count), all); });
    CHECK_THAT(message, Catch::Contains("rank 0 gives 5 numbers, rank " + std::to_string(ranks.size() - 1) +
                                        " gives " + std::to_string(5 + more)));
    CHECK(all == before);
  }
  std::vector<double> all(size);
  ranks.all_gather(numbers(ranks.rank(), 1), all);
  CHECK(all.back() == number(ranks.size() - 1, 0));
}

TEST_CASE("a communicator before MPI_Init is refused") {
  CHECK(mpi().before == "specdec: MPI is not running: call MPI_Init first");
}

namespace {

// Counts the duplicates of a communicator, by an attribute that MPI copies.
struct Duplicates {
  int made = 0, freed = 0, that_return_errors = 0;
  int status = MPI_SUCCESS;  // the result of the next copy

  static int make(MPI_Comm, int, void*, void* mine, void* theirs, int* is_copied) {
    auto& self = *static_cast<Duplicates*>(mine);
    *static_cast<void**>(theirs) = mine;
    *is_copied = 1;
    self.made += self.status == MPI_SUCCESS;
    return self.status;
  }
  static int free(MPI_Comm duplicate, int, void* mine, void*) {
    auto& self = *static_cast<Duplicates*>(mine);
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(duplicate, &handler);
    self.that_return_errors += handler == MPI_ERRORS_RETURN;
    ++self.freed;
    return MPI_SUCCESS;
  }
};

}  // namespace

TEST_CASE(
    "a communicator is a duplicate that returns its errors and is freed, and the program's own is "
    "unchanged") {
  mpi();
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  MPI_Comm_set_errhandler(own, MPI_ERRORS_ARE_FATAL);
  Duplicates duplicates;
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(&Duplicates::make, &Duplicates::free, &key, nullptr);
  MPI_Comm_set_attr(own, key, &duplicates);
  {
    MpiCommunicator ranks(own);
    CHECK(duplicates.made == 1);
    CHECK(duplicates.freed == 0);
    std::vector<double> all(static_cast<std::size_t>(ranks.size()));
    ranks.all_gather(numbers(ranks.rank(), 1), all);
    CHECK(all.back() == number(ranks.size() - 1, 0));
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(own, &handler);
    CHECK(handler == MPI_ERRORS_ARE_FATAL);
  }
  CHECK(duplicates.freed == 1);
  CHECK(duplicates.that_return_errors == 1);

  // An error of MPI is reported with MPI's own text.
  duplicates.status = MPI_ERR_INTERN;
  MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
  const std::string message = support::message_of<std::runtime_error>([&] { MpiCommunicator ranks(own); });
  CHECK_THAT(message, Catch::Contains("specdec: MPI_Comm_dup: "));
  MPI_Comm_delete_attr(own, key);
  MPI_Comm_free_keyval(&key);
  MPI_Comm_free(&own);
}

#ifndef SPECDEC_TEST_SANITIZED

TEST_CASE("if one process runs out of memory for all numbers, all processes throw, and can go on") {
  MpiCommunicator ranks = world();
  const auto size = static_cast<std::size_t>(ranks.size());
  const Index last = ranks.size() - 1;
  std::vector<double> all(700 * size), expected;
  const std::vector<double> mine = numbers(ranks.rank(), 700);
  if (ranks.rank() == last) {
    allocations_left = 0;
    CHECK_THROWS_AS(ranks.all_gather(mine, all), std::bad_alloc);
  } else {
    CHECK(support::message_of<std::runtime_error>([&] { ranks.all_gather(mine, all); }) ==
          "specdec: rank " + std::to_string(last) + " has no memory for the numbers of all ranks");
  }
  ranks.all_gather(mine, all);
  for (Index r = 0; r < ranks.size(); ++r)
    for (const double x : numbers(r, 700)) expected.push_back(x);
  CHECK(all == expected);
}

#endif

TEST_CASE("processes refuse memory of a wrong size for the numbers of all") {
  MpiCommunicator ranks = world();
  std::vector<double> all(2 * static_cast<std::size_t>(ranks.size()) + 1);
  CHECK_THAT(support::message_of([&] { ranks.all_gather(numbers(0, 2), all); }),
             Catch::Contains("expected 2 for each of"));
}

TEST_CASE("two communicators and the program's own messages do not disturb each other") {
  MpiCommunicator ranks = world(), others = world();
  std::vector<double> a(static_cast<std::size_t>(ranks.size())), b = a;
  double sum = 0;
  const double mine = number(ranks.rank(), 1);
  ranks.all_gather(numbers(ranks.rank(), 1), a);
  MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  others.all_gather(std::span(&mine, 1), b);
  CHECK(a.back() == number(ranks.size() - 1, 0));
  CHECK(b.back() == number(ranks.size() - 1, 1));
  CHECK(sum == Approx(1000.0 * static_cast<double>(ranks.size() * (ranks.size() - 1)) / 2 +
                      static_cast<double>(ranks.size())));
}

TEST_CASE("processes that hold columns judge a draft as one process with all columns does") {
  MpiCommunicator ranks = world();
  const Index vocab_size = 50, gamma = 3;
  std::mt19937_64 rng(7);
  RowMajor<double> target(gamma + 1, vocab_size), draft(gamma, vocab_size);
  const auto fill = [&](RowMajor<double>& rows) {
    for (Index i = 0; i < rows.rows(); ++i) {
      for (Index x = 0; x < vocab_size; ++x) rows(i, x) = 0.01 + uniform01(rng);
      rows.row(i) /= rows.row(i).sum();
    }
  };
  const Index first = vocab_size * ranks.rank() / ranks.size(),
              count = vocab_size * (ranks.rank() + 1) / ranks.size() - first;
  for (int n = 0; n < 50; ++n) {
    fill(target);
    fill(draft);
    std::vector<Token> tokens;
    for (Index i = 0; i < gamma; ++i)
      tokens.push_back(static_cast<Token>(uniform01(rng) * static_cast<double>(vocab_size)));
    auto one = rng, many = rng;
    const RowMajor<double> columns = target.middleCols(first, count);
    Shards mine{columns, first, vocab_size, ranks, tokens};
    const Verdict alone = BlockVerifier{}(target, draft, tokens, one);
    const Verdict together = BlockVerifier{}(mine.rows(), draft, tokens, many);
    CHECK(together.accepted == alone.accepted);
    CHECK(together.token == alone.token);
  }
}

}  // namespace test_mpi
