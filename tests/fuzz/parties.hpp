// What the loop is made of, as the fuzzer has it: models, drafters, policies and rules, all of which fail or lie where the
// bytes say so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <specdec/specdec.hpp>
#include <variant>
#include <vector>

#include "fuzz/bytes.hpp"
#include "support/rules.hpp"

namespace fuzz {

using Matrix = support::RowMajor<double>;
using Tokens = std::vector<Token>;

// What goes wrong, as the bytes say; nothing once it is switched off.
struct Faults {
  Bytes* bytes = nullptr;
  bool lied = false;

  void may_fail() {
    if (bytes != nullptr && bytes->byte() >= 248) throw Failure();
  }
  bool may_lie() {
    const bool lie = bytes != nullptr && bytes->byte() >= 248;
    lied = lied || lie;
    return lie;
  }
};

constexpr Index vocabulary = 4;

// Rows that depend on the last two tokens. Each model has a row of its own for them. It takes in trees, too.
class Model {
 public:
  Model(std::uint64_t seed, Faults& faults, Index most) : seed_(seed), faults_(&faults), most_(most) {}

  Index vocab_size() const { return vocabulary; }
  Index context_size() const { return most_; }
  const Tokens& context() const { return context_; }
  // Whether that is this text, and nothing is open behind it.
  bool holds(std::span<const Token> text) const {
    return tree_.empty() && std::equal(context_.begin(), context_.end(), text.begin(), text.end());
  }

  const Matrix& forward(std::span<const Token> tokens, Index rows) {
    begin(tokens, rows);
    require(tree_.empty());
    for (const Token x : tokens) {
      require(x >= 0 && x < vocabulary);
      context_.push_back(x);
    }
    faults_->may_fail();  // with the tokens taken in
    rows_.resize(rows, vocabulary);
    for (Index i = 0; i < rows; ++i) {
      const std::size_t last = context_.size() - static_cast<std::size_t>(rows - i);
      fill(i, last > 0 ? context_[last - 1] : none, context_[last]);
    }
    if (faults_->may_lie()) lie();
    return rows_;
  }

  const Matrix& forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    begin(tokens, rows);
    require(parents.size() == tokens.size());
    for (std::size_t k = 0; k < tokens.size(); ++k) {
      require(tokens[k] >= 0 && tokens[k] < vocabulary);
      require(parents[k] >= -1 && parents[k] < std::ssize(tree_));
      tree_.push_back({tokens[k], parents[k]});
    }
    faults_->may_fail();
    rows_.resize(rows, vocabulary);
    for (Index i = 0; i < rows; ++i) {
      const Node& last = node(std::ssize(tree_) - rows + i);
      fill(i,
           last.parent >= 0   ? node(last.parent).token
           : context_.empty() ? none
                              : context_.back(),
           last.token);
    }
    if (faults_->may_lie()) lie();
    return rows_;
  }

  void keep(std::span<const Index> path) {
    Index last = -1;
    for (const Index k : path) {
      require(k > last && k < std::ssize(tree_) && node(k).parent == last);
      context_.push_back(node(k).token);
      last = k;
    }
    tree_.clear();
  }

  void truncate(Index length) {
    require(length >= 0);
    tree_.clear();
    if (length < std::ssize(context_)) context_.resize(static_cast<std::size_t>(length));
  }

 private:
  static constexpr Token none = 9;

  struct Node {
    Token token;
    Index parent;
  };
  const Node& node(Index k) const { return tree_[static_cast<std::size_t>(k)]; }

  void begin(std::span<const Token> tokens, Index rows) {
    require(!tokens.empty() && rows >= 1 && rows <= std::ssize(tokens));
    require(std::ssize(context_) + std::ssize(tree_) + std::ssize(tokens) <= most_);
    faults_->may_fail();
  }

  void fill(Index i, Token before, Token last) {
    specdec::SplitMix64 source(seed_ + 31 * static_cast<std::uint64_t>(before) +
                               static_cast<std::uint64_t>(last));
    for (Index x = 0; x < vocabulary; ++x) rows_(i, x) = static_cast<double>(source() % 8);
    if (rows_.row(i).sum() == 0) rows_(i, 0) = 1;
    rows_.row(i) /= rows_.row(i).sum();
  }

  void lie() {
    switch (faults_->bytes->up_to(4)) {
      case 0:
        rows_(0, 0) = std::numeric_limits<double>::quiet_NaN();
        break;
      case 1:
        rows_.setZero();
        break;
      case 2:
        rows_.conservativeResize(rows_.rows() + 1, vocabulary);
        rows_.bottomRows(1).setZero();
        break;
      case 3:
        rows_.conservativeResize(rows_.rows(), vocabulary - 1);
        break;
      default:
        rows_ *= 3;
        break;
    }
  }

  std::uint64_t seed_;
  Faults* faults_;
  Index most_;
  Tokens context_;
  std::vector<Node> tree_;  // what is open behind the context
  Matrix rows_;
};

// One of all drafters. Its rows are copied, so that those of all have one type.
class AnyDrafter {
 public:
  AnyDrafter(Index which, Model& middle, Model& small, Faults& faults) : faults_(&faults) {
    using namespace specdec;
    switch (which) {
      case 1:
        drafter_.emplace<PromptLookupDrafter>();
        break;
      case 2:
        drafter_.emplace<NgramTableDrafter>();
        break;
      case 3:
        drafter_.emplace<SuffixDrafter>();
        break;
      case 4:
        drafter_.emplace<LookaheadDrafter>();
        break;
      case 5:
        drafter_.emplace<Chain>(SuffixDrafter{}, Small(small));
        break;
      case 6:
        drafter_.emplace<NoDrafter>();
        break;
      case 8:
        drafter_.emplace<Cascade>(middle, Small(small), BlockVerifier{}, 3, ConfidentLength{});
        break;
      case 9:
        drafter_.emplace<RememberingCascade>(middle, Small(small), GreedyBlockVerifier{}, 3);
        break;
      default:
        drafter_.emplace<Small>(small);
        break;
    }
  }

