// Verification on a device, by the loop of a CPU: laws over all numbers, verdicts equal to those of verify(), faults.
// SPDX-License-Identifier: MIT
#include "specdec/more/device/requests.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/device/addressed_chance.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/address_enumerator.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/rows_on_host.hpp"

namespace test_more_device_requests {

using namespace specdec;
using device::Fault;
using device::FaultKind;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity(), NaN = std::numeric_limits<float>::quiet_NaN();

float narrowed(float x, float) { return x; }
device::Bfloat16 narrowed(float x, device::Bfloat16) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return {static_cast<std::uint16_t>(bits >> 16)};
}
device::Half narrowed(float x, device::Half) {  // of numbers with few digits
  const Eigen::half half(x);
  return {Eigen::numext::bit_cast<std::uint16_t>(half)};
}

// Requests with all their memory, summed and finished.
template <class Scalar = float, class DraftRows = device::DenseDrafts<float>>
struct Memory {
  device::Requests<Scalar, DraftRows> all = {};
  std::vector<std::int32_t> ends = {}, tokens = {}, accepted = {}, token = {}, emitted = {};
  std::vector<Scalar> target = {};
  std::vector<float> temperatures = {}, min_p = {}, top_p = {}, largest = {};
  std::vector<std::int32_t> top_k = {};
  std::vector<std::uint64_t> seeds = {}, steps = {};
  std::vector<device::SegmentSum> sums = {};
  std::vector<double> cumulative = {}, residual = {};
  std::vector<device::RowSummary> rows_of = {};
  std::vector<Fault> faults = {};

  // From ends, tokens and target.
  void connect(Index vocab_size) {
    const auto count = ends.size(), rows = static_cast<std::size_t>(ends.back()) + count;
    temperatures.resize(count, 1);
    min_p.resize(count);
    top_k.resize(count);
    top_p.resize(count, 1);
    seeds.resize(count);
    steps.resize(count);
    accepted.assign(count, -7);
    token.assign(count, -7);
    faults.assign(count, {});
    all.count = static_cast<Index>(count);
    all.target.vocab_size = vocab_size;
    const auto segments = static_cast<std::size_t>(all.segments());
    sums.resize(rows * segments);
    largest.resize(sums.size() * device::lanes);
    cumulative.resize(rows * segments);
    residual.resize(count * segments);
    rows_of.resize(rows);
    all.ends = ends.data();
    all.tokens = tokens.data();
    all.target.logits = target.data();
    all.settings.temperatures = temperatures.data();
    all.settings.min_p = min_p.data();
    all.settings.top_k = top_k.data();
    all.settings.top_p = top_p.data();
    all.work.largest = largest.data();
    all.seeds = seeds.data();
    all.steps = steps.data();
    all.work.sums = sums.data();
    all.work.cumulative = cumulative.data();
    all.work.rows = rows_of.data();
    all.work.residual = residual.data();
    all.verdicts.accepted = accepted.data();
    all.verdicts.token = token.data();
    all.verdicts.faults = faults.data();
  }
  void emit(Index width) {
    emitted.assign(ends.size() * static_cast<std::size_t>(width), -7);
    all.verdicts.emitted = emitted.data();
    all.verdicts.width = width;
  }
  void prepare() const {
    device::LoopCrew<3> crew;
    for (Index r = 0; r < all.count; ++r)
      for (Index i = 0; i <= all.gamma(r); ++i) {
        for (Index s = 0; s < all.segments(); ++s) device::sum_segment_of(device::LoopTeam{}, all, r, i, s);
        device::finish_row_of(crew, all, r, i);
      }
  }
};

using Law = std::map<std::pair<std::int32_t, Token>, double>;

double difference(Law a, Law b) {
  double worst = 0;
  for (const auto& [verdict, probability] : a) worst = std::max(worst, std::abs(probability - b[verdict]));
  for (const auto& [verdict, probability] : b) worst = std::max(worst, std::abs(probability - a[verdict]));
  return worst;
}

// The law of a verdict on a device, over all numbers at all addresses.
template <int teams, class Rule, class M>
Law law_on_device(const Rule& rule, const M& memory, int race_rounds) {
  Law law;
  support::AddressEnumerator numbers(race_rounds);
  device::LoopCrew<teams> crew;
  do {
    device::judge_request(crew, rule, memory.all, 0, support::AddressEnumerator::Numbers(numbers));
    law[{memory.accepted[0], memory.token[0]}] += numbers.probability();
  } while (numbers.next());
  return law;
}

