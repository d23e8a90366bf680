// What each row offers that is made of another row. A member that an adaptor no longer passes on fails to compile here.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <specdec/more/models/common_tokens.hpp>
#include <specdec/more/ranks/sharded.hpp>
#include <specdec/more/rows.hpp>
#include <specdec/specdec.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace test_rows_row_adaptor {

using namespace specdec;
using namespace specdec::detail;

namespace {

// Each capability has a letter.
struct Offer {
  char letter;
  bool offered;
};
template <class R>
constexpr auto offers_of = std::array{Offer{'a', ArgmaxRow<R>},
                                      Offer{'s', SummableRow<R>},
                                      Offer{'g', SegmentedRow<R>},
                                      Offer{'l', ListedRow<R>},
                                      Offer{'c', constant_time_probability<R>},
                                      Offer{'i', AnswersAnyId<R>},
                                      Offer{'e', TellsLogProbability<R>},
                                      Offer{'p', TellsPossible<R>},
                                      Offer{'f', Prefetches<R>},
                                      Offer{'r', rounding_of_small<R> != 0},
                                      Offer{'R', relative_rounding<R> != 0},
                                      Offer{'d', KnowsDeadEnd<R>},
                                      Offer{'m', KnowsLargestProbability<R>},
                                      Offer{'k', KnowsStretches<R>},
                                      Offer{'u', KnowsUnprocessed<R>},
                                      Offer{'t', HoldsDrawnToken<R>},
                                      Offer{'h', RowOfSomeKind<R>},
                                      Offer{'o', MovesToCopy<R>},
                                      Offer{'N', NormalisesItself<R>},
                                      Offer{'n', HasName<R>},
                                      Offer{'x', SpreadRow<R>}};

// Whether the row offers what the letters say, and nothing else.
template <Distribution R>
consteval bool offers(std::string_view letters) {
  std::size_t offered = 0;
  for (const Offer& offer : offers_of<R>) {
    if (offer.offered != (letters.find(offer.letter) != letters.npos)) return false;
    offered += offer.offered;
  }
  return offered == letters.size();
}

template <class R>
using Without = PartOfRow<R, WithoutTokens>;
template <class R>
using Only = PartOfRow<R, OnlyTokens>;
template <class R>
using Copy = typename RowCopy<R>::View;
struct NothingTaken {
  template <class Visit>
  void each(const Visit&) const {}
};
template <class R>
using Rest = RoughResidualRow<R, SumOfRows<NothingTaken>>;

using Dense = DenseRow<Eigen::half>;
using Softmax = LogitsRow<float>;
using Processed = ProcessedRow<float, 1, Chain<>>;
using List = SparseRow<float>;

static_assert(offers<Dense>("asgcfrR"));
static_assert(offers<NamedRow<Dense>>("asgipfn"));
static_assert(offers<Without<Dense>>("asgcepfrRd"));
static_assert(offers<Only<Dense>>("asgcepfrRd"));
static_assert(offers<MappedRow<Dense>>("asgcepfrRdm"));
static_assert(offers<VariantRow<Dense>>("asgcepfrRdmh"));
static_assert(offers<VariantRow<Dense, OneHotRow>>("asgcepfrRdmh"));
static_assert(offers<SampledRow<Dense>>("asgcfrRt"));
static_assert(offers<CommonTokensRow<Dense>>("asgcepfrRdm"));
static_assert(offers<ResidualRow<Dense, OneHotRow>>("sgn"));
static_assert(offers<Rest<Dense>>("sgn"));
static_assert(offers<ColumnsOfRow<Dense>>("sg"));
static_assert(offers<Copy<Dense>>("asgcf"));

static_assert(offers<Softmax>("asgepdkuoN"));
static_assert(offers<NamedRow<Softmax>>("asgipfn"));
static_assert(offers<Without<Softmax>>("asgepdu"));
static_assert(offers<Only<Softmax>>("asgepdu"));
static_assert(offers<MappedRow<Softmax>>("asgepfdmu"));
static_assert(offers<VariantRow<Softmax>>("asgepdmkuh"));
static_assert(offers<VariantRow<Softmax, OneHotRow>>("asgepdmkuh"));
static_assert(offers<SampledRow<Softmax>>("asgepdkutoN"));
static_assert(offers<CommonTokensRow<Softmax>>("asgepfdmu"));
static_assert(offers<ResidualRow<Softmax, OneHotRow>>("sgn"));
static_assert(offers<Rest<Softmax>>("sgn"));
static_assert(offers<ColumnsOfRow<Softmax>>("sg"));
static_assert(offers<Copy<Softmax>>("asgepdkuoN"));

static_assert(offers<Processed>("asgepdmkuo"));
static_assert(offers<NamedRow<Processed>>("asgipfn"));
static_assert(offers<Without<Processed>>("asgepdu"));
static_assert(offers<Only<Processed>>("asgepdu"));
static_assert(offers<MappedRow<Processed>>("asgepfdmu"));
static_assert(offers<VariantRow<Processed>>("asgepdmkuh"));
static_assert(offers<VariantRow<Processed, OneHotRow>>("asgepdmkuh"));
static_assert(offers<SampledRow<Processed>>("asgepdmkuto"));
static_assert(offers<CommonTokensRow<Processed>>("asgepfdmu"));
static_assert(offers<ResidualRow<Processed, OneHotRow>>("sgn"));
static_assert(offers<Rest<Processed>>("sgn"));
static_assert(offers<ColumnsOfRow<Processed>>("sg"));
static_assert(offers<Copy<Processed>>("asgepdmkuo"));

static_assert(offers<List>("aslc"));
static_assert(offers<NamedRow<List>>("aslipfn"));
static_assert(offers<Without<List>>("aslcepd"));
static_assert(offers<Only<List>>("aslcepd"));
static_assert(offers<MappedRow<List>>("asgcepfdm"));
static_assert(offers<VariantRow<List>>("aslcepdmh"));
static_assert(offers<VariantRow<List, OneHotRow>>("aslcepdmh"));
static_assert(offers<SampledRow<List>>("aslct"));
static_assert(offers<CommonTokensRow<List>>("asgcepfdm"));
static_assert(offers<ResidualRow<List, OneHotRow>>("sln"));
static_assert(offers<Rest<List>>("sln"));
static_assert(offers<ColumnsOfRow<List>>("sl"));
static_assert(offers<Copy<List>>("aslc"));

static_assert(offers<OneHotRow>("aslc"));
static_assert(offers<NamedRow<OneHotRow>>("aslipfn"));
static_assert(offers<Without<OneHotRow>>("aslcepd"));
static_assert(offers<Only<OneHotRow>>("aslcepd"));
static_assert(offers<MappedRow<OneHotRow>>("asgcepfdm"));
static_assert(offers<VariantRow<OneHotRow>>("aslcepdmh"));
static_assert(offers<VariantRow<OneHotRow, OneHotRow>>("aslcepdmh"));
static_assert(offers<SampledRow<OneHotRow>>("aslct"));
static_assert(offers<CommonTokensRow<OneHotRow>>("asgcepfdm"));
static_assert(offers<ResidualRow<OneHotRow, OneHotRow>>("sln"));
static_assert(offers<Rest<OneHotRow>>("sln"));
static_assert(offers<ColumnsOfRow<OneHotRow>>("sl"));
static_assert(offers<Copy<OneHotRow>>("aslc"));

struct OneRank {
  Index rank() const { return 0; }
  Index size() const { return 1; }
  void all_gather(std::span<const double> mine, std::span<double> all) {
    std::ranges::copy(mine, all.begin());
  }
};
using Spread = ShardedRow<DenseRows<NumbersOf<Eigen::MatrixXf>>, OneRank>;

// Rows of several kinds, and rows over ranks.
static_assert(offers<VariantRow<Dense, Softmax, List>>("asgepfrRdmkuh"));
static_assert(offers<Without<VariantRow<Dense, Softmax>>>("asgepfrRdu"));
static_assert(offers<Spread>("asgdx"));
static_assert(offers<ResidualRow<Spread, Spread>>("sgnx"));
static_assert(offers<NamedRow<Spread>>("asgipfnx"));

// An adaptor that keeps the ids, and forgets everything else that it could offer.
struct Halved : RowAdaptor<Halved, Keeps::ids, Dense> {
  explicit Halved(const Dense& inside) : row(inside) {}
  auto ask(const auto& f) const { return f(row); }
  double probability(Token x) const { return row.probability(x) / 2; }
  auto sampler() const { return row.sampler(); }
  Dense row;
};
static_assert(offers<Halved>("cpfrR"));

// One that keeps everything, but says that a member is not as it was.
struct Unsummed : RowAdaptor<Unsummed, Keeps::all, Dense> {
  explicit Unsummed(const Dense& inside) : row(inside) {}
  auto ask(const auto& f) const { return f(row); }
  double sum(Index, Index) const = delete;
  auto sampler() const { return row.sampler(); }
  Dense row;
};
static_assert(offers<Unsummed>("acepfrRdm"));

}  // namespace

