// The rules of the library on a device: one thread judges one draft, with its rows and its memory given by the caller. It is
// compiled by .ci/gpu, which reads what comes out. Nothing here is meant to be fast.
// SPDX-License-Identifier: MIT
#include <cstdlib>

#include <specdec/verify/rules/argmax.hpp>
#include <specdec/verify/rules/block.hpp>
#include <specdec/verify/rules/greedy_block.hpp>
#include <specdec/verify/rules/k_seq.hpp>
#include <specdec/verify/rules/keyed.hpp>
#include <specdec/verify/rules/lenient.hpp>
#include <specdec/verify/rules/recursive_rejection.hpp>
#include <specdec/verify/rules/sample_match.hpp>
#include <specdec/verify/rules/token.hpp>
#include <specdec/verify/rules/traversal.hpp>
#include <specdec/verify/rules/trunk_and_spares.hpp>

#ifdef EIGEN_WORLD_VERSION
#error "a rule includes Eigen"
#endif

namespace {

using specdec::Index;
using specdec::NodeVerdict;
using specdec::Token;
using specdec::Verdict;

// Random numbers by an address: a count under a seed.
struct Chance {
  unsigned long long seed, count;

  constexpr double uniform() {
    unsigned long long z = seed + 0x9e3779b97f4a7c15ull * ++count;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }
  constexpr bool coin(double h) { return h >= 1 || (h > 0 && uniform() < h); }
};

// Memory that the caller gives for numbers of a rule.
struct Numbers {
  double* numbers;
  constexpr double& operator[](Index i) { return numbers[i]; }
  constexpr double operator[](Index i) const { return numbers[i]; }
};

// A draft in the memory of the device, a line or a tree.
struct DeviceDraft {
  const double *target_rows, *draft_rows;  // size + 1 and size rows
  const Token* tokens;
  const Index* parents;
  Index vocab, size;
  double** memory;               // of the rule: each scratch() takes size + 1 numbers
  Index** memory_of_nodes;       // each trunk() takes size + 1 numbers
  const Index* nodes = nullptr;  // of a trunk
  Index count = 0;

  constexpr Index gamma() const { return nodes != nullptr ? count : size; }
  constexpr Index row(Index i) const { return nodes != nullptr ? nodes[i] : i; }
  constexpr Index number(Index k) const { return nodes != nullptr ? nodes[k + 1] - 1 : k; }
  constexpr const double* target(Index i) const { return target_rows + row(i) * vocab; }
  constexpr const double* draft(Index k) const { return draft_rows + number(k) * vocab; }

  constexpr Token token(Index k) const { return tokens[number(k)]; }
  constexpr Index parent(Index k) const { return nodes != nullptr ? k - 1 : parents[k]; }
  constexpr Index child(Index node, Index from) const {
    while (from < size && parents[from] + 1 != node) ++from;
    return from < size ? from : -1;
  }
  constexpr Index first_child(Index node) const { return child(node, 0); }
  constexpr Index next_sibling(Index k) const { return child(parents[k] + 1, k + 1); }

  constexpr double p(Index i, Token x) const { return target(i)[x]; }
  constexpr double q(Index k, Token x) const { return draft(k)[x]; }
  constexpr double p(Index k) const { return p(parent(k) + 1, token(k)); }
  constexpr double q(Index k) const { return q(k, token(k)); }
  constexpr double ratio(Index k) const { return p(k) / q(k); }
  constexpr void look_up_all() const {}
  constexpr void check_gamma(Index, Index, const char*) const {}
  constexpr void check_one_row(Index, Index, const char*) const {}
  constexpr bool is_dead_end(Index) const { return false; }
  constexpr Numbers scratch() const {
    double* numbers = *memory;
    *memory += size + 1;
    return {numbers};
  }
  constexpr DeviceDraft trunk(Index node) const {
    DeviceDraft trunk = *this;
    Index* all = *memory_of_nodes;
    *memory_of_nodes += size + 1;
    all[0] = node;
    for (Index k = first_child(node); k >= 0; k = first_child(k + 1)) all[++trunk.count] = k + 1;
    trunk.nodes = all;
    return trunk;
  }
  constexpr Token argmax(Index i) const {
    Token best = 0;
    for (Token x = 1; x < vocab; ++x)
      if (target(i)[x] > target(i)[best]) best = x;
    return best;
  }

