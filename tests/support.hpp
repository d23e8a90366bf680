// What several tests share: distributions held in every way that the library takes, models that serve their
// rows in one of them, and all verifiers as one type.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace support {

using specdec::Index;
using specdec::Token;

template <class Scalar>
using RowMajor = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Scalar>
using ColMajor = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;

// Each layout holds the entries of a matrix its own way and shows them as an expression with direct access.
template <class S>
struct AsRowMajor {
  using Scalar = S;
  RowMajor<S> held;
  void hold(const RowMajor<S>& m) { held = m; }
  const RowMajor<S>& view() const { return held; }
};

template <class S>
struct AsColMajor {
  using Scalar = S;
  ColMajor<S> held;
  void hold(const RowMajor<S>& m) { held = m; }
  const ColMajor<S>& view() const { return held; }
};

// Rows a good way apart, entries three apart.
template <class S>
struct AsStridedMap {
  using Scalar = S;
  using Stride = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
  std::vector<S> held;
  Index rows = 0, cols = 0;
  void hold(const RowMajor<S>& m) {
    rows = m.rows();
    cols = m.cols();
    held.assign(static_cast<std::size_t>(rows * (3 * cols + 5) + 1), S{77});
    Eigen::Map<RowMajor<S>, 0, Stride>(held.data(), rows, cols, Stride(3 * cols + 5, 3)) = m;
  }
  auto view() const {
    return Eigen::Map<const RowMajor<S>, 0, Stride>(held.data(), rows, cols, Stride(3 * cols + 5, 3));
  }
};

// The middle of a larger matrix, seen through Ref.
template <class S>
struct AsRefOfBlock {
  using Scalar = S;
  RowMajor<S> held;
  void hold(const RowMajor<S>& m) {
    held = RowMajor<S>::Constant(m.rows() + 2, m.cols() + 3, S{77});
    held.block(1, 2, m.rows(), m.cols()) = m;
  }
  auto view() const {
    return Eigen::Ref<const RowMajor<S>, 0, Eigen::OuterStride<>>(
        held.block(1, 2, held.rows() - 2, held.cols() - 3));
  }
};

template <class S>
struct AsColMajorBlock {
  using Scalar = S;
  ColMajor<S> held;
  void hold(const RowMajor<S>& m) {
    held = ColMajor<S>::Constant(m.rows() + 2, m.cols() + 3, S{77});
    held.block(1, 2, m.rows(), m.cols()) = m;
  }
  auto view() const { return held.block(1, 2, held.rows() - 2, held.cols() - 3); }
};

// Narrow scalars: what is held are the nearest numbers to the given ones.
template <class S>
struct AsNarrow {
  using Scalar = double;
  RowMajor<S> held;
  void hold(const RowMajor<double>& m) { held = m.cast<S>(); }
  const RowMajor<S>& view() const { return held; }
};

// One pointer a row, the rows in no order in memory, entries `Step` apart.
template <class S, int Stride = 1, Index Step = 1>
struct AsPointers {
  using Scalar = S;
  std::vector<std::vector<S>> held;
  std::vector<const S*> pointers;
  Index cols = 0;
  void hold(const RowMajor<S>& m) {
    cols = m.cols();
    held.assign(static_cast<std::size_t>(m.rows()),
                std::vector<S>(static_cast<std::size_t>(cols * Step) + 1, S{77}));
    pointers.clear();
    for (Index i = 0; i < m.rows(); ++i) {
      auto& row = held[static_cast<std::size_t>(m.rows() - 1 - i)];
      for (Index x = 0; x < cols; ++x) row[static_cast<std::size_t>(x * Step)] = m(i, x);
      pointers.push_back(row.data());
    }
  }
  auto view() const { return specdec::RowPointers<S, Stride>(pointers, cols, Step); }
};
template <class S>
using AsStridedPointers = AsPointers<S, Eigen::Dynamic, 3>;

// Logits T·log p + c of scalar S, T = Percent/100. What they mean is computed here from the numbers that are
// held, in double: narrow logits mean something else than p. For the same reason c is another one in every row
// only where that leaves the meaning (all but) what it is.
template <class S, int Percent = 100, bool Normalised = false>
struct AsLogits {
  using Scalar = double;
  static constexpr double temperature = Percent / 100.0;
  static constexpr double shift = sizeof(S) < 4 ? 0 : 1.5;
  RowMajor<S> held;
  std::vector<double> log_sum_exp;