TEST_CASE("an adaptor answers by the row inside what it keeps") {
  const std::array numbers{Eigen::half(0.25f), Eigen::half(0.5f), Eigen::half(0.0f), Eigen::half(0.25f)};
  const Dense row(numbers.data(), 4);
  const Halved halved(row);
  CHECK(halved.vocab_size() == 4);
  CHECK(halved.probability(1) == 0.25);
  CHECK(possible(halved, 3));
  CHECK_FALSE(possible(halved, 2));
  CHECK_FALSE(possible(halved, 4));
  const Unsummed unsummed(row);
  CHECK(unsummed.probability(1) == 0.5);
  CHECK(log_probability(unsummed, 1) == std::log(0.5));
  CHECK(unsummed.argmax() == 1);
  CHECK(unsummed.largest_probability() == 0.5);
  CHECK_FALSE(unsummed.is_dead_end());
  CHECK(Unsummed(Dense(numbers.data() + 2, 1)).is_dead_end());
}

TEST_CASE("a row of one of several kinds knows the sums of the stretches that the held row knows") {
  const std::vector<float> logits(5000, 0.0f);
  const Softmax row(NumberRow<float>(logits.data(), 5000));
  using Either = VariantRow<Softmax, OneHotRow>;
  CHECK(Either(std::in_place_index<0>, row).known_stretch() == row.known_stretch());
  CHECK(Either(std::in_place_index<1>, OneHotRow(7)).known_stretch() == 0);
  CHECK(Processed(NumberRow<float>(logits.data(), 5000), Chain<>{}).known_stretch() == row.known_stretch());
}

}  // namespace test_rows_row_adaptor
