// Draws from rows that are spread over ranks.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/more/ranks/communicator.hpp"
#include "specdec/more/ranks/exchange.hpp"
#include "specdec/more/ranks/rank_columns.hpp"
#include "specdec/more/ranks/rank_masses.hpp"
#include "specdec/rows/read/prefix_sampler.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// A token that one rank has drawn from its part of a row, and the token's probability in the whole row.
struct ToldDraw {
  Token token;
  double p;
};

/// Draws by a number u. u falls into one rank's part of the row; this rank draws the token, and tells it to the others.
/// Refers to its arguments.
template <DistributionMatrix M, Communicator C>
class RankDraws {
 public:
  RankDraws(const RankColumns<M>& mine, const RankMasses& masses, Exchange<C>& exchange)
      : mine_(mine), masses_(masses), exchange_(exchange) {}

  /// Makes `count` draws from every row, with the numbers us[row·count + k]. Calls visit(row, draw) for each: draw() returns
  /// a ToldDraw, or throws.
  /// Cost: one exchange of 1 + 2·rows·count numbers.
  template <class Visit>
  void draw(std::span<const double> us, Index count, const Visit& visit) {
    exchange_(1 + 2 * us.size(), [&](auto& out) {
      out.push_back(us.empty() ? 0.0 : us.front());
      for (std::size_t k = 0; k < us.size(); ++k) give(out, static_cast<Index>(k) / count, us[k]);
    });
    exchange_.check_alike(0, what_generators_give);
    for (std::size_t k = 0; k < us.size(); ++k)
      visit(static_cast<Index>(k) / count, [&] { return told(1 + 2 * k); });
  }

  /// One draw.
  /// Cost: one exchange of three numbers.
  ToldDraw draw(Index i, double u) {
    exchange_(3, [&](auto& out) {
      out.push_back(u);
      give(out, i, u);
    });
    exchange_.check_alike(0, what_generators_give);
    return told(1);
  }

  /// A draw from another row; part() returns this rank's part of it.
  /// Cost: two exchanges, of three numbers together.
  template <class Part>
  Token draw_of(double u, const Part& part) {
    RankMasses masses;
    exchange_.prepare([&] { masses.resize(1, exchange_.ranks()); });
    exchange_.one([&] { return part().sum(0, mine_.count()); });
    masses.take(
        0, RankWeight::mass, [&](Index r) { return exchange_.from(r, 0); },
        most_mass<std::invoke_result_t<const Part&>>(
            0));  // equal on all ranks: does not depend on the number of columns
    exchange_(2, [&](auto& out) {
      out.assign({-1.0, 0.0});
      if (masses.owner(0, u) != exchange_.rank()) return;
      const auto row = part();
      const Token x = row.sampler()(masses.inside(0, exchange_.rank(), u));
      out.assign({static_cast<double>(mine_.first() + x), row.probability(x)});
    });
    return told(0).token;
  }

 private:
  static constexpr const char* what_generators_give = "what their generators give";

  // Gives a token and its probability if u falls into this rank's part of the row; else −1 and 0.
  void give(std::vector<double>& out, Index i, double u) const {
    double token = -1, p = 0;
    if (const Index rank = exchange_.rank(); masses_.owner(i, u) == rank) {
      p = attempt([&] {
        const auto& row = mine_.row(i);
        const Token x = row.sampler()(masses_.inside(i, rank, u));
        token = static_cast<double>(mine_.first() + x);
        return masses_.share(i, rank) * static_cast<double>(row.probability(x));
      });
    }
    out.insert(out.end(), {token, p});
  }

  // Reads the numbers of the rank that has drawn.
  ToldDraw told(std::size_t at) const {
    Index owner = 0;
    for (Index r = 0; r < exchange_.ranks(); ++r)
      if (exchange_.from(r, at) >= 0 || std::isnan(exchange_.from(r, at + 1))) owner = r;
    const double token = exchange_.from(owner, at), p = exchange_.from(owner, at + 1);
    if (!(token >= 0) || !(p > 0))
      invalid_distribution("rank ", owner, " could not draw from its part of the row");
    return {static_cast<Token>(token), p};
  }

  const RankColumns<M>& mine_;
  const RankMasses& masses_;
  Exchange<C>& exchange_;
};

}  // namespace specdec::detail