// The law of verify() on matrices of the same probabilities, over all decisions.
template <class Rule>
Law law_on_host(const Rule& rule, const Eigen::MatrixXd& p, const Eigen::MatrixXd& q,
                const std::vector<Token>& tokens) {
  Law law;
  testing::enumerate([&](testing::Enumerator& chance) {
    const Verdict verdict = verify(rule, p, q, tokens, chance);
    law[{static_cast<std::int32_t>(verdict.accepted), verdict.token}] += chance.probability();
  });
  return law;
}

// The probabilities after top-k and top-p, by their definition. Equal weights stay or go together.
std::array<double, 3> kept_of(const int (&row)[3], int top_k, double top_p) {
  std::array<int, 3> sorted{row[0], row[1], row[2]};
  std::sort(sorted.rbegin(), sorted.rend());
  int least = top_k > 0 ? sorted[static_cast<std::size_t>(top_k) - 1] : 0;
  const auto sum_from = [&](int cut) {
    double sum = 0;
    for (const int w : row) sum += w >= cut ? w : 0;
    return sum;
  };
  for (const int w : sorted)
    if (sum_from(w) >= top_p * sum_from(least)) {
      least = std::max(least, w);
      break;
    }
  std::array<double, 3> kept{};
  for (std::size_t x = 0; x < 3; ++x) kept[x] = row[x] >= least ? row[x] / sum_from(least) : 0;
  return kept;
}

// Rows of probabilities that are small integers over a power of two, so that floats hold them exactly: at temperature log2(e)
// a logit is the logarithm to base 2.
constexpr Index size = 3;
struct SmallModels {
  Memory<float, device::ListedDrafts> memory;
  std::vector<std::int32_t> ids;
  std::vector<float> numbers;
  Eigen::MatrixXd p{3, size}, q{2, size};

  explicit SmallModels(std::mt19937_64& rng, int top_k = 0, float top_p = 1) {
    const int target[][3] = {{2, 1, 1}, {4, 2, 2}, {1, 1, 2}, {1, 0, 1}, {4, 4, 0}, {1, 2, 1}};
    const double draft[][3] = {
        {.25, .25, .5}, {.125, .375, .5}, {.625, .25, .125}, {.5, .25, .25}, {.875, .0625, .0625}};
    memory.temperatures = {device::log2_of_e};
    memory.top_k = {top_k};
    memory.top_p = {top_p};
    for (Index i = 0; i < 3; ++i) {
      const auto& row = target[rng() % 6];
      const auto kept = kept_of(row, top_k, top_p);
      for (Index x = 0; x < size; ++x) {
        p(i, x) = kept[static_cast<std::size_t>(x)];
        memory.target.push_back(row[x] > 0 ? static_cast<float>(std::log2(row[x])) : -inf);
      }
    }
    for (Index i = 0; i < 2; ++i) {
      const auto& row = draft[rng() % 5];
      for (Index k = 0; k < size; ++k) {
        const Index x = (k + i) % size;  // lists need no order
        q(i, x) = row[x];
        ids.push_back(static_cast<std::int32_t>(x));
        numbers.push_back(static_cast<float>(row[x]));
      }
    }
    memory.ends = {2};
    memory.tokens = {0, 0};
    memory.connect(size);
    memory.all.draft = {ids.data(), numbers.data(), size};
    memory.prepare();
  }
};

template <class Rule>
double worst_law(const Rule& rule, int top_k = 0, float top_p = 1) {
  std::mt19937_64 rng{41};
  double worst = 0;
  for (int n = 0; n < support::bound(6, 60); ++n) {
    SmallModels models(rng, top_k, top_p);
    for (Token x = 0; x < size; ++x)
      for (Token y = 0; y < size; ++y) {
        models.memory.tokens = {x, y};
        const Law expected = law_on_host(rule, models.p, models.q, {x, y});
        worst = std::max({worst, difference(law_on_device<1>(rule, models.memory, 0), expected),
                          difference(law_on_device<1>(rule, models.memory, 1), expected),
                          difference(law_on_device<2>(rule, models.memory, 2), expected)});
      }
  }
  return worst;
}

}  // namespace

TEST_CASE(
    "over all numbers, a device's verdicts have the law of the rule, however many rounds are made at once") {
  CHECK(worst_law(TokenVerifier{}) < 1e-13);
  CHECK(worst_law(BlockVerifier{}) < 1e-13);
  CHECK(worst_law(LenientVerifier{0.75}) < 1e-13);
  CHECK(worst_law(SampleMatchVerifier{}) < 1e-13);
  CHECK(worst_law(ArgmaxVerifier{}) < 1e-13);
}

TEST_CASE("over all numbers, the law is that of the rows after top-k and top-p") {
  CHECK(worst_law(BlockVerifier{}, 1) < 1e-13);
  CHECK(worst_law(BlockVerifier{}, 2) < 1e-13);
  CHECK(worst_law(TokenVerifier{}, 0, 0.5F) < 1e-13);
  CHECK(worst_law(BlockVerifier{}, 2, 0.7F) < 1e-13);
  CHECK(worst_law(SampleMatchVerifier{}, 2, 0.6F) < 1e-13);
}

