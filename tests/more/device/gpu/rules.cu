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

// A row: f(x) is the number of token x. With its default scale the numbers are probabilities.
template <class F>
struct Row {
  Index vocab;
  F f;
  double scale = 1;

  constexpr double operator()(Token x) const { return f(x) / scale; }
  constexpr double mass() const {
    double sum = 0;
    for (Token x = 0; x < vocab; ++x) sum += f(x);
    return sum;
  }
};
template <class F>
constexpr Row<F> row_of(Index vocab, const F& f, double scale = 1) {
  return {vocab, f, scale};
}

// Σ min(p/l, q).
constexpr double lenient_overlap(const auto& p, const auto& q, double l) {
  return row_of(p.vocab, [&](Token x) { return p(x) / l < q(x) ? p(x) / l : q(x); }).mass();
}

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
  constexpr Token draw(const auto& row) { return pick(row, row.mass()); }
  constexpr std::optional<Token> race(double w, const auto& t) {
    return coin(w) ? std::optional<Token>(draw(t)) : std::nullopt;
  }
  constexpr std::optional<Token> race(double w, const auto& t, const auto& d) {
    if (w <= 0) return std::nullopt;
    const auto rest = row_of(t.vocab, [&](Token x) { return w * t(x) > d(x) ? w * t(x) - d(x) : 0.0; });
    const double mass = rest.mass(), lost = w < 1 ? 1 - w : 0.0;
    if (!coin(mass / (mass + lost))) return std::nullopt;
    return pick(rest, mass);
  }

 private:
  constexpr Token pick(const auto& row, double mass) {
    double u = uniform() * mass;
    Token x = 0;
    for (; x < row.vocab - 1 && u >= row.f(x); ++x) u -= row.f(x);
    return x;
  }
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
  double** memory;  // of the rule: each scratch() takes size + 1 numbers

  constexpr Index gamma() const { return size; }
  constexpr auto stored(const double* numbers) const {
    return row_of(vocab, [numbers](Token x) { return numbers[x]; });
  }
  constexpr auto target(Index i) const { return stored(target_rows + i * vocab); }
  constexpr auto draft(Index k) const { return stored(draft_rows + k * vocab); }

  constexpr Token token(Index k) const { return tokens[k]; }
  constexpr Index parent(Index k) const { return parents[k]; }
  constexpr Index child(Index node, Index from) const {
    while (from < size && parents[from] + 1 != node) ++from;
    return from < size ? from : -1;
  }
  constexpr Index first_child(Index node) const { return child(node, 0); }
  constexpr Index next_sibling(Index k) const { return child(parents[k] + 1, k + 1); }

  constexpr double p(Index i, Token x) const { return target(i)(x); }
  constexpr double q(Index k, Token x) const { return draft(k)(x); }
  constexpr double p(Index k) const { return p(parent(k) + 1, token(k)); }
  constexpr double q(Index k) const { return q(k, token(k)); }
  constexpr double ratio(Index k) const { return p(k) / q(k); }
  constexpr void look_up_all() const {}
  constexpr void refuse_unless(bool, const auto&...) const {}
  constexpr Numbers scratch() const {
    double* numbers = *memory;
    *memory += size + 1;
    return {numbers};
  }
  constexpr Token argmax(Index i) const {
    Token best = 0;
    for (Token x = 1; x < vocab; ++x)
      if (p(i, x) > p(i, best)) best = x;
    return best;
  }

  constexpr Token draw(Chance& chance, Index i) const { return chance.draw(target(i)); }
  constexpr std::optional<Token> race(Chance& chance, double w, Index i) const {
    return i == gamma() ? chance.race(w, target(i)) : chance.race(w, target(i), draft(i));
  }
  // The row (p − Σ b·q)+.
  constexpr auto without(Index i, const auto& each, double mass) const {
    const auto left = [this, i, each](Token x) {
      double left = p(i, x);
      each([&](double b, Index k) { left -= b * q(k, x); });
      return left > 0 ? left : 0.0;
    };
    return row_of(vocab, left, mass);
  }
  constexpr auto residual(Index i, double b, Index k, double mass = 1) const {
    const auto taken = [b, k](const auto& take) { take(b, k); };
    return without(i, taken, mass);
  }
  // Found by the namespace of the draft.
  friend constexpr auto residual(const DeviceDraft& drafted, Index i, const auto& each, double mass = 1) {
    return drafted.without(i, each, mass);
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
