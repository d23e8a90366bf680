// Drafts a line of tokens that branches where the model is not sure of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/keyed.hpp"
#include "specdec/draft/draft_model.hpp"
#include "specdec/draft/tree_draft.hpp"
#include "specdec/error.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/kinds/variant_rows.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/likeliest.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec {

/// How a ConfidentSparesDrafter drafts.
struct ConfidentSpares {
  Index trunk = 4;    ///< how many tokens the line has
  Index nodes = 16;   ///< how many tokens are proposed, line and all
  Index tails = 0;    ///< how many spares are gone on from
  Index tail = 1;     ///< by how many tokens each
  bool drawn = true;  ///< whether the tokens of line and tails are drawn, or are the likeliest ones, chosen
};

/// Trunk and spares where they are worth most: drafts a line with a model, the trunk, and beside it those spares by which
/// the text most probably leaves it, by the model: that is the product of the draft probabilities of the trunk's tokens up
/// to there and of the spare. So where the model is sure there are none, and many where it is not.
///
///   ConfidentSparesDrafter drafter{small, {.trunk = 4, .nodes = 16}};
///   ConfidentSparesDrafter drafter{small, {.trunk = 4, .nodes = 16, .tails = 2}};  // a token behind the best two spares
///   ConfidentSparesDrafter drafter{small, {.drawn = false}};                       // for temperature 0
///
/// The trunk is numbered first. Then come the spares, the most probable first, of equals the one nearer to the context,
/// then of the lower id; they are chosen, and report one-hot rows. The `tails` most probable of them have a tail each, a
/// line of `tail` tokens, numbered behind it. Tokens of trunk and tails report the very rows they were drawn from, or,
/// chosen, one-hot ones. Limits take away the least probable spares first, with what is behind them.
/// SparesDrafter has its spares where it is told to, whatever the rows say.
/// Lossless: which spares there are depends on rows and on tokens of the trunk, all of which are proposed. What is behind
/// a spare is drawn from the row there, once it is known that it is proposed.
/// Source: the confidence is that of Li et al., "EAGLE-2", arXiv:2406.16858.
/// The model may be any Model: it takes in one line after the other. One passed as an lvalue is referred to and must
/// outlive the drafter; an rvalue is moved in. Drafters that refer to one model, and copies of a drafter, may take turns:
/// whoever takes over feeds its context anew. The model's vocabulary may be smaller or larger than the target's. Tokens of
/// the context that the model does not know are shown to it as token 0, which costs acceptance, never exactness. Where its
/// context is bounded (context_size) trunk and tails are no longer than that has room for, in the end there is none.
/// Throws: std::invalid_argument where a number of `tree` is outside 0..longest_draft.
/// Random: one draw per token of trunk and tails, by ascending number, unless they are chosen.
/// Cost: a call of the model for each, which for a tail also takes in what is in front of it of the trunk and of it; for
/// each token of the trunk a pass over its row, and a copy of it if it was drawn. The first call also takes in what the
/// model has not seen of the context. No allocation in steady state.
template <class M>
class ConfidentSparesDrafter {
  using DraftModel = detail::DraftModel<M>;
  // Of what is in front of a tail the model may have forgotten the rows before the draft is made.
  using Copies = StoredRows<typename DraftModel::Row, false>;
  using Row = VariantRow<typename Copies::Stored, OneHotRow>;

 public:
  explicit ConfidentSparesDrafter(M&& model, const ConfidentSpares& tree = {})
      : model_(std::forward<M>(model)), tree_(tree) {
    detail::check_drafted("trunk", tree.trunk);
    detail::check_drafted("nodes", tree.nodes);
    detail::check_drafted("tails", tree.tails);
    detail::check_drafted("tail", tree.tail);
  }

  /// Throws: std::invalid_argument on an empty context, and where the model returns rows of another shape
  /// than asked for.
  template <RandomSource Source>
  TreeDraft<RowSpan<Row>> draft(std::span<const Token> context, const TreeLimits& limits, Source& source) & {
    if (context.empty()) detail::invalid_argument("context is empty: there is nothing to continue");
    auto&& chance = as_chance(source);
    clear();
    depth_ = std::min(limits.depth, model_.room(context));
    nodes_ = std::min(limits.nodes, std::max(tree_.nodes, limits.trunk));
    const Index trunk = std::min({std::max(tree_.trunk, limits.trunk), depth_, nodes_});
    if (trunk > 0) {
      begin(context);
      grow_trunk(context, trunk, chance);
      grow_spares(chance);
    }
    return {tokens_, RowSpan<Row>(rows_, model_.vocab_size()), parents_};
  }

  /// The model, where others may refer to it, too.
  template <class Visit>
    requires detail::MayBeShared<M>
  void each_identity(const Visit& visit) const {
    model_.each_identity(visit);
  }

  void truncate(Index length) { model_.truncate(length); }

 private:
  // A token that might stand beside one of the trunk.
  struct Spare {
    Token token;
    Index parent;
    double probability;
  };

  Index size() const { return std::ssize(tokens_); }

  void clear() {
    tokens_.clear();
    rows_.clear();
    parents_.clear();
    behind_.clear();
    spares_.clear();
  }

