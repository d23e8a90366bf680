// Which tokens are in live stretches, one by one.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/rows/kinds/stretches.hpp>
#include <vector>

#include "support/catch.hpp"

namespace test_rows_stretches {

using namespace specdec;
using detail::LiveStretches;

TEST_CASE("stretches are as short as there is room for") {
  CHECK(detail::log2_of_stretch(0) == 6);
  CHECK(detail::log2_of_stretch(65'536) == 6);
  CHECK(detail::log2_of_stretch(65'537) == 7);
  CHECK(detail::log2_of_stretch(131'073) == 8);
}

TEST_CASE("the runs of live tokens are those of the live stretches, and as long as they can be") {
  std::mt19937_64 rng{1};
  for (const Index size : {1, 64, 130, 4096, 5000, 65'536, 128'256})
    for (const unsigned of_ten : {0u, 1u, 5u, 9u, 10u}) {
      std::vector<bool> is_live(1024);
      for (std::size_t s = 0; s < is_live.size(); ++s) is_live[s] = rng() % 10 < of_ten;
      const LiveStretches live(size, [&](Index s) { return is_live[static_cast<std::size_t>(s)]; });
      const int log2 = detail::log2_of_stretch(size);
      for (int n = 0; n < 20; ++n) {
        const Index start = static_cast<Index>(rng() % static_cast<std::uint64_t>(size));
        const Index end = start + static_cast<Index>(rng() % static_cast<std::uint64_t>(size - start + 1));
        std::vector<bool> seen(static_cast<std::size_t>(size));
        Index last = -1;
        live.each(start, end, [&](Index first, Index count) {
          CHECK(first > last);  // a run that begins where the last one ended would be part of it
          last = first + count;
          REQUIRE((first >= start && count > 0 && last <= end));
          for (Index x = first; x < last; ++x) seen[static_cast<std::size_t>(x)] = true;
        });
        bool right = true;
        for (Index x = 0; x < size; ++x)
          right &= seen[static_cast<std::size_t>(x)] ==
                   (x >= start && x < end && is_live[static_cast<std::size_t>(x >> log2)]);
        CHECK(right);
      }
    }
}

TEST_CASE("without a cut all stretches are live, and no run is empty") {
  Index calls = 0;
  LiveStretches{}.each(3, 100, [&](Index first, Index count) { calls += first == 3 && count == 97; });
  LiveStretches{}.each(3, 3, [&](Index, Index) { calls += 10; });
  CHECK(calls == 1);
  CHECK(LiveStretches{}.are_all());
}

}  // namespace test_rows_stretches
