// Greedy multi-path block verification: of several drafted lines one is selected, and judged like a single line.
// Source: Thomas and Pal, "Greedy Multi-Path Block Verification for Faster Decoding in Speculative Sampling", arXiv:2602.16961.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <specdec/specdec.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "paths/selected_row.hpp"
#include "paths/several_lines.hpp"

namespace paths {

// The line that is selected from several independent ones: from a node on, always to the token that is last in the order of p/q,
// among the lines that have the same text so far. It answers what a rule for lines asks of a draft. The draft row of each of its
// tokens is the law of the selected token. `Walk` is the order in which tokens are compared.
template <class D, class Walk>
class SelectedLine {
  struct Step {
    std::vector<Index> lines;  // a token of each line that has this text so far
    Index token;               // the selected one
    double elsewhere, q;
  };

 public:
  SelectedLine(const D& drafted, Index node, std::vector<Index> lines)
      : drafted_(drafted), node_(node), count_(std::ssize(lines)) {
    for (double elsewhere = 0; !lines.empty();) {
      const SelectedRow row(drafted.target(this->node(gamma())), drafted.draft(lines[0]), count_, elsewhere);
      const Index k = last_of(lines);
      const auto selected = row.selected(drafted.token(k));
      std::vector<Index> next = lines_after(drafted, lines, drafted.token(k));
      steps_.push_back({std::move(lines), k, elsewhere, selected.probability});
      lines = std::move(next);
      elsewhere = selected.elsewhere;
      if (p(gamma() - 1) == 0) break;  // no token after it can be accepted, and its row may be anything
    }
  }

  Index gamma() const { return std::ssize(steps_); }
  Token token(Index i) const { return drafted_.token(step(i).token); }
  double p(Index i) const { return drafted_.p(step(i).token); }
  double q(Index i) const { return step(i).q; }
  double ratio(Index i) const { return std::min(p(i) / q(i), 1e300); }

  // The node of the draft after i tokens of the line.
  Index node(Index i) const { return i == 0 ? node_ : step(i - 1).token + 1; }
  // The next tokens of the lines that were not selected there, and go on with token y. `after` is set to the node after y.
  // Nothing is known of these tokens: the selection did not look at them.
  std::optional<std::vector<Index>> others(Index i, Token y, Index& after) const {
    if (i == gamma() || token(i) == y) return std::nullopt;
    const auto& lines = step(i).lines;
    const auto first = std::ranges::find(lines, y, [&](Index k) { return drafted_.token(k); });
    if (first == lines.end()) return std::nullopt;
    after = *first + 1;
    return lines_after(drafted_, lines, y);
  }

  auto target(Index i) const { return drafted_.target(node(i)); }
  auto draft(Index i) const {
    return SelectedRow(target(i), drafted_.draft(step(i).lines[0]), count_, step(i).elsewhere);
  }
  Token draw(auto& chance, Index i) const { return drafted_.draw(chance, node(i)); }
  std::optional<Token> race(auto& chance, double w, Index i) const {
    if (!(w > 0)) return std::nullopt;
    const auto p = target(i);
    return i == gamma() ? chance.race(w, p) : chance.race(w, p, draft(i));
  }

  void look_up_all() const {}
  auto scratch() const { return drafted_.scratch(); }

 private:
  const Step& step(Index i) const { return steps_[static_cast<std::size_t>(i)]; }

  // The first of the lines whose token is last in the order.
  Index last_of(const std::vector<Index>& lines) const {
    const auto target = drafted_.target(node(gamma()));
    const auto draft = drafted_.draft(lines[0]);
    return *std::ranges::max_element(lines, Walk{},
                                     [&](Index k) { return rated(target, draft, drafted_.token(k)); });
  }

  const D& drafted_;
  Index node_, count_;
  std::vector<Step> steps_;
};

// Verifies a tree of independent lines that branch at the context only: selects one, and judges it by a rule for lines, with the
// laws of the selected tokens as the draft's rows. Only the target's rows along this line decide. With BlockVerifier this is greedy
// multi-path block verification. Lossless if the rule is, and if lines with equal beginnings have equal rows.
//
// `spares`: where the rule stops with a token Y that another line has there, that line was not looked at any further. So the
// lines with Y go on from there, like the draft of a next step.
//
// Lines must have one length, which does not depend on what was drawn. A line may end at a token that ends the text.
// Throws: InvalidArgument on any other tree.
// Cost: a pass over a target row and a draft row for each selected token, and for each token that the rule asks for.
template <class Rule = specdec::BlockVerifier, bool spares = true, class Walk = ByRatioThenId>
struct MultiPath {
  // Without spares Y may be the token of a line that was not selected.
  static constexpr bool repeats_rejected = !spares;

  specdec::NodeVerdict judge(const auto& drafted, auto& chance) const {
    refuse_unless_lines(drafted);
    std::optional<std::vector<Index>> lines = children(drafted, 0);
    for (Index node = 0;;) {
      const SelectedLine<std::remove_cvref_t<decltype(drafted)>, Walk> line(drafted, node, *std::move(lines));
      const specdec::Verdict verdict = Rule{}.judge(line, chance);
      node = line.node(verdict.accepted);
      if constexpr (spares) lines = line.others(verdict.accepted, verdict.token, node);
      else lines.reset();
      if (!lines) return {node, verdict.token};
    }
  }
};

}  // namespace paths