  // Where the context has gone on with a spare, the model has taken in something else.
  void begin(std::span<const Token> context) {
    model_.take();
    for (std::size_t i = 0; i < taken_in_.size(); ++i) {
      const std::size_t at = from_ + i;
      if (at < context.size() && context[at] == taken_in_[i]) continue;
      model_.truncate(static_cast<Index>(at));
      break;
    }
    taken_in_.clear();
    from_ = context.size();
  }

  // The row behind the last of these tokens of the tree, which follow what the model has taken in.
  decltype(auto) take_in(Index first, Index last) {
    const auto tokens = std::span<const Token>(tokens_).subspan(static_cast<std::size_t>(first),
                                                                static_cast<std::size_t>(last - first + 1));
    taken_in_.reserve(taken_in_.size() + tokens.size());
    decltype(auto) output = model_.forward(tokens);
    taken_in_.insert(taken_in_.end(), tokens.begin(), tokens.end());
    return output;
  }

  template <class C>
  void grow_trunk(std::span<const Token> context, Index trunk, C& chance) {
    double reached = find_spares(model_.forward(model_.unseen(context)), -1, trunk, 1.0, chance);
    for (Index last = 0; last + 1 < trunk; ++last)
      reached = find_spares(take_in(last, last), last, trunk, reached, chance);
  }

  // A token of the trunk, and what might stand beside it. How probably the text goes on with it.
  template <class Output, class C>
  double find_spares(const Output& output, Index parent, Index trunk, double reached, C& chance) {
    const auto q = model_.row(distributions(output));
    const Token token = grow(q, parent, chance);
    const auto name = detail::NamedRow(q, "draft", size() - 1);
    const Index most = nodes_ - trunk;
    if (most < 1) return reached;
    name.named([&] {
      for (const LikelyToken& likely : likeliest_.of(q, most + 1))
        if (likely.token != token) spares_.push_back({likely.token, parent, reached * likely.probability});
    });
    return reached * static_cast<double>(q.probability(token));
  }

  // A token behind a node, from the row there.
  template <class Q, class C>
  Token grow(const Q& q, Index parent, C& chance) {
    const auto name = detail::NamedRow(q, "draft", size());
    if (!tree_.drawn) {
      const Token token = name.named([&] { return likeliest(q); });
      add(token, parent, Row(std::in_place_index<1>, OneHotRow(token)));
      return token;
    }
    const Token token = detail::behind(chance, depth(parent)).draw(name);
    behind_.add(name);
    add(token, parent, Row(std::in_place_index<0>, behind_[behind_.size() - 1]));
    return token;
  }

  // How many tokens there are on the way to a node, that included.
  Index depth(Index node) const {
    Index depth = 0;
    for (; node >= 0; node = parents_[static_cast<std::size_t>(node)]) ++depth;
    return depth;
  }

  template <class Q>
  Token likeliest(const Q& q) {
    const auto found = likeliest_.of(q, 1);
    if (found.empty()) throw InvalidDistribution("no token has positive probability");
    return found.front().token;
  }

  // The most probable of the spares that were found, as far as there is room, and their tails.
  template <class C>
  void grow_spares(C& chance) {
    std::sort(spares_.begin(), spares_.end(), [](const Spare& a, const Spare& b) {
      if (a.probability != b.probability) return a.probability > b.probability;
      return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
    });
    Index tails = tree_.tails;
    for (const Spare& spare : spares_) {
      if (size() >= nodes_) return;
      add(spare.token, spare.parent, Row(std::in_place_index<1>, OneHotRow(spare.token)));
      if (tails-- > 0) grow_tail(spare, chance);
    }
  }

  template <class C>
  void grow_tail(const Spare& spare, C& chance) {
    const Index depth = spare.parent + 2;
    const Index length = std::min({tree_.tail, depth_ - depth, nodes_ - size()});
    if (length < 1) return;
    go_back_to(spare.parent);
    for (Index i = 0; i < length; ++i) {
      const auto& output = take_in(size() - 1, size() - 1);
      grow(model_.row(distributions(output)), size() - 1, chance);
    }
  }

  // The model then has taken in the trunk up to this node, and nothing else of the tree.
  void go_back_to(Index node) {
    Index kept = 0;
    while (kept <= node && kept < std::ssize(taken_in_) &&
           taken_in_[static_cast<std::size_t>(kept)] == tokens_[static_cast<std::size_t>(kept)])
      ++kept;
    model_.truncate(static_cast<Index>(from_) + kept);
    taken_in_.resize(static_cast<std::size_t>(kept));
    if (kept <= node) take_in(kept, node);
  }

  void add(Token token, Index parent, const Row& row) {
    tokens_.push_back(token);
    rows_.push_back(row);
    parents_.push_back(parent);
  }

  DraftModel model_;
  ConfidentSpares tree_;
  Index nodes_ = 0, depth_ = 0;
  std::vector<Token> tokens_;
  std::vector<Row> rows_;
  std::vector<Index> parents_;
  Copies behind_;  // the rows that tokens were drawn from
  std::vector<Spare> spares_;
  std::vector<Token> taken_in_;  // behind the first from_ tokens
  std::size_t from_ = 0;
  LikeliestTokens likeliest_;
};

template <class M>
ConfidentSparesDrafter(M&&) -> ConfidentSparesDrafter<M>;
template <class M>
ConfidentSparesDrafter(M&&, const ConfidentSpares&) -> ConfidentSparesDrafter<M>;

}  // namespace specdec