namespace {

// One of all rules.
template <class F>
void with_rule(std::size_t n, const F& f) {
  switch (n % 5) {
    case 0:
      return f(BlockVerifier{});
    case 1:
      return f(TokenVerifier{});
    case 2:
      return f(LenientVerifier{0.8});
    case 3:
      return f(SampleMatchVerifier{});
    default:
      return f(ArgmaxVerifier{});
  }
}

struct Compared {
  long verdicts = 0, differing = 0, accepted = 0, faults = 0;
};

// Rows of logits, with −inf where the host's own steps leave a token out.
template <class Scalar>
std::vector<Scalar> cut_on_host(std::vector<Scalar> logits, Index vocab_size,
                                const device::Settings& settings) {
  if (settings.temperature == 0) return logits;
  const Chain chain(Temperature{settings.temperature}, TopK{settings.top_k}, TopP{settings.top_p});
  std::vector<float> row(static_cast<std::size_t>(vocab_size));
  for (std::size_t first = 0; first < logits.size(); first += row.size()) {
    for (std::size_t x = 0; x < row.size(); ++x) row[x] = device::widen(logits[first + x]);
    const float cut = chain(LogitsRow<float>({row.data(), vocab_size})).cut();
    for (std::size_t x = 0; x < row.size(); ++x)
      if (row[x] < cut) logits[first + x] = narrowed(-inf, Scalar{});
  }
  return logits;
}

// Random requests of one kind of number, on a device by a crew of `teams` teams, and by verify() over rows of the same sums. Top-k
// and top-p are those of the device there, and those of the host here.
template <int teams, class Scalar>
void compare(std::mt19937_64& rng, int sets, int steps, Compared& seen) {
  std::normal_distribution<float> normal;
  for (int n = 0; n < sets; ++n) {
    const Index sizes[] = {2, 3, 3, 7, 7, 20, 20, 40, 40, 301, 1027, 2500};
    const Index vocab_size = sizes[rng() % 12], gamma = static_cast<Index>(rng() % 6);
    const device::Settings settings{rng() % 8 == 0 ? 0.0F : 0.5F + 0.25F * static_cast<float>(rng() % 4),
                                    rng() % 4 == 0 ? 0.05F : 0.0F,
                                    rng() % 3 == 0 ? 1 + static_cast<std::int32_t>(rng() % 50) : 0,
                                    rng() % 3 == 0 ? 0.3F + 0.15F * static_cast<float>(rng() % 5) : 1.0F};
    // From drafts that are nearly the target, where races take many rounds, to bad ones.
    const float noise = std::ldexp(1.0F, -static_cast<int>(rng() % 12));
    Memory<Scalar> memory;
    std::vector<float> draft, sums;
    for (Index k = 0; k < (gamma + 1) * vocab_size; ++k) {
      const float l = 2 * normal(rng);
      memory.target.push_back(narrowed(l, Scalar{}));
      const float same = device::widen(memory.target.back());
      if (k < gamma * vocab_size) draft.push_back(same + noise * normal(rng));
      if (rng() % 16 == 0) memory.target.back() = narrowed(-inf, Scalar{});
    }
    std::vector<device::DenseDraft<float>> rows;
    for (Index i = 0; i <= gamma; ++i)
      memory.target[static_cast<std::size_t>(i * vocab_size)] = narrowed(1, Scalar{});
    for (Index i = 0; i < gamma; ++i) {
      double sum = 0;
      for (Index x = 0; x < vocab_size; ++x)
        sum += std::exp(static_cast<double>(draft[static_cast<std::size_t>(i * vocab_size + x)]));
      sums.push_back(static_cast<float>(std::log(sum)));
      rows.emplace_back(draft.data() + i * vocab_size, vocab_size, 1.0, static_cast<double>(sums.back()));
    }
    memory.ends = {static_cast<std::int32_t>(gamma)};
    memory.tokens.resize(static_cast<std::size_t>(gamma));
    memory.temperatures = {settings.temperature};
    memory.min_p = {settings.min_p};
    memory.top_k = {settings.top_k};
    memory.top_p = {settings.top_p};
    memory.connect(vocab_size);
    memory.all.draft = {{draft.data(), vocab_size}, sums.data()};
    memory.seeds = {rng()};
    memory.prepare();
    const auto cut = cut_on_host(memory.target, vocab_size, settings);
    const support::TargetOnHost<Scalar> target(cut.data(), gamma + 1, vocab_size, vocab_size,
                                               {settings.temperature, settings.min_p});
    const support::DraftOnHost<device::DenseDraft<float>> q(rows, vocab_size);
    device::LoopCrew<teams> crew;
    for (int step = 0; step < steps; ++step) {
      memory.steps[0] = static_cast<std::uint64_t>(step);
      for (Index i = 0; i < gamma; ++i)
        memory.tokens[static_cast<std::size_t>(i)] = q.row(i).sampler()(uniform01(rng));
      with_rule(static_cast<std::size_t>(step), [&](const auto& rule) {
        device::judge_request(crew, rule, memory.all, 0);
        AddressedChance chance{memory.seeds[0], memory.steps[0]};
        const Verdict verdict = verify(rule, target, q, memory.tokens, chance);
        ++seen.verdicts;
        seen.accepted += verdict.accepted;
        seen.faults += memory.faults[0].kind != FaultKind::none;
        seen.differing += memory.accepted[0] != verdict.accepted || memory.token[0] != verdict.token;
      });
    }
  }
}

}  // namespace

