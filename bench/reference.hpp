// The rules as the papers print them: whole rows, residuals summed and normalised, coins in the printed
// order. The verifiers of the library are timed beside these, and must accept as much: see agree() in measured.hpp.
//
// Read this beside the paper. Rows are float, and whole-row expressions are vectorised by Eigen. A scratch row is kept,
// so that token and block allocate nothing after the first call. The input is not checked.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "rows.hpp"
#include "specdec/verify/verdict.hpp"

namespace bench::reference {

using specdec::Verdict;

inline double uniform(std::mt19937_64& generator) {
  return std::uniform_real_distribution<double>()(generator);
}

/// Draws a token ∝ weights. The weights need not be normalised.
template <class Weights>
Token sample(const Weights& weights, std::mt19937_64& generator) {
  const double u = uniform(generator) * static_cast<double>(weights.sum());
  double sum = 0;
  Index last = 0;
  for (Index x = 0; x < weights.size(); ++x) {
    if (!(weights[x] > 0)) continue;
    last = x;
    sum += static_cast<double>(weights[x]);
    if (sum > u) break;
  }
  return static_cast<Token>(last);
}

inline double ratio(const Rows& ps, const Rows& qs, Index i, Token x) {
  return static_cast<double>(ps(i, x)) / static_cast<double>(qs(i, x));
}

/// (w·p − q)+ as an expression.
template <class P, class Q>
auto residual(double w, const P& p, const Q& q) {
  return (static_cast<float>(w) * p.array() - q.array()).max(0.0f);
}

/// Leviathan et al., arXiv:2211.17192, Algorithm 1.
class PlainToken {
 public:
  Verdict operator()(const Rows& ps, const Rows& qs, std::span<const Token> xs, std::mt19937_64& generator) {
    const Index gamma = qs.rows();
    Index n = 0;
    while (n < gamma && uniform(generator) <= ratio(ps, qs, n, xs[static_cast<std::size_t>(n)])) ++n;
    if (n == gamma) return {n, sample(ps.row(n).array(), generator)};
    residual_ = residual(1, ps.row(n), qs.row(n));
    residual_ /= residual_.sum();
    return {n, sample(residual_, generator)};
  }

 private:
  Row residual_;
};

/// Sun et al., arXiv:2403.10444, Algorithm 2.
class PlainBlock {
 public:
  Verdict operator()(const Rows& ps, const Rows& qs, std::span<const Token> xs, std::mt19937_64& generator) {
    const Index gamma = qs.rows();
    Index tau = 0;
    double w = 1, w_tau = 1;
    for (Index i = 1; i <= gamma; ++i) {
      w = std::min(1.0, w * ratio(ps, qs, i - 1, xs[static_cast<std::size_t>(i - 1)]));
      double h = w;
      if (i < gamma) {
        const double s = residual(w, ps.row(i), qs.row(i)).sum();
        h = s > 0 ? s / (s + 1 - w) : 0;
      }
      if (uniform(generator) <= h) {
        tau = i;
        w_tau = w;
      }
    }
    if (tau == gamma) return {tau, sample(ps.row(tau).array(), generator)};
    residual_ = residual(w_tau, ps.row(tau), qs.row(tau));
    residual_ /= residual_.sum();
    return {tau, sample(residual_, generator)};
  }

 private:
  Row residual_;
};

/// Sun et al., arXiv:2403.10444, Algorithms 4 to 6: greedy block verification, and the targets that it modifies.
class PlainGreedyBlock {
 public:
  Verdict operator()(const Rows& ps, const Rows& qs, std::span<const Token> xs, std::mt19937_64& generator) {
    const Index gamma = qs.rows();
    std::vector<Modification> live = live_, live_at_tau;
    Index tau = 0;
    double g = 1, g_tau = 1;
    for (Index i = 0; i <= gamma; ++i) {
      if (i == gamma) {
        if (uniform(generator) <= std::min(1.0, g)) {
          tau = gamma;
          live_at_tau.clear();
        }
        break;
      }
      modified_target(ps, qs, i, live);
      const double s =
          live.empty() ? residual(g, ps.row(i), qs.row(i)).sum() : residual(g, target_, qs.row(i)).sum();
      const double h = g >= 1 ? 1 : s > 0 ? s / (s + 1 - g) : 0;
      if (uniform(generator) <= h) {
        tau = i;
        g_tau = g;
        live_at_tau = live;
      }
      const Token x = xs[static_cast<std::size_t>(i)];
      g *= (live.empty() ? ps(i, x) : target_[x]) / static_cast<double>(qs(i, x));
      live = advance(live, qs, i, x);
    }
    live_.clear();
    if (tau == gamma) return {tau, sample(ps.row(tau).array(), generator)};
    modified_target(ps, qs, tau, live_at_tau);
    if (live_at_tau.empty()) target_ = ps.row(tau);
    residual_ = residual(g_tau, target_, qs.row(tau));
    const Token y = sample(residual_, generator);
    live_ = advance(live_at_tau, qs, tau, y);
    const double r = static_cast<double>(qs(tau, y)) / (g_tau * static_cast<double>(target_[y]));
    if (gamma - tau - 1 > 0) live_.push_back({r, gamma - tau - 1, Row()});
    return {tau, y};
  }

 private:
  struct Modification {
    double r;
    Index left;
    Row before;  // the target of this position without this modification and those after it
  };

  void modified_target(const Rows& ps, const Rows& qs, Index i, std::vector<Modification>& live) {
    if (live.empty()) return;
    target_ = ps.row(i);
    for (Modification& m : live) {
      m.before = target_;
      target_ = (m.before - static_cast<float>(m.r) * qs.row(i).array()).max(0.0f);
      const float sum = target_.sum();
      if (sum > 0) target_ /= sum;
      else target_ = m.before;
    }
  }

  static std::vector<Modification> advance(const std::vector<Modification>& live, const Rows& qs, Index i,
                                           Token x) {
    std::vector<Modification> next;
    for (const Modification& m : live) {
      const double r = m.r * static_cast<double>(qs(i, x)) / static_cast<double>(m.before[x]);
      if (m.left > 1 && r < 1) next.push_back({r, m.left - 1, Row()});
    }
    return next;
  }

  std::vector<Modification> live_;
  Row target_, residual_;
};

/// Verification at temperature 0: accepts a drafted token if it is the argmax of its row.
struct PlainArgmax {
  Verdict operator()(const Rows& ps, const Rows& qs, std::span<const Token> xs, std::mt19937_64&) {
    for (Index i = 0;; ++i) {
      Index best = 0;
      ps.row(i).maxCoeff(&best);
      if (i == qs.rows() || best != xs[static_cast<std::size_t>(i)]) return {i, static_cast<Token>(best)};
    }
  }
};

/// Samples from every target row, and goes on while the drafted token equals the sample.
struct PlainSampleMatch {
  Verdict operator()(const Rows& ps, const Rows& qs, std::span<const Token> xs, std::mt19937_64& generator) {
    for (Index i = 0;; ++i) {
      const Token y = sample(ps.row(i).array(), generator);
      if (i == qs.rows() || y != xs[static_cast<std::size_t>(i)]) return {i, y};
    }
  }
};

}  // namespace bench::reference