  void hold(const RowMajor<double>& m) {
    held.resize(m.rows(), m.cols());
    log_sum_exp.clear();
    for (Index i = 0; i < m.rows(); ++i) {
      for (Index x = 0; x < m.cols(); ++x)
        held(i, x) = static_cast<S>(temperature * std::log(m(i, x)) + shift * static_cast<double>(i));
      log_sum_exp.push_back(std::log(exponentials(i).sum()) + largest(i) / temperature);
    }
  }
  auto view() const {
    if constexpr (Normalised)
      return specdec::Logits{held, {.temperature = temperature, .log_sum_exp = log_sum_exp}};
    else return specdec::Logits{held, {.temperature = temperature}};
  }
  static Eigen::RowVectorXd means(const RowMajor<double>& row) {
    AsLogits layout;
    layout.hold(row);
    const Eigen::RowVectorXd e = layout.exponentials(0);
    return e / e.sum();
  }

 private:
  double largest(Index i) const {
    double largest = -std::numeric_limits<double>::infinity();
    for (Index x = 0; x < held.cols(); ++x) largest = std::max(largest, static_cast<double>(held(i, x)));
    return largest;
  }
  Eigen::RowVectorXd exponentials(Index i) const {
    Eigen::RowVectorXd e(held.cols());
    for (Index x = 0; x < held.cols(); ++x)
      e[x] = std::exp((static_cast<double>(held(i, x)) - largest(i)) / temperature);
    return e;
  }
};
template <class S>
using AsNormalisedLogits = AsLogits<S, 70, true>;

// Lists of the tokens that have mass; every third of the others is listed, too.
template <class S, class Id = Token>
struct AsSparse {
  using Scalar = double;
  using Row = specdec::SparseRow<S, Id>;
  struct List {
    std::vector<Id> ids;
    std::vector<S> probabilities;
  };
  std::vector<List> held;
  std::vector<Row> rows;
  Index cols = 0;

  AsSparse() = default;
  AsSparse(const AsSparse& other) : cols(other.cols) { assign(other.held); }
  AsSparse& operator=(const AsSparse&) = delete;

  void hold(const RowMajor<double>& m) {
    cols = m.cols();
    std::vector<List> lists(static_cast<std::size_t>(m.rows()));
    for (Index i = 0; i < m.rows(); ++i)
      for (Index x = 0; x < cols; ++x) {
        if (m(i, x) == 0 && (x + i) % 3 != 0) continue;
        lists[static_cast<std::size_t>(i)].ids.push_back(static_cast<Id>(x));
        lists[static_cast<std::size_t>(i)].probabilities.push_back(static_cast<S>(m(i, x)));
      }
    assign(std::move(lists));
  }
  auto view() const { return specdec::RowSpan(rows, cols); }

 private:
  void assign(std::vector<List> lists) {
    held = std::move(lists);
    rows.clear();
    for (const List& list : held) rows.emplace_back(list.ids, list.probabilities, cols);
  }
};

// A distribution by its probabilities.
struct MeantRow {
  Eigen::RowVectorXd p;
  Index vocab_size() const { return p.size(); }
  double probability(Token x) const { return p[x]; }
  Token argmax() const {
    Index x = 0;
    p.maxCoeff(&x);  // the first among equals
    return static_cast<Token>(x);
  }
};

// A TableModel that hands out its rows in a given layout.
template <class Layout>
class LayoutModel {
 public:
  using Table = specdec::testing::TableModel<typename Layout::Scalar>;
  explicit LayoutModel(Table table) : table_(std::move(table)) {}
  Index vocab_size() const { return table_.vocab_size(); }
  decltype(auto) forward(std::span<const Token> tokens, Index rows) {
    layout_.hold(table_.forward(tokens, rows));
    return std::as_const(layout_).view();
  }
  void truncate(Index length) { table_.truncate(length); }