TEST_CASE("a device's verdicts are those of verify() over the same rows, to the token") {
  std::mt19937_64 rng{43};
  Compared seen;
  const int sets = support::bound(30, 700), steps = support::bound(120, 480);
  compare<8, float>(rng, sets, steps, seen);
  compare<1, device::Bfloat16>(rng, sets, steps, seen);
  compare<2, device::Half>(rng, sets, steps, seen);
  INFO(seen.verdicts << " verdicts, " << seen.accepted << " tokens accepted");
  CHECK(seen.differing == 0);
  CHECK(seen.faults == 0);
  CHECK(seen.verdicts == 3L * sets * steps);
  CHECK(seen.accepted > seen.verdicts / 4);
}

TEST_CASE("a race that no round wins is settled by a pass over the row, as by verify()") {
  const Index vocab_size = 3000;
  Memory<float, device::ListedDrafts> memory;
  memory.target.assign(static_cast<std::size_t>(2 * vocab_size), -inf);
  // Of 2^-20 more than the draft says: token 2050; of 2^-20 less: token 5.
  std::vector<std::int32_t> ids{5, 1500, 2050};
  std::vector<float> numbers{0.25F + 0x1p-20F, 0.5F, 0.25F - 0x1p-20F};
  memory.temperatures = {device::log2_of_e};
  memory.target[5] = memory.target[2050] = -2;
  memory.target[1500] = -1;
  memory.target[static_cast<std::size_t>(vocab_size)] = 0;
  memory.ends = {1};
  memory.tokens = {5};
  memory.connect(vocab_size);
  memory.all.draft = {ids.data(), numbers.data(), 3};
  memory.prepare();
  device::LoopCrew<4> crew;
  const support::TargetOnHost<float> target(memory.target.data(), 2, vocab_size, vocab_size,
                                            {device::log2_of_e, 0});
  const std::vector<device::ListedDraft> rows{{ids.data(), numbers.data(), 3}};
  const support::DraftOnHost<device::ListedDraft> q(rows, vocab_size);
  int won = 0;
  for (std::uint64_t step = 0; step < 200; ++step) {
    Fault fault;
    const device::Drafted drafted(crew, memory.all, 0, fault);
    const double w = step % 2 == 0 ? 1 : 1 - 0x1p-20;
    device::Chance<specdec::detail::SeededNumbers> numbers_here(specdec::detail::SeededNumbers(3), step,
                                                                fault);
    AddressedChance chance{3, step};
    const auto here = drafted.race(numbers_here, w, 0);
    const specdec::Drafted there(target, q, memory.tokens);
    CHECK(here == there.race(chance, w, 0));
    CHECK(fault == Fault{});
    CHECK((!here || *here == 2050));
    won += here.has_value();
  }
  CHECK(won > 130);  // all 100 of weight 1, and half of the others
  CHECK(won < 170);
}

namespace {

// A rule that is wrong: a coin of probability NaN where two tokens are drafted.
struct Wrong {
  Verdict judge(const auto& drafted, auto& chance) const {
    const Token y = drafted.draw(chance, 0);
    return {chance.coin(drafted.gamma() == 2 ? std::sqrt(-1.0) : 0.0) ? 1 : 0, y};
  }
};

// Three requests of 2, 3 and 0 tokens; the second ends after one, by −1. Rows are `stride` numbers apart.
template <class DraftRows>
Memory<float, DraftRows> ragged(Index vocab_size, Index stride) {
  std::mt19937_64 rng{47};
  std::normal_distribution<float> normal;
  Memory<float, DraftRows> memory;
  memory.ends = {2, 5, 5};
  memory.tokens = {1, 0, 2, -1, 2};
  for (Index k = 0; k < 8 * stride; ++k) memory.target.push_back(k % stride < vocab_size ? normal(rng) : NaN);
  // Rows after the end of the second draft are not asked.
  for (Index row : {5, 6}) std::fill_n(memory.target.begin() + row * stride, stride, NaN);
  memory.temperatures = {1, 0.5F, 2};
  memory.min_p = {0, 0.125F, 0};
  memory.seeds = {5, 6, 7};
  memory.connect(vocab_size);
  memory.all.target.stride = stride;
  return memory;
}

}  // namespace