  auto draft(std::span<const Token> context, Index gamma, auto& chance) {
    return draft(context, gamma, chance, [](const auto&, Index) { return true; });
  }
  auto draft(std::span<const Token> context, Index gamma, auto& chance, const auto& goes_on) {
    faults_->may_fail();
    std::visit(
        [&](auto& drafter) {
          if constexpr (requires { drafter.draft(context, gamma, chance, goes_on); })
            keep(drafter.draft(context, gamma, chance, goes_on));
          else keep(drafter.draft(context, gamma, chance));
        },
        drafter_);
    faults_->may_fail();
    if (faults_->may_lie()) lie();
    return specdec::Draft<Eigen::Ref<const Matrix, 0, Eigen::OuterStride<>>>{tokens_, rows_};
  }

  void truncate(Index length) {
    std::visit([&](auto& drafter) { drafter.truncate(length); }, drafter_);
  }

  template <class Rows>
  void observe(const Rows& rows, std::span<const Token> drafted, const specdec::Verdict& verdict) {
    faults_->may_fail();
    std::visit(
        [&](auto& drafter) {
          if constexpr (requires { drafter.observe(rows, drafted, verdict); })
            drafter.observe(rows, drafted, verdict);
        },
        drafter_);
    faults_->may_fail();
  }

 private:
  using Small = specdec::ModelDrafter<Model&>;
  using Chain = specdec::ChainDrafter<specdec::SuffixDrafter, Small>;
  using Cascade = specdec::CascadeDrafter<Model&, Small, specdec::BlockVerifier, specdec::ConfidentLength>;
  using RememberingCascade = specdec::CascadeDrafter<Model&, Small, specdec::GreedyBlockVerifier>;

  template <class Proposed>
  void keep(const Proposed& draft) {
    const auto rows = specdec::distributions(draft.rows);
    tokens_.assign(draft.tokens.begin(), draft.tokens.end());
    rows_.resize(std::ssize(tokens_), vocabulary);
    for (Index i = 0; i < rows_.rows(); ++i)
      for (Token x = 0; x < vocabulary; ++x) rows_(i, x) = specdec::probability(rows.row(i), x);
  }

  void lie() {
    switch (faults_->bytes->up_to(3)) {
      case 0:
        tokens_.push_back(0);
        break;
      case 1:
        tokens_.assign(tokens_.size(), static_cast<Token>(faults_->bytes->size()));
        break;
      case 2:
        rows_.setConstant(faults_->bytes->number());
        break;
      default:
        tokens_.clear();
        break;
    }
  }

  Faults* faults_;
  std::variant<specdec::NoDrafter, specdec::PromptLookupDrafter, specdec::NgramTableDrafter,
               specdec::SuffixDrafter, specdec::LookaheadDrafter, Chain, Small, Cascade, RememberingCascade>
      drafter_;
  Tokens tokens_;
  Matrix rows_;
};

struct Cost {
  double operator()(Index tokens) const { return 4 + static_cast<double>(tokens); }
};
// One of the policies that work under every rule.
class AnyLength {
 public:
  AnyLength(Index which, Faults& faults) : faults_(&faults) {
    using namespace specdec;
    switch (which) {
      case 1:
        length_.emplace<ScheduledLength>(2);
        break;
      case 2:
        length_.emplace<CostOptimalLength>();
        break;
      case 3:
        length_.emplace<Goodput>(3, Cost{}, Cost{});
        break;
      default:
        break;
    }
  }
  Index next(Index most) {
    faults_->may_fail();
    if (faults_->may_lie()) return faults_->bytes->size();
    return std::visit([&](auto& length) { return length.next(most); }, length_);
  }
  void observe(const specdec::StepRecord& step) {
    std::visit([&](auto& length) { length.observe(step); }, length_);
  }

 private:
  Faults* faults_;
  using Goodput = specdec::GoodputLength<Cost, Cost>;
  std::variant<specdec::FixedLength, specdec::ScheduledLength, specdec::CostOptimalLength, Goodput> length_;
};

// One of the policies that look at the rows of the draft.
class AnyLengthByRows {
 public:
  AnyLengthByRows(Index which, Faults& faults) : faults_(&faults) {
    if (which % 2 == 1) length_.emplace<specdec::EntropyLength>(0.25 * static_cast<double>(which));
  }
  Index next(Index most) const {
    faults_->may_fail();
    return most;
  }
  void observe(const specdec::StepRecord&) const {}
  template <class Row>
  bool goes_on(const Row& row, Index i) const {
    faults_->may_fail();
    return std::visit([&](const auto& length) { return length.goes_on(row, i); }, length_);
  }

 private:
  Faults* faults_;
  std::variant<specdec::ConfidentLength, specdec::EntropyLength> length_;
};

using AnyRule = support::AnyOf<true, specdec::BlockVerifier, specdec::TokenVerifier,
                               specdec::GreedyBlockVerifier, specdec::SampleMatchVerifier>;

inline AnyRule rule_of(Index which) {
  switch (which) {
    case 1:
      return {specdec::TokenVerifier{}};
    case 2:
      return {specdec::GreedyBlockVerifier{}};
    case 3:
      return {specdec::SampleMatchVerifier{}};
    default:
      return {specdec::BlockVerifier{}};
  }
}

// Which is none that remembers, as policies that look at rows need it.
struct ForgetfulRule : AnyRule {
  Index min_draft_length() const = delete;
};

}  // namespace fuzz