  // What the model's rows mean.
  auto distribution(std::span<const Token> context) const {
    const auto row = table_.distribution(context);
    if constexpr (requires { &Layout::means; })
      return MeantRow{Layout::means(row.block(0, vocab_size()).matrix().transpose())};
    else return row;
  }

 private:
  Table table_;
  Layout layout_;
};

// A random model whose probabilities are multiples of 2^-6, so that every scalar holds them exactly, bfloat16
// included; a good third of them are 0, and ties are common.
template <class Scalar = double>
specdec::testing::TableModel<Scalar> coarse_model(Index vocab_size, Index order, std::mt19937_64& rng) {
  Index states = 1;
  for (Index k = 0; k < order; ++k) states *= vocab_size + 1;
  RowMajor<Scalar> table(states, vocab_size);
  for (Index i = 0; i < states; ++i) {
    const int grain = specdec::uniform01(rng) < 0.5 ? 8 : 1;
    std::vector<int> cuts{0, 64};
    while (static_cast<Index>(cuts.size()) <= vocab_size) {
      const int cut = static_cast<int>(specdec::uniform01(rng) * (64 / grain)) * grain;
      cuts.push_back(specdec::uniform01(rng) < 0.25 ? cuts.back() : cut);
    }
    std::ranges::sort(cuts);
    for (Index x = 0; x < vocab_size; ++x) {
      const auto k = static_cast<std::size_t>(x);
      table(i, x) = static_cast<Scalar>(cuts[k + 1] - cuts[k]) / Scalar{64};
    }
  }
  return specdec::testing::TableModel<Scalar>(std::move(table), order);
}

// Any rule that is lossless, chosen when the program runs: so that what is built around a verifier is compiled
// once.
struct AnyVerifier {
  std::variant<specdec::TokenVerifier, specdec::BlockVerifier, specdec::GreedyBlockVerifier,
               specdec::SampleMatchVerifier, specdec::LenientVerifier, specdec::ArgmaxVerifier>
      rule;

  specdec::Verdict operator()(const auto& target, const auto& draft, specdec::TokenIds tokens, auto& source) {
    return std::visit([&](auto& verifier) { return verifier(target, draft, tokens, source); }, rule);
  }
  Index min_draft_length() const {
    return std::visit([](const auto& verifier) { return specdec::min_draft_length(verifier); }, rule);
  }
  bool greedy_decoding() const { return std::holds_alternative<specdec::ArgmaxVerifier>(rule); }
  friend bool operator==(const AnyVerifier&, const AnyVerifier&) = default;
};
inline const AnyVerifier sampling_rules[] = {{specdec::TokenVerifier{}},
                                             {specdec::BlockVerifier{}},
                                             {specdec::GreedyBlockVerifier{}},
                                             {specdec::SampleMatchVerifier{}},
                                             {specdec::LenientVerifier{1.0}}};

// How law_by_hand has a draft judged.
inline constexpr auto judge_plainly = [](AnyVerifier& verifier, const auto& target, const auto& draft,
                                         std::span<const Token> tokens,
                                         auto& chance) { return verifier(target, draft, tokens, chance); };