TEST_CASE("ragged requests get the verdicts that each has alone, where the engine wants them") {
  auto memory = ragged<device::ChosenDrafts>(9, 11);
  memory.emit(4);
  std::vector<int> lengths(4);
  for (std::uint64_t step = 0; step < 300; ++step) {
    memory.steps = {step, step + 1000, step};
    device::judge_on_cpu(BlockVerifier{}, memory.all);
    for (std::size_t r = 0; r < 3; ++r) {
      const Index gamma = r == 0 ? 2 : r == 1 ? 1 : 0, row = r == 0 ? 0 : r == 1 ? 3 : 7;
      const std::vector<Token> tokens = r == 0   ? std::vector<Token>{1, 0}
                                        : r == 1 ? std::vector<Token>{2}
                                                 : std::vector<Token>{};
      const support::TargetOnHost<float> target(memory.target.data() + row * 11, gamma + 1, 9, 11,
                                                {memory.temperatures[r], memory.min_p[r]});
      AddressedChance chance{memory.seeds[r], memory.steps[r]};
      const Verdict verdict = verify(BlockVerifier{}, target, OneHotRows(tokens), tokens, chance);
      CHECK(memory.faults[r] == Fault{});
      CHECK(memory.accepted[r] == verdict.accepted);
      CHECK(memory.token[r] == verdict.token);
      std::vector<std::int32_t> emitted(tokens.begin(), tokens.begin() + verdict.accepted);
      emitted.push_back(verdict.token);
      emitted.resize(4, -1);
      CHECK(std::equal(emitted.begin(), emitted.end(), memory.emitted.begin() + 4 * static_cast<int>(r)));
      ++lengths[static_cast<std::size_t>(verdict.accepted)];
    }
  }
  CHECK(lengths[0] > 300);
  CHECK(lengths[1] + lengths[2] > 10);
  // Nobody wants results, settings or steps: seeds alone.
  const auto seen = memory.emitted;
  memory.all.verdicts.accepted = memory.all.verdicts.token = nullptr;
  memory.all.verdicts.faults = nullptr;
  device::judge_on_cpu(BlockVerifier{}, memory.all);
  CHECK(memory.emitted == seen);
  memory.all.verdicts = {};
  memory.all.settings = {};
  memory.all.work.largest = nullptr;
  memory.all.steps = nullptr;
  device::judge_on_cpu(TokenVerifier{}, memory.all);
}

