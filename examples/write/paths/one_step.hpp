// Rules for one step: which of several candidates is accepted, if they were drawn independently from one row.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <specdec/specdec.hpp>
#include <vector>

namespace paths {

using specdec::Index, specdec::Token;
using Row = Eigen::RowVectorXd;

// What a rule answers for a target t, whose sum is at most 1, and candidates from q. For each token x:
struct Shares {
  Row accepted;  // the probability that x is accepted, given the candidates; 0 unless x is one of them; they sum to 1 at most
  Row expected;  // its mean over all candidates that could have been drawn; at most t(x)
};

// Recursive rejection: one candidate after the other, each against what the rejection of the others leaves of the target.
// Cost: a pass over both rows for each candidate.
struct RecursiveRejection {
  Shares operator()(Row t, const Row& q, const std::vector<Token>& candidates) const {
    Shares shares{Row::Zero(q.size()), Row::Zero(q.size())};
    double left = 1,
           mean_left = 1;  // the probability that no candidate has been accepted so far, and its mean
    for (const Token x : candidates) {
      const double accepts = std::min(1.0, t[x] / q[x]);
      const Row mean = t.cwiseMin(q);
      const double rejects = 1 - mean.sum();
      shares.accepted[x] += left * accepts;
      shares.expected += mean_left * mean;
      left *= 1 - accepts;
      mean_left *= std::max(0.0, rejects);
      t = rejects > 0 ? Row((t - q).cwiseMax(0.0) / rejects) : Row::Zero(q.size());
    }
    return shares;
  }
};

// The best rule for one step: the probability of each set of candidates flows to its tokens, as much as the target takes. A largest
// flow, for small vocabularies. (Hu et al., arXiv:2502.18779, tell how much it is: specdec::most_accepted.)
// Cost: 2^V sets.
class Transport {
 public:
  Shares operator()(const Row& t, const Row& q, const std::vector<Token>& candidates) const {
    Flow flow(probabilities_of_sets(q, std::ssize(candidates)), t);
    while (flow.add_path()) {
    }
    std::size_t drawn = 0;
    for (const Token x : candidates) drawn |= std::size_t{1} << x;
    return {flow.flows.row(static_cast<Index>(drawn)) / flow.sets[drawn], flow.flows.colwise().sum()};
  }

 private:
  static constexpr double nothing = 1e-15;  // what rounding may leave

  // sets[s]: the probability that the tokens whose bits are set in s are drawn, and no others.
  static std::vector<double> probabilities_of_sets(const Row& q, std::ptrdiff_t draws) {
    std::vector<double> sets(std::size_t{1} << q.size());
    sets[0] = 1;
    for (; draws > 0; --draws) {
      std::vector<double> next(sets.size());
      for (std::size_t s = 0; s < sets.size(); ++s)
        for (Index x = 0; x < q.size(); ++x) next[s | std::size_t{1} << x] += sets[s] * q[x];
      sets = next;
    }
    return sets;
  }

  struct Flow {
    std::vector<double> sets, left;  // the probabilities of the sets, and what of them has not flowed yet
    Row room;                        // what each token still takes
    Eigen::MatrixXd flows;           // from set to token

    Flow(std::vector<double> all, const Row& t)
        : sets(all),
          left(std::move(all)),
          room(t),
          flows(Eigen::MatrixXd::Zero(static_cast<Index>(sets.size()), t.size())) {}

    // Adds flow along a shortest path from a set to a token with room. On the way a token may send back what another set has
    // sent it, and that set sends it elsewhere. False if there is no path left (Edmonds and Karp 1972).
    bool add_path() {
      const Index tokens = room.size();
      constexpr Index unseen = -2, source = -1;
      std::vector<Index> from(sets.size(), unseen), via(static_cast<std::size_t>(tokens), unseen);
      std::vector<Index> queue;  // of sets
      for (std::size_t s = 0; s < sets.size(); ++s)
        if (left[s] > nothing) {
          from[s] = source;
          queue.push_back(static_cast<Index>(s));
        }
      for (std::size_t head = 0; head < queue.size(); ++head)
        for (Index x = 0; x < tokens; ++x) {
          const Index s = queue[head];
          if (((s >> x) & 1) == 0 || via[static_cast<std::size_t>(x)] != unseen) continue;
          via[static_cast<std::size_t>(x)] = s;
          if (room[x] > nothing) return send(x, from, via);
          for (Index other = 0; other < flows.rows(); ++other)
            if (flows(other, x) > nothing && from[static_cast<std::size_t>(other)] == unseen) {
              from[static_cast<std::size_t>(other)] = x;
              queue.push_back(other);
            }
        }
      return false;
    }

   private:
    // Sends as much as fits along the path that ends at token x. from[s] is the token before set s, or negative; via[x] is the
    // set before token x.
    bool send(Index x, const std::vector<Index>& from, const std::vector<Index>& via) {
      const auto each =
          [&](const auto& visit) {  // visit(set, the token it sends to, the token that sends back to it)
            for (Index to = x; to >= 0;) {
              const Index s = via[static_cast<std::size_t>(to)], back = from[static_cast<std::size_t>(s)];
              visit(s, to, back);
              to = back;
            }
          };
      double amount = room[x];
      each([&](Index s, Index, Index back) {
        amount = std::min(amount, back < 0 ? left[static_cast<std::size_t>(s)] : flows(s, back));
      });
      room[x] -= amount;
      each([&](Index s, Index to, Index back) {
        flows(s, to) += amount;
        if (back < 0) left[static_cast<std::size_t>(s)] -= amount;
        else flows(s, back) -= amount;
      });
      return true;
    }
  };
};

}  // namespace paths
