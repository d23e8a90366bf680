// Chance that writes down what it decides, so that a reader can follow it.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

namespace web {

using Generator = std::mt19937_64;

/// One random decision of a rule, or the beginning or the end of a race.
struct Event {
  enum class Kind {
    coin,  ///< with probability h, decided by the uniform number u; a certain coin has no u
    draw,  ///< of a token from a target row, where it has probability p; q is that of the draft row, −1 without one
    race,  ///< a race of weight h begins
    won,   ///< by the token drawn last
    lost
  };

  Kind kind;
  double h = 0, u = -1;
  bool yes = false;
  specdec::Token token = -1;
  double p = 0, q = 0;
};

/// Chance from a generator (a specdec::Chance). While it has a list, it writes its decisions into it. It takes the same random
/// numbers as specdec::RandomChance, so a text does not depend on whether somebody looks.
class ShownChance {
 public:
  explicit ShownChance(Generator& generator) : generator_(&generator), chance_(generator) {}

  /// Where to write; nowhere if it is null.
  void write_to(std::vector<Event>* events) { events_ = events; }

  bool coin(double h) {
    if (!(h > 0 && h < 1)) {
      const bool yes = chance_.coin(h);
      return add({.kind = Event::Kind::coin, .h = h, .yes = yes}), yes;
    }
    const double u = specdec::uniform01(*generator_);
    add({.kind = Event::Kind::coin, .h = h, .u = u, .yes = u < h});
    return u < h;
  }

  template <specdec::Distribution R>
  specdec::Token draw(const R& row, specdec::Index place = 0) {
    return drawn(chance_.draw(row, place), row);
  }
  template <class S, specdec::Distribution R>
  specdec::Token draw_again(S& sampler, const R& row) {
    return drawn(chance_.draw_again(sampler, row), row);
  }

  template <specdec::Distribution P, specdec::Distribution Q>
  std::optional<specdec::Token> race(double w, const P& p, const Q& q) {
    const std::size_t begin = events_ ? events_->size() : 0;
    begin_race(w);
    const std::optional<specdec::Token> winner = specdec::run_race(*this, w, p, q);
    for (std::size_t k = begin; events_ && k < events_->size(); ++k)
      if (Event& event = (*events_)[k]; event.token >= 0) event.q = specdec::probability(q, event.token);
    return end_race(winner);
  }
  template <specdec::Distribution P>
  std::optional<specdec::Token> race(double w, const P& p) {
    begin_race(w);
    return end_race(coin(w) ? std::optional(draw(p)) : std::nullopt);
  }

 private:
  void add(const Event& event) {
    if (events_) events_->push_back(event);
  }
  template <class R>
  specdec::Token drawn(specdec::Token y, const R& row) {
    if (events_) add({.kind = Event::Kind::draw, .token = y, .p = specdec::probability(row, y), .q = -1});
    return y;
  }
  void begin_race(double w) { add({.kind = Event::Kind::race, .h = w}); }
  std::optional<specdec::Token> end_race(std::optional<specdec::Token> winner) {
    add({.kind = winner ? Event::Kind::won : Event::Kind::lost, .token = winner.value_or(-1)});
    return winner;
  }

  Generator* generator_;
  specdec::RandomChance<Generator> chance_;
  std::vector<Event>* events_ = nullptr;
};

}  // namespace web