TEST_CASE("a bad row, token or setting is its own request's fault, and is named") {
  // Draft rows of request 0: rows 0 and 1; of request 1: row 2.
  std::vector<float> draft(5 * 9, std::log(1.0F / 9)), sums(5, 0);
  const auto judged = [&](const auto& change, const auto& rule) {
    auto memory = ragged<device::DenseDrafts<float>>(9, 9);
    auto mine = draft;
    memory.all.draft = {{mine.data(), 9}, sums.data()};
    change(memory, mine);
    device::judge_on_cpu(rule, memory.all);
    for (std::size_t r = 0; r < 3; ++r) {
      CHECK((memory.accepted[r] == -1) == (memory.faults[r].kind != FaultKind::none));
      CHECK((memory.token[r] == -1) == (memory.faults[r].kind != FaultKind::none));
    }
    CHECK(memory.faults[2] == Fault{});
    return std::pair(memory.faults[0], memory.faults[1]);
  };
  using M = Memory<float, device::DenseDrafts<float>>;
  using Draft = std::vector<float>;
  const BlockVerifier block{};
  const TokenVerifier token{};
  const SampleMatchVerifier match{};
  CHECK(judged([](M&, Draft&) {}, block) == std::pair(Fault{}, Fault{}));
  CHECK(judged([](M& m, Draft&) { m.target[9 + 4] = NaN; }, block) ==
        std::pair(Fault{FaultKind::target_is_nan, 1}, Fault{}));
  CHECK(judged([](M& m, Draft&) { m.target[8] = inf; }, block) ==
        std::pair(Fault{FaultKind::target_is_infinite, 0}, Fault{}));
  CHECK(judged([](M& m, Draft&) { std::fill_n(m.target.begin() + 27, 9, -inf); }, token) ==
        std::pair(Fault{}, Fault{FaultKind::target_has_no_mass, 0}));
  CHECK(judged([](M& m, Draft&) { std::fill_n(m.target.begin() + 27, 9, -inf); }, match) ==
        std::pair(Fault{}, Fault{FaultKind::target_has_no_mass, 0}));
  CHECK(judged([](M& m, Draft&) { std::fill_n(m.target.begin() + 27, 9, -inf); }, ArgmaxVerifier{}) ==
        std::pair(Fault{}, Fault{FaultKind::target_has_no_mass, 0}));
  CHECK(judged([](M& m, Draft&) { m.tokens[1] = -2; }, block) ==
        std::pair(Fault{FaultKind::unknown_token, 1}, Fault{}));
  CHECK(judged([](M& m, Draft&) { m.tokens[0] = 9; }, block) ==
        std::pair(Fault{FaultKind::token_was_not_drawn, 0}, Fault{}));
  CHECK(judged([](M&, Draft& d) { d[18 + 2] = -inf; }, block) ==
        std::pair(Fault{}, Fault{FaultKind::token_was_not_drawn, 0}));
  CHECK(judged([](M&, Draft& d) { d[9] = NaN; }, block) ==
        std::pair(Fault{FaultKind::draft_is_no_probability, 1}, Fault{}));
  CHECK(judged([](M&, Draft& d) { d[18 + 2] = 0.5F; }, token) ==
        std::pair(Fault{}, Fault{FaultKind::draft_is_no_probability, 0}));
  CHECK(judged([](M& m, Draft&) { m.temperatures[0] = NaN; }, block) ==
        std::pair(Fault{FaultKind::bad_setting, 0}, Fault{}));
  CHECK(judged([](M& m, Draft&) { m.top_p[1] = 0; }, token) ==
        std::pair(Fault{}, Fault{FaultKind::bad_setting, 0}));
  CHECK(judged([](M& m, Draft&) { m.top_k[0] = 3, m.all.work.largest = nullptr; }, token) ==
        std::pair(Fault{FaultKind::bad_setting, 0}, Fault{}));
  CHECK(judged([](M& m, Draft&) { m.min_p[1] = 2; }, match) ==
        std::pair(Fault{}, Fault{FaultKind::bad_setting, 0}));
  // What no rule asks for is no fault: a row after a token that the target rules out.
  CHECK(judged([](M& m, Draft&) { m.target[1] = -inf, m.target[9] = NaN, m.target[18] = NaN; }, block) ==
        std::pair(Fault{}, Fault{}));
  // But each drafted token must have been drawn from its draft row.
  CHECK(judged([](M& m, Draft& d) { m.target[1] = -inf, d[9] = NaN; }, token) ==
        std::pair(Fault{FaultKind::draft_is_no_probability, 1}, Fault{}));
  // A coin of probability NaN.
  CHECK(judged([](M&, Draft&) {}, Wrong{}) == std::pair(Fault{FaultKind::no_verdict, 0}, Fault{}));
}

namespace {

// What f() returns; nothing if it throws an error.
template <class F>
std::optional<Verdict> verdict_of(const F& f) {
  try {
    return f();
  } catch (const Error&) {
    return std::nullopt;
  }
}

// A random request of a vocabulary of four tokens. Its draft rows list up to two more, and may hold numbers that are no
// probabilities. Its target rows may forbid a drafted token, be dead ends, or hold NaN or +inf.
struct RoughRequest {
  static constexpr Index size = 4, draft_size = 6;
  Memory<float, device::ListedDrafts> memory;
  std::vector<std::int32_t> ids;
  std::vector<float> numbers;
  Eigen::MatrixXd q;
  bool has_bad_row = false;

  explicit RoughRequest(std::mt19937_64& rng) {
    const auto one_in = [&rng](unsigned n) { return rng() % n == 0; };
    const auto below = [&rng](Index n) { return static_cast<Index>(rng() % static_cast<std::uint64_t>(n)); };
    const Index gamma = below(5);
    q.resize(gamma, draft_size);
    for (Index i = 0; i < gamma; ++i) {
      for (Index x = 0; x < draft_size; ++x)
        q(i, x) = x < size ? static_cast<double>(1 + below(8)) / 32 : static_cast<double>(below(2)) / 32;
      const Index token = below(one_in(8) ? draft_size : size);
      if (one_in(40)) q(i, token) = 0;
      if (one_in(8))
        q(i, below(draft_size)) = std::array{static_cast<double>(NaN), 2.0, -1.0, 0.0}[rng() % 4];
      memory.tokens.push_back(static_cast<std::int32_t>(token));
      for (Index x = 0; x < draft_size; ++x) {
        ids.push_back(static_cast<std::int32_t>(x));
        numbers.push_back(static_cast<float>(q(i, x)));
      }
    }
    for (Index i = 0; i <= gamma; ++i) {
      std::array<float, size> row;
      for (float& l : row) l = std::array{0.0F, 1.0F, 2.0F, -inf}[one_in(4) ? 3 : rng() % 3];
      row[static_cast<std::size_t>(below(size))] = 1;
      const bool is_dead_end = one_in(3), is_invalid = one_in(8);
      if (const Token token = i < gamma ? memory.tokens[static_cast<std::size_t>(i)] : 0;
          token < size && one_in(4))
        row[static_cast<std::size_t>(token)] = -inf;
      if (is_dead_end) row.fill(-inf);
      if (is_invalid) row[static_cast<std::size_t>(below(size))] = one_in(2) ? NaN : inf;
      has_bad_row = has_bad_row || is_dead_end || is_invalid;
      memory.target.insert(memory.target.end(), row.begin(), row.end());
    }
    memory.ends = {static_cast<std::int32_t>(gamma)};
    memory.temperatures = {one_in(8) ? 0.0F : device::log2_of_e};
    memory.connect(size);
    memory.all.draft = {ids.data(), numbers.data(), draft_size};
    memory.seeds = {rng()};
  }
};

}  // namespace