  // Numbers of a row: f(x) for each token x.
  constexpr double sum(const auto& f) const {
    double sum = 0;
    for (Token x = 0; x < vocab; ++x) sum += f(x);
    return sum;
  }
  constexpr Token pick(Chance& chance, double mass, const auto& f) const {
    double u = chance.uniform() * mass;
    Token x = 0;
    for (; x < vocab - 1 && u >= f(x); ++x) u -= f(x);
    return x;
  }
  constexpr std::optional<Token> race(Chance& chance, double w, const auto& t, const auto& d) const {
    if (w <= 0) return std::nullopt;
    const auto rest = [&](Token x) { return w * t(x) > d(x) ? w * t(x) - d(x) : 0.0; };
    const double mass = sum(rest), lost = w < 1 ? 1 - w : 0.0;
    if (!chance.coin(mass / (mass + lost))) return std::nullopt;
    return pick(chance, mass, rest);
  }
  constexpr auto target_of(Index i) const {
    return [row = target(i)](Token x) { return row[x]; };
  }
  constexpr auto draft_of(Index k) const {
    return [row = draft(k)](Token x) { return row[x]; };
  }
  constexpr auto residual(Index i, double b, Index k, double mass = 1) const {
    return [t = target(i), d = draft(k), b, mass](Token x) {
      const double left = t[x] - b * d[x];
      return left > 0 ? left / mass : 0.0;
    };
  }
  constexpr auto remainder(Index last, Index node, const Numbers& b, double mass = 1) const {
    return [this, last, node, b, mass](Token x) {
      double left = target(node)[x];
      for (Index k = first_child(node); k >= 0 && k <= last; k = next_sibling(k)) left -= b[k] * draft(k)[x];
      return left > 0 ? left / mass : 0.0;
    };
  }

  constexpr Token draw(Chance& chance, Index i) const { return pick(chance, 1, target_of(i)); }
  constexpr std::optional<Token> race(Chance& chance, double w, Index i) const {
    return i == gamma() ? leaf_race(chance, w, i) : race(chance, w, target_of(i), draft_of(i));
  }
  constexpr std::optional<Token> leaf_race(Chance& chance, double w, Index i) const {
    return chance.coin(w) ? std::optional<Token>(draw(chance, i)) : std::nullopt;
  }
  constexpr std::optional<Token> child_race(Chance& chance, double w, Index k) const {
    return race(chance, w, target_of(parent(k) + 1), draft_of(k));
  }
  constexpr double residual_mass(Index i, double b) const { return sum(residual(i, b, i)); }
  constexpr std::optional<Token> residual_race(Chance& chance, double w, Index i, double b, double mass) const {
    return race(chance, w, residual(i, b, i, mass), draft_of(i));
  }
  constexpr double remainder_mass(Index k, const Numbers& b) const { return sum(remainder(k, parent(k) + 1, b)); }
  constexpr std::optional<Token> remainder_race(Chance& chance, double w, Index k, const Numbers& b,
                                                double mass) const {
    return race(chance, w, remainder(k - 1, parent(k) + 1, b, mass), draft_of(k));
  }
  constexpr double overlap(Index k, double rho) const {
    return sum([t = target(parent(k) + 1), d = draft(k), rho](Token x) { return t[x] / rho < d[x] ? t[x] / rho : d[x]; });
  }
  constexpr Token residual_draw(Chance& chance, Index k, double rho) const {
    const auto rest = residual(parent(k) + 1, rho, k);
    return pick(chance, sum(rest), rest);
  }
};

}  // namespace

// A rule without a memory, and one whose memory stays with the caller.
#define SPECDEC_KERNEL_OF(name, verdict, rule)                                                          \
  extern "C" __global__ void name(const DeviceDraft* draft, Chance* chance, verdict* out) {            \
    *out = rule.judge(*draft, *chance);                                                                 \
  }
SPECDEC_KERNEL_OF(token, Verdict, specdec::TokenVerifier{})
SPECDEC_KERNEL_OF(block, Verdict, specdec::BlockVerifier{})
SPECDEC_KERNEL_OF(argmax, Verdict, specdec::ArgmaxVerifier{})
SPECDEC_KERNEL_OF(sample_match, Verdict, specdec::SampleMatchVerifier{})
SPECDEC_KERNEL_OF(keyed, Verdict, specdec::KeyedVerifier{})
SPECDEC_KERNEL_OF(traversal, NodeVerdict, specdec::TraversalVerifier{})
SPECDEC_KERNEL_OF(recursive_rejection, NodeVerdict, specdec::RecursiveRejectionVerifier{})
SPECDEC_KERNEL_OF(k_seq, NodeVerdict, specdec::KSeqVerifier{})
SPECDEC_KERNEL_OF(trunk_and_spares, NodeVerdict, specdec::TrunkAndSpares<specdec::BlockVerifier>{})

#define SPECDEC_KERNEL_WITH(name, verdict, type)                                                         \
  extern "C" __global__ void name(const DeviceDraft* draft, Chance* chance, verdict* out, type* rule) { \
    *out = rule->judge(*draft, *chance);                                                                 \
  }
SPECDEC_KERNEL_WITH(lenient, Verdict, const specdec::LenientVerifier)
SPECDEC_KERNEL_WITH(greedy_block, Verdict, specdec::GreedyBlockWithin<8>)
