// Processes as ranks. All of them run each case together; one that fails a REQUIRE would leave the others waiting.
#include "specdec/mpi.hpp"

#include <cstddef>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_mpi {

using namespace specdec;
using support::RowMajor;

namespace {

// From the first case to the last.
struct Mpi {
  Mpi() { MPI_Init(nullptr, nullptr); }
  ~Mpi() { MPI_Finalize(); }
};

MpiCommunicator world() {
  static Mpi mpi;
  return MpiCommunicator();
}

// The k-th number that a rank gives.
double number(Index rank, std::size_t k) {
  return 1000.0 * static_cast<double>(rank) + static_cast<double>(k);
}

std::vector<double> numbers(Index rank, std::size_t count) {
  std::vector<double> mine;
  for (std::size_t k = 0; k < count; ++k) mine.push_back(number(rank, k));
  return mine;
}

}  // namespace

TEST_CASE("processes give one another their numbers, of any count") {
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

TEST_CASE("processes that give different counts all throw, and go on") {
  MpiCommunicator ranks = world();
  const auto size = static_cast<std::size_t>(ranks.size());
  for (const std::size_t more : {1u, 100u}) {
    const std::size_t count = ranks.rank() == ranks.size() - 1 ? 5 + more : 5;
    std::vector<double> all(count * size, -1.0);
    const std::vector<double> before = all;
    if (ranks.size() == 1) continue;  // which agrees with itself
    const std::string message =
        support::message_of<std::logic_error>([&] { ranks.all_gather(numbers(ranks.rank(), count), all); });
    CHECK_THAT(message, Catch::Contains("rank 0 gives 5 numbers, rank " + std::to_string(ranks.size() - 1) +
                                        " gives " + std::to_string(5 + more)));
    CHECK(all == before);
  }
  std::vector<double> all(size);
  ranks.all_gather(numbers(ranks.rank(), 1), all);
  CHECK(all.back() == number(ranks.size() - 1, 0));
}

TEST_CASE("processes refuse a place that is not as large as what comes") {
  MpiCommunicator ranks = world();
  std::vector<double> all(2 * static_cast<std::size_t>(ranks.size()) + 1);
  CHECK_THAT(support::message_of([&] { ranks.all_gather(numbers(0, 2), all); }),
             Catch::Contains("expected 2 for each of"));
}

TEST_CASE("what is sent beside a communicator does not meet its messages") {
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

TEST_CASE("processes that hold the columns judge a draft as one that has them all") {
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