TEST_CASE("a request has a fault exactly where verify() over the logits throws, and else its verdict") {
  std::mt19937_64 rng{59};
  const Index checked_before = check_every(0);  // the draft rows do not sum to 1
  int faults = 0, judged_with_bad_row = 0, differing = 0;
  const int count = support::bound(8000, 100000);
  for (int n = 0; n < count; ++n) {
    RoughRequest request(rng);
    auto& memory = request.memory;
    const Index rows = memory.ends[0] + 1;
    const Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> logits(
        memory.target.data(), rows, request.size);
    const ProcessedRows there(logits, Chain(Temperature{memory.temperatures[0]}));
    const support::TargetOnHost<float> summed(memory.target.data(), rows, request.size, request.size,
                                              memory.all.settings.of(0));
    with_rule(static_cast<std::size_t>(n), [&](const auto& rule) {
      device::judge_on_cpu(rule, memory.all);
      const auto verdict_over = [&](const auto& target) {
        return verdict_of([&] {
          AddressedChance chance{memory.seeds[0]};
          return verify(rule, target, request.q, memory.tokens, chance);
        });
      };
      const auto expected = verdict_over(there);
      const bool fault = memory.faults[0].kind != FaultKind::none;
      INFO("request " << n << ": fault " << static_cast<int>(memory.faults[0].kind) << " of row "
                      << memory.faults[0].row);
      CHECK(fault == !expected);
      const Verdict here = fault ? Verdict{-1, -1} : Verdict{memory.accepted[0], memory.token[0]};
      differing += here != expected.value_or(Verdict{-1, -1});
      CHECK(verdict_over(summed).value_or(Verdict{-1, -1}) == here);
      faults += fault;
      judged_with_bad_row += !fault && request.has_bad_row;
    });
  }
  check_every(checked_before);
  CHECK(differing == 0);
  CHECK(faults > count / 5);
  CHECK(judged_with_bad_row > count / 5);
}

namespace {

struct Race {
  Verdict judge(const auto& drafted, auto& chance) const { return {0, *drafted.race(chance, 1.0, 0)}; }
};

}  // namespace

TEST_CASE("each piece writes into its own request's work space, and nowhere else") {
  const Index vocab_size = 2100, segments = 3;
  auto memory = ragged<device::ChosenDrafts>(vocab_size, vocab_size);
  const auto& all = memory.all;
  const device::SegmentSum no_sum{-7, -7};
  const device::RowSummary no_row{-7, -7, -7, -7, FaultKind::too_long};
  std::fill(memory.sums.begin(), memory.sums.end(), no_sum);
  std::fill(memory.largest.begin(), memory.largest.end(), -7.0F);
  std::fill(memory.cumulative.begin(), memory.cumulative.end(), -7.0);
  std::fill(memory.rows_of.begin(), memory.rows_of.end(), no_row);
  std::fill(memory.residual.begin(), memory.residual.end(), -7.0);
  // How many numbers from `begin` to `end` have been written, and how many in all.
  const auto written = [](const auto& numbers, Index begin, Index end, const auto& is_written) {
    return std::pair(std::count_if(numbers.begin() + begin, numbers.begin() + end, is_written),
                     std::count_if(numbers.begin(), numbers.end(), is_written));
  };
  const auto sum_written = [](const device::SegmentSum& sum) { return sum.sum != -7; };
  const auto number_written = [](auto number) { return number != -7; };
  const auto row_written = [](const device::RowSummary& row) { return row.total != -7; };
  device::LoopCrew<2> crew;
  Index rows = 0;
  for (Index r = 0; r < 3; ++r)
    for (Index i = 0; i <= all.gamma(r); ++i) {
      const Index row = std::array<Index, 3>{0, 3, 7}[static_cast<std::size_t>(r)] + i,
                  first = row * segments;
      for (Index s = 0; s < segments; ++s) {
        device::sum_segment_of(device::LoopTeam{}, all, r, i, s);
        const Index sums = segments * rows + s + 1;
        CHECK(written(memory.sums, first, first + s + 1, sum_written) == std::pair(s + 1, sums));
        CHECK(written(memory.largest, first * device::lanes, (first + s + 1) * device::lanes,
                      number_written) == std::pair((s + 1) * device::lanes, sums * device::lanes));
      }
      ++rows;
      device::finish_row_of(crew, all, r, i);
      CHECK(written(memory.cumulative, first, first + segments, number_written) ==
            std::pair(segments, segments * rows));
      CHECK(written(memory.rows_of, row, row + 1, row_written) == std::pair(Index{1}, rows));
    }
  // Without rounds a race is settled by a pass over the row.
  for (Index r = 0; r < 2; ++r) {
    support::AddressEnumerator numbers(0);
    device::judge_request(crew, Race{}, all, r, support::AddressEnumerator::Numbers(numbers));
    CHECK(written(memory.residual, segments * r, segments * (r + 1), number_written) ==
          std::pair(segments, segments * (r + 1)));
  }
}

