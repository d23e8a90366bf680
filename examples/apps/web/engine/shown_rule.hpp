// A rule that writes down what it judges: the rows and the weights.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <specdec/specdec.hpp>
#include <vector>

#include "web/engine/chosen_rule.hpp"
#include "web/engine/shown_chance.hpp"

namespace web {

/// A token with its probabilities in a target row and in the draft row beside it; q is −1 after the last drafted token.
struct Candidate {
  specdec::Token token;
  double p, q;
};

/// What was judged: see specdec::Drafted.
struct ShownDraft {
  std::vector<Candidate> drafted;
  std::vector<double> survival;              ///< [i]: P(at least i + 1 tokens are accepted), given the tokens
  std::vector<std::vector<Candidate>> rows;  ///< the likeliest tokens of each pair of rows
  std::vector<Event> events;
  specdec::Verdict verdict;
  std::chrono::nanoseconds time{0};  ///< that writing all this down took

  void clear() {
    drafted.clear();
    survival.clear();
    rows.clear();
    events.clear();
    verdict = {};
  }
};

/// A rule (a specdec::Verifier) that judges as ChosenRule does, and writes into a ShownDraft. Nothing else changes.
/// Pre: the ShownDraft outlives the rule.
class ShownRule {
 public:
  ShownRule(ChosenRule rule, ShownDraft& shown) : rule_(rule), shown_(&shown) {}

  specdec::Verdict judge(const auto& drafted, auto& chance) const {
    if constexpr (requires { chance.write_to(nullptr); }) {
      const auto begin = std::chrono::steady_clock::now();
      write(drafted);
      shown_->time += std::chrono::steady_clock::now() - begin;
      chance.write_to(&shown_->events);
      shown_->verdict = rule_.judge(drafted, chance);
      chance.write_to(nullptr);
      return shown_->verdict;
    } else {
      return rule_.judge(drafted, chance);
    }
  }
  double survival(double before, double p, double q) const { return rule_.survival(before, p, q); }

 private:
  static constexpr specdec::Index likeliest = 5;

  void write(const auto& drafted) const {
    shown_->clear();
    double w = 1;
    for (specdec::Index i = 0; i < drafted.gamma(); ++i) {
      shown_->drafted.push_back({drafted.token(i), drafted.p(i), drafted.q(i)});
      w = w > 0 ? rule_.survival(w, drafted.p(i), drafted.q(i)) : 0;
      shown_->survival.push_back(w);
    }
    for (specdec::Index i = 0; i <= drafted.gamma(); ++i) shown_->rows.push_back(row(drafted, i));
  }

  // The likeliest tokens of both rows, and the drafted token; the likeliest of the target first.
  static std::vector<Candidate> row(const auto& drafted, specdec::Index i) {
    std::vector<Candidate> row;
    specdec::TopTokens top;
    const auto add = [&](specdec::Token token) {
      if (std::ranges::find(row, token, &Candidate::token) != row.end()) return;
      const double q = i < drafted.gamma() ? specdec::probability(drafted.draft(i), token) : -1;
      row.push_back({token, specdec::probability(drafted.target(i), token), q});
    };
    for (const auto& one : top.of(drafted.target(i), likeliest)) add(one.token);
    if (i < drafted.gamma()) {
      for (const auto& one : top.of(drafted.draft(i), likeliest)) add(one.token);
      add(drafted.token(i));
    }
    std::ranges::stable_sort(row, [](const Candidate& a, const Candidate& b) { return a.p > b.p; });
    return row;
  }

  ChosenRule rule_;
  ShownDraft* shown_;
};

}  // namespace web