// The exact law of what a loop without models and caches writes, for verifiers used by hand: rows looked up in
// two tables, which may be of different vocabularies. A table that does not know a token takes it for token 0:
// as good a row as any, since nothing may depend on it. A step at a time, as testing::exact_generate.
template <class TargetLayout, class DraftLayout, class Judge>
specdec::testing::GenerationLaw law_by_hand(
    const specdec::testing::TableModel<typename TargetLayout::Scalar>& target,
    const specdec::testing::TableModel<typename DraftLayout::Scalar>& draft, const AnyVerifier& rule,
    std::span<const Token> prompt, const specdec::Options& options, const Judge& judge) {
  const auto row_of = [](const auto& table, std::vector<Token> context) {
    for (Token& x : context) x = x < table.vocab_size() ? x : 0;
    return table.distribution(context).block(0, table.vocab_size()).matrix().transpose().eval();
  };
  struct State {
    AnyVerifier verifier;
    double probability;
  };
  std::map<std::pair<std::size_t, std::vector<Token>>, std::vector<State>> open;  // the shortest texts first
  specdec::testing::GenerationLaw out;
  const auto enter = [&](const std::vector<Token>& text, const AnyVerifier& verifier, double p) {
    if (static_cast<Index>(text.size()) == options.max_new_tokens) {
      out.law[text] += p;
      return;
    }
    auto& states = open[{text.size(), text}];
    for (State& state : states)
      if (state.verifier == verifier) {
        state.probability += p;
        return;
      }
    states.push_back({verifier, p});
  };
  TargetLayout p;
  DraftLayout q, last;
  const auto step = [&](const State& state, std::vector<Token> text, specdec::testing::Enumerator& chance) {
    AnyVerifier verifier = state.verifier;
    const Index left = options.max_new_tokens - static_cast<Index>(text.size());
    const Index gamma = std::max(std::min(options.gamma, left - 1), verifier.min_draft_length());
    RowMajor<typename TargetLayout::Scalar> p_rows(gamma + 1, target.vocab_size());
    RowMajor<typename DraftLayout::Scalar> q_rows(gamma, draft.vocab_size());
    std::vector<Token> context(prompt.begin(), prompt.end()), tokens;
    context.insert(context.end(), text.begin(), text.end());
    for (Index i = 0; i <= gamma; ++i) {
      p_rows.row(i) = row_of(target, context);
      if (i == gamma) break;
      q_rows.row(i) = row_of(draft, context);
      last.hold(q_rows.row(i));
      tokens.push_back(chance.draw(specdec::distributions(std::as_const(last).view()).row(0)));
      context.push_back(tokens.back());
    }
    p.hold(p_rows);
    q.hold(q_rows);
    const specdec::Verdict verdict =
        judge(verifier, std::as_const(p).view(), std::as_const(q).view(), tokens, chance);
    const double probability = state.probability * chance.probability();
    out.drafted += probability * static_cast<double>(gamma);
    out.accepted += probability * static_cast<double>(verdict.accepted);
    out.target_calls += probability;
    tokens.resize(static_cast<std::size_t>(verdict.accepted));
    tokens.push_back(verdict.token);
    for (const Token x : tokens)
      if (static_cast<Index>(text.size()) < options.max_new_tokens) text.push_back(x);
    enter(text, verifier, probability);
  };
  enter({}, rule, 1.0);
  while (!open.empty()) {
    const auto text = open.begin()->first.second;
    const std::vector<State> states = std::move(open.begin()->second);
    open.erase(open.begin());
    for (const State& state : states)
      specdec::testing::enumerate([&](specdec::testing::Enumerator& chance) { step(state, text, chance); });
  }
  return out;
}

// The message of what f throws; empty when it throws nothing.
template <class E = std::invalid_argument, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

// The paper's toy models: p = (1/3, 2/3), q = (2/3, 1/3) in every context.
inline auto toy_target() {
  return specdec::testing::TableModel<>::context_free(Eigen::RowVector2d(1.0 / 3, 2.0 / 3));
}
inline auto toy_drafter() {
  return specdec::ModelDrafter{
      specdec::testing::TableModel<>::context_free(Eigen::RowVector2d(2.0 / 3, 1.0 / 3))};
}

// Counts the tokens that it takes in.
struct CountingModel {
  specdec::testing::TableModel<> table;
  Index fed = 0;
  Index vocab_size() const { return table.vocab_size(); }
  const auto& forward(std::span<const Token> tokens, Index rows) {
    fed += std::ssize(tokens);
    return table.forward(tokens, rows);
  }
  void truncate(Index length) { table.truncate(length); }
};

// A model whose context is bounded, and which is never to be fed past that.
class BoundedModel {
 public:
  BoundedModel(specdec::testing::TableModel<> table, Index most) : table_(std::move(table)), most_(most) {}
  Index vocab_size() const { return table_.vocab_size(); }
  Index context_size() const { return most_; }
  const auto& forward(std::span<const Token> tokens, Index rows) {
    if (std::ssize(table_.context()) + std::ssize(tokens) > most_)
      throw std::logic_error("fed past its context");
    return table_.forward(tokens, rows);
  }
  void truncate(Index length) { table_.truncate(length); }
  auto distribution(std::span<const Token> context) const { return table_.distribution(context); }

 private:
  specdec::testing::TableModel<> table_;
  Index most_;
};

}  // namespace support