TEST_CASE("a draft that is too long for a device is a fault, one token less is none") {
  Memory<float, device::ChosenDrafts> memory;
  memory.ends = {64, 129};
  memory.tokens.assign(129, 0);
  memory.target.assign(131, 0);
  memory.connect(1);
  device::judge_on_cpu(BlockVerifier{}, memory.all);
  CHECK(memory.faults[0] == Fault{});
  CHECK(memory.accepted[0] == 64);
  CHECK(memory.faults[1] == Fault{FaultKind::too_long, 0});
}

TEST_CASE("whatever the rows hold, a verdict is within the draft and the vocabulary, or there is a fault") {
  std::mt19937_64 rng{53};
  const float numbers[] = {0,      -0.0F, 1,    -1,  30, -30,  3e38F, -3e38F,
                           1e-40F, inf,   -inf, NaN, 88, -104, 5e4F,  0.5F};
  int sound = 0;
  for (int n = 0; n < support::bound(1500, 20000); ++n) {
    const auto any = [&] { return rng() % 3 == 0 ? numbers[rng() % 16] : numbers[rng() % 6]; };
    const Index vocab_size = 1 + static_cast<Index>(rng() % 5), gamma = static_cast<Index>(rng() % 4);
    Memory<> memory;
    std::vector<float> draft, sums;
    for (Index k = 0; k < (gamma + 1) * vocab_size; ++k) memory.target.push_back(any());
    for (Index k = 0; k < gamma * vocab_size; ++k) draft.push_back(any());
    for (Index k = 0; k < gamma; ++k) sums.push_back(rng() % 4 == 0 ? any() : 31.0F);
    memory.ends = {static_cast<std::int32_t>(gamma)};
    for (Index k = 0; k < gamma; ++k) memory.tokens.push_back(static_cast<std::int32_t>(rng() % 7) - 1);
    memory.temperatures = {rng() % 4 == 0 ? any() : 1.0F};
    memory.min_p = {rng() % 4 == 0 ? any() : 0.0F};
    memory.top_k = {rng() % 4 == 0 ? static_cast<std::int32_t>(rng() % 6) - 1 : 0};
    memory.top_p = {rng() % 4 == 0 ? any() : 1.0F};
    memory.seeds = {rng()};
    memory.connect(vocab_size);
    memory.all.draft = {{draft.data(), vocab_size}, sums.data()};
    with_rule(static_cast<std::size_t>(n), [&](const auto& rule) { device::judge_on_cpu(rule, memory.all); });
    if (memory.faults[0].kind != FaultKind::none) continue;
    ++sound;
    INFO(n << ": " << memory.accepted[0] << ", then " << memory.token[0] << " of " << vocab_size);
    CHECK((memory.accepted[0] >= 0 && memory.accepted[0] <= gamma));
    CHECK((memory.token[0] >= 0 && memory.token[0] < vocab_size));
    for (int k = 0; k < memory.accepted[0]; ++k)
      CHECK(memory.tokens[static_cast<std::size_t>(k)] < vocab_size);
    const support::TargetOnHost<float> target(memory.target.data(), gamma + 1, vocab_size, vocab_size,
                                              memory.all.settings.of(0));
    CHECK(target.row(memory.accepted[0]).probability(memory.token[0]) > 0);
  }
  CHECK(sound > support::bound(1500, 20000) / 8);
}

}  // namespace test_more_device_requests
