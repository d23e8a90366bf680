// Sampling steps with odd parameters, in any order, on rows of logits of every scalar, with any numbers. Each step
// keeps what sorting keeps. A chain does what its steps do one by one. Probabilities are those of the kept tokens. A
// row that is not a distribution is an error. A processed model gives rows that went through hook and chain, and
// forgets a failing call. Processors change logits by their definitions, while the text goes forward and back.
// Processed models grow lines and trees, which are kept, cut and fail in any order, and every row is the row made from
// scratch.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <specdec/more/samplers/after_prompt.hpp>
#include <specdec/more/samplers/logit_bias.hpp>
#include <specdec/more/samplers/min_length.hpp>
#include <specdec/more/samplers/no_repeat_ngrams.hpp>
#include <specdec/more/samplers/penalties.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/more/samplers/snapshots.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "fuzz/bytes.hpp"
#include "fuzz/engine.hpp"
#include "fuzz/model.hpp"
#include "fuzz/sorted_row.hpp"
#include "fuzz/target.hpp"
#include "support/layouts.hpp"

namespace {

using namespace fuzz;
using specdec::InvalidDistribution;
using support::ColMajor;
using support::RowMajor;

// Any step.
struct Step {
  std::variant<specdec::Temperature, specdec::TopK, specdec::TopP, specdec::MinP> step{
      specdec::Temperature{1}};

  template <class S, int Stride>
  specdec::LogitsRow<S, Stride> operator()(const specdec::LogitsRow<S, Stride>& row) const {
    return std::visit([&](const auto& one) { return one(row); }, step);
  }
};

// The step with this value, if the value is valid. Otherwise the value must be refused, and the step is one that
// changes nothing.
template <class S, class Value>
Step made(Value value, bool fits) {
  try {
    const Step step{S(value)};
    require(fits);
    return step;
  } catch (const std::invalid_argument&) {
    require(!fits);
    return {};
  }
}

bool is_temperature(double t) { return t >= 0 && std::isfinite(t); }
double temperature_of(Bytes& bytes) { return bytes.flag() ? 3 * bytes.probability() : bytes.number(); }

Step step_of(Bytes& bytes) {
  switch (bytes.up_to(3)) {
    case 0: {
      const double t = temperature_of(bytes);
      return made<specdec::Temperature>(t, is_temperature(t));
    }
    case 1: {
      const Index k = bytes.flag() ? bytes.size() : bytes.wide() % 5000;
      return made<specdec::TopK>(k, k >= 0);
    }
    case 2: {
      const double p = bytes.probability();
      return made<specdec::TopP>(p, p > 0 && p <= 1);
    }
    default: {
      const double p = bytes.probability();
      return made<specdec::MinP>(p, p >= 0 && p <= 1);
    }
  }
}

using Steps = std::array<Step, 4>;
Steps steps_of(Bytes& bytes) { return {step_of(bytes), step_of(bytes), step_of(bytes), step_of(bytes)}; }

// A few numbers again and again, or numbers one after the other, with noise or without. In a long row the numbers at
// equal distances, which a sample reads, may be others, so that they mislead the search for a cut.
std::vector<double> logits_of(Bytes& bytes) {
  constexpr Index sizes[] = {513, 2048, 2049, 2500, 2049, 4500};
  const std::uint8_t b = bytes.byte();
  const Index size = b < 250 ? 1 + b % 50 : sizes[b - 250];
  std::vector<double> few(1 + static_cast<std::size_t>(bytes.up_to(7)));
  for (double& l : few) l = bytes.number();
  const bool in_turn = bytes.flag();
  constexpr double noises[] = {0, 0, 1e-3, 1, 10};
  const double noise = noises[bytes.up_to(4)];
  specdec::SplitMix64 source(bytes.byte());
  std::vector<double> logits(static_cast<std::size_t>(size));
  for (std::size_t x = 0; x < logits.size(); ++x) {
    logits[x] = few[in_turn ? x % few.size() : x * few.size() / logits.size()];
    if (noise > 0) logits[x] += noise * specdec::uniform01(source);
  }
  if (bytes.up_to(3) == 3) {
    const std::size_t step = 1 + static_cast<std::size_t>(size) / 256;
    const double seen = bytes.number();
    for (std::size_t x = step / 2; x < logits.size(); x += step) logits[x] = seen;
  }
  for (Index n = bytes.up_to(3); n > 0; --n)
    logits[static_cast<std::size_t>(bytes.wide() % size)] = bytes.number();
  return logits;
}

// Whether the logits mean a distribution.
bool sound(const std::vector<double>& logits) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  bool any = false;
  for (const double l : logits) {
    if (!(l < infinity)) return false;
    any = any || l > -infinity;
  }
  return any;
}

// Rows: one holds the logits, and the others hold numbers that may not be read.
template <class Matrix>
struct Held {
  static constexpr Index row = 1;
  Matrix rows;
  std::vector<double> logits;  // as the scalar stores them

  explicit Held(const std::vector<double>& wanted)
      : rows(
            Matrix::Constant(3, std::ssize(wanted),
                             static_cast<typename Matrix::Scalar>(std::numeric_limits<float>::quiet_NaN()))) {
    for (const double l : wanted) {
      auto& held = rows(row, std::ssize(logits));
      if constexpr (std::same_as<typename Matrix::Scalar, double>) held = l;
      else held = static_cast<typename Matrix::Scalar>(static_cast<float>(l));
      logits.push_back(static_cast<double>(held));
    }
  }
};

// The row after the steps, one by one.
template <class Row>
Row stepped(Row row, const Steps& steps, const SortedRow* sorted, bool normaliser_is_right) {
  for (const Step& step : steps) {
    const Row before = row;
    row = step(before);
    if (sorted == nullptr) continue;
    if (normaliser_is_right || !std::holds_alternative<specdec::TopP>(step.step))
      std::visit([&](const auto& one) { sorted->check(one, before, row); }, step.step);
  }
  return row;
}

// Checks that drawn tokens have a probability.
template <class Row>
void check_draws(const Row& row) {
  auto sampler = row.sampler();
  for (const double u : {0.0, 0.3, 0.7, 1 - 0x1p-53}) require(row.probability(sampler(u)) > 0);
}

// Checks equality to the bit. In a long row only some tokens are compared.
template <class One, class Other>
void check_equal(const One& one, const Other& other) {
  require(one.vocab_size() == other.vocab_size());
  const auto step = static_cast<Token>(1 + one.vocab_size() / 200);
  for (Token x = 0; x < one.vocab_size(); x += step) {
    const double p = one.probability(x), q = other.probability(x);
    if constexpr (requires { one.possible(x); }) require(one.possible(x) || !(p > 0));
    require(p == q || (std::isnan(p) && std::isnan(q)));
  }
}

// The chain as a whole, as rows that are processed when they are read, and as a copy of a processed row.
template <class Row, class Matrix>
void check_chain(const Row& row, const Row& expected, const Held<Matrix>& held, double temperature,
                 const Steps& steps) {
  const specdec::Chain chain{steps[0], steps[1], steps[2], steps[3]};
  check_equal(chain(row), expected);
  if (row.is_normalised()) return;  // processed rows never are at first
  const specdec::ProcessedRows rows(held.rows, specdec::Chain{specdec::Temperature{temperature}, chain});
  const auto processed = rows.row(held.row);
  check_equal(processed, expected);
  std::vector<typename Matrix::Scalar> copy(held.logits.size());
  processed.logits().copy_to(copy.data());
  check_equal(processed.over(copy.data()), expected);
}

template <class Matrix>
void run_steps(Bytes& bytes) {
  const Steps steps = steps_of(bytes);
  const double temperature = bytes.flag() ? 1 : temperature_of(bytes);
  const Index normaliser = bytes.up_to(3);  // 2: the right one is given; 3: any number is given
  const double handed_in = bytes.number();
  const Held<Matrix> held(logits_of(bytes));
  std::optional<SortedRow> sorted;
  if (sound(held.logits)) sorted.emplace(held.logits);
  std::vector<double> log_sum_exps;
  bool right = true;
  try {
    if (normaliser == 2 && sorted) {
      const auto plain = specdec::Logits(held.rows, {.temperature = temperature}).row(held.row);
      if (sorted->has_log_sum_exp(plain)) log_sum_exps.assign(3, sorted->log_sum_exp(plain));
    } else if (normaliser == 3) {
      log_sum_exps.assign(3, handed_in);
      right = false;
    }
    const auto row =
        specdec::Logits(held.rows, {.temperature = temperature, .log_sum_exp = log_sum_exps}).row(held.row);
    require(is_temperature(temperature));
    const auto after = stepped(row, steps, sorted ? &*sorted : nullptr, right);
    check_draws(after);
    check_chain(row, after, held, temperature, steps);
    require(sorted || !log_sum_exps.empty());
    if (sorted && right) sorted->check_probabilities(after);
  } catch (const InvalidDistribution&) {
    require(!sorted || !right);
  } catch (const std::invalid_argument&) {
    require(!is_temperature(temperature));
  }
}

// ---- Processed models

constexpr Index hooked_vocabulary = 5;

void may_fail(Bytes& bytes) {
  if (bytes.byte() >= 240) throw Failure();
}

// Logits that depend on the last token and the length of the context.
Eigen::RowVectorXf logits_behind(std::span<const Token> context) {
  specdec::SplitMix64 source(31 * context.size() + static_cast<std::uint64_t>(context.back()));
  Eigen::RowVectorXf logits(hooked_vocabulary);
  for (float& l : logits) l = static_cast<float>(source() % 64) / 8;
  return logits;
}

// An engine that fails, or returns logits of a wrong shape.
struct HookedEngine {
  Bytes* bytes;
  std::vector<Token> context;
  RowMajor<float> logits;

  Index vocab_size() const { return hooked_vocabulary; }
  const RowMajor<float>& forward(std::span<const Token> tokens, Index rows) {
    may_fail(*bytes);
    context.insert(context.end(), tokens.begin(), tokens.end());
    may_fail(*bytes);
    logits.resize(rows, hooked_vocabulary);
    for (Index i = 0; i < rows; ++i)
      logits.row(i) =
          logits_behind(std::span(context).first(context.size() - static_cast<std::size_t>(rows - 1 - i)));
    const std::uint8_t b = bytes->byte();
    if (b >= 248) logits.conservativeResize(rows + b % 2, hooked_vocabulary + 1 - b % 2);
    return logits;
  }
  void truncate(Index length) {
    if (length < std::ssize(context)) context.resize(static_cast<std::size_t>(length));
  }
};

// A token may not come twice in a row.
void no_repetition(std::span<const Token> context, Eigen::Ref<Eigen::RowVectorXf> logits) {
  logits[context.back()] = -std::numeric_limits<float>::infinity();
}

struct Hook {
  Bytes* bytes;
  void operator()(std::span<const Token> context, Eigen::Ref<Eigen::RowVectorXf> logits) const {
    may_fail(*bytes);
    no_repetition(context, logits);
  }
};

void run_model(Bytes& bytes) {
  const Steps steps = steps_of(bytes);
  const specdec::Chain chain{steps[0], steps[1], steps[2], steps[3]};
  HookedEngine engine{&bytes, {}, {}};
  specdec::ProcessedModel model(engine, chain, Hook{&bytes});
  std::vector<Token> context;
  for (Index calls = bytes.up_to(15); calls > 0; --calls) {
    const auto length = static_cast<std::size_t>(bytes.up_to(static_cast<Index>(context.size())));
    if (bytes.up_to(3) == 0) {
      model.truncate(static_cast<Index>(length));
      context.resize(length);
    }
    std::vector<Token> tokens(1 + static_cast<std::size_t>(bytes.up_to(3)));
    for (Token& x : tokens) x = static_cast<Token>(bytes.up_to(hooked_vocabulary - 1));
    const Index count = 1 + bytes.up_to(std::ssize(tokens) - 1);
    try {
      const auto rows = model.forward(tokens, count);
      context.insert(context.end(), tokens.begin(), tokens.end());
      require(rows.rows() == count && rows.vocab_size() == hooked_vocabulary);
      for (Index i = 0; i < count; ++i) {
        const auto behind =
            std::span(context).first(context.size() - static_cast<std::size_t>(count - 1 - i));
        Eigen::RowVectorXf logits = logits_behind(behind);
        no_repetition(behind, logits);
        check_equal(rows.row(i), chain(specdec::Logits(logits).row(0)));
      }
    } catch (const Failure&) {
    } catch (const std::invalid_argument& error) {
      require(dynamic_cast<const InvalidDistribution*>(&error) == nullptr);  // a wrong shape
    }
    require(engine.context == context);
  }
}

// ---- Processors of the text

using FloatRow = Eigen::RowVectorXf;
using Floats = Eigen::Ref<FloatRow>;

// How often a token is among the last n of a text.
Index count_in(std::span<const Token> text, Index last_n, Token x) {
  return std::ranges::count(text.last(std::min(text.size(), static_cast<std::size_t>(last_n))), x);
}

float finite(double x) {
  constexpr double most = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(x, -most, most));
}
float change(float logit, float changed) {
  return std::isfinite(logit) ? finite(static_cast<double>(changed)) : changed;
}

// Processors with their parameters, and the logits by their definitions.
struct Parameters {
  double number;
  Index size, last_n;
  std::vector<Token> ids;

  explicit Parameters(Bytes& bytes)
      : number(bytes.number()), size(bytes.size()), last_n(bytes.flag() ? specdec::unlimited : bytes.size()) {
    for (Index n = bytes.up_to(2); n > 0; --n) ids.push_back(static_cast<Token>(bytes.up_to(7)));
  }

  void repetition(std::span<const Token> text, FloatRow& logits) const {
    const float theta = std::max(finite(number), std::numeric_limits<float>::min());
    for (Token x = 0; x < logits.size(); ++x)
      if (count_in(text, last_n, x) > 0)
        logits[x] = change(logits[x], logits[x] > 0 ? logits[x] / theta : logits[x] * theta);
  }
  void price(std::span<const Token> text, FloatRow& logits, bool every_time) const {
    for (Token x = 0; x < logits.size(); ++x)
      if (const Index count = count_in(text, last_n, x); count > 0)
        logits[x] =
            change(logits[x], logits[x] - finite(number * static_cast<double>(every_time ? count : 1)));
  }
  void no_repeat(std::span<const Token> text, FloatRow& logits) const {
    const auto n = static_cast<std::size_t>(size);
    for (std::size_t i = 0; i + n <= text.size(); ++i) {
      const Token x = text[i + n - 1];
      if (x < logits.size() && std::ranges::equal(text.subspan(i, n - 1), text.last(n - 1)))
        logits[x] = -std::numeric_limits<float>::infinity();
    }
  }
  void bias(FloatRow& logits) const {
    for (const Token x : ids)
      if (x < logits.size()) {
        if (std::isinf(number)) logits[x] += static_cast<float>(number);
        else logits[x] = change(logits[x], logits[x] + finite(number));
      }
  }
  void min_length(std::span<const Token> text, FloatRow& logits) const {
    for (const Token x : ids)
      if (x < logits.size() && std::ssize(text) < size) logits[x] = -std::numeric_limits<float>::infinity();
  }
};

bool equal(const FloatRow& one, const FloatRow& other) {
  for (Index x = 0; x < one.size(); ++x)
    if (!(one[x] == other[x] || (std::isnan(one[x]) && std::isnan(other[x])))) return false;
  return true;
}

// Goes forward and back, and compares the logits in between.
template <class Processor, class Definition>
void run_text(Bytes& bytes, Processor processor, const Definition& definition) {
  std::vector<Token> text;
  FloatRow logits(1 + bytes.up_to(7));
  while (!bytes.empty()) {
    const std::uint8_t b = bytes.byte();
    if (b < 128) {
      text.push_back(b % 9);
      require(specdec::push_token(processor, text.back()));
    } else if (b < 160) {
      const Index n = bytes.up_to(std::ssize(text));
      processor.pop(n);
      text.resize(text.size() - static_cast<std::size_t>(n));
    } else if (b < 168) {
      Processor copy(processor);
      std::swap(copy, processor);
    } else {
      for (float& l : logits) l = static_cast<float>(bytes.number());
      FloatRow expected = logits;
      definition(std::span<const Token>(text), expected);
      processor.apply(Floats(logits));
      require(equal(logits, expected));
    }
  }
}

// A processor refuses parameters that do not fit.
template <class Make, class Definition>
void run_text(Bytes& bytes, bool fits, const Make& make, const Definition& definition)
  requires std::invocable<Make&>
{
  using Processor = std::invoke_result_t<const Make&>;
  std::optional<Processor> made;
  try {
    made.emplace(make());
  } catch (const std::invalid_argument&) {
  }
  require(made.has_value() == fits);
  if (made) run_text(bytes, *std::move(made), definition);
}

void run_processor(Bytes& bytes) {
  using namespace specdec;
  const Index which = bytes.up_to(6);
  const Parameters is(bytes);
  const bool is_price = std::isfinite(is.number) && is.last_n >= 0;
  switch (which) {
    case 0:
      return run_text(
          bytes, is.number > 0 && std::isfinite(is.number) && is.last_n >= 0,
          [&] { return RepetitionPenalty(is.number, is.last_n); },
          [&](auto text, FloatRow& logits) { is.repetition(text, logits); });
    case 1:
      return run_text(
          bytes, is_price, [&] { return PresencePenalty(is.number, is.last_n); },
          [&](auto text, FloatRow& logits) { is.price(text, logits, false); });
    case 2:
      return run_text(
          bytes, is_price, [&] { return Snapshots(FrequencyPenalty(is.number, is.last_n), 3); },
          [&](auto text, FloatRow& logits) { is.price(text, logits, true); });
    case 3:
      return run_text(
          bytes, is.size >= 1, [&] { return NoRepeatNgrams(is.size); },
          [&](auto text, FloatRow& logits) { is.no_repeat(text, logits); });
    case 4:
      return run_text(
          bytes, is.number < std::numeric_limits<double>::infinity(),
          [&] {
            std::vector<TokenBias> biases;
            for (const Token x : is.ids) biases.push_back({x, is.number});
            if (biases.empty()) biases.push_back({9, is.number});
            return LogitBias(biases);
          },
          [&](auto, FloatRow& logits) { is.bias(logits); });
    case 5:
      return run_text(
          bytes, is.size >= 0, [&] { return MinLength(is.size, TokenIds(std::span(is.ids))); },
          [&](auto text, FloatRow& logits) { is.min_length(text, logits); });
    default:
      return run_text(
          bytes, is.size >= 1 && is_price,
          [&] {
            return AfterPrompt(is.ids.size(),
                               Processors(NoRepeatNgrams(is.size), FrequencyPenalty(is.number, is.last_n)));
          },
          [&](auto text, FloatRow& logits) {
            if (text.size() < is.ids.size()) return;
            is.no_repeat(text.subspan(is.ids.size()), logits);
            is.price(text.subspan(is.ids.size()), logits, true);
          });
  }
}

// ---- A processed model of lines and trees

// Whether the processor takes a text.
bool takes(const Processing& processing, std::span<const Token> text) {
  AnyProcessor fresh = processing.made(nullptr);
  return std::ranges::all_of(text, [&](Token x) { return fresh.push(x); });
}

struct Tree {
  Tokens tokens;
  std::vector<Index> parents;

  // The text up to a node.
  Tokens text(Tokens context, Index node) const {
    for (const Index k : path(node)) context.push_back(tokens[static_cast<std::size_t>(k)]);
    return context;
  }
  std::vector<Index> path(Index node) const {
    std::vector<Index> out;
    for (; node >= 0; node = parents[static_cast<std::size_t>(node)]) out.push_back(node);
    std::ranges::reverse(out);
    return out;
  }
};

void run_walk(Bytes& bytes) {
  Faults faults;
  const Processing processing(bytes);
  Model model(bytes.byte(), faults, std::numeric_limits<Index>::max());
  Engine engine(model, processing);
  Tokens context;
  Tree tree;
  faults.bytes = &bytes;
  while (!bytes.empty()) {
    const std::uint8_t b = bytes.byte();
    if (b < 40) {
      const Index length = bytes.up_to(std::ssize(context));
      engine.truncate(length);
      context.resize(static_cast<std::size_t>(length));
      tree = {};
    } else if (b < 80 && !tree.tokens.empty()) {
      const std::vector<Index> path = tree.path(bytes.up_to(std::ssize(tree.tokens)) - 1);
      engine.keep(path);
      context = tree.text(context, path.empty() ? -1 : path.back());
      tree = {};
    } else {
      Tree grown = tree;
      Tokens tokens(1 + static_cast<std::size_t>(bytes.up_to(4)));
      for (Token& x : tokens) x = static_cast<Token>(bytes.up_to(fuzz::vocabulary - 1));
      const Index rows = 1 + bytes.up_to(std::ssize(tokens) - 1);
      const bool line = tree.tokens.empty() && b % 2 == 0;
      for (const Token x : tokens) {
        const Index size = std::ssize(grown.tokens);
        grown.parents.push_back(line ? size - 1 : bytes.up_to(size) - 1);
        grown.tokens.push_back(x);
      }
      try {
        if (line) engine.forward(tokens, rows);
        else engine.forward(tokens, std::span<const Index>(grown.parents).subspan(tree.tokens.size()), rows);
        if (line) context = grown.text(context, std::ssize(tokens) - 1);
        else tree = grown;
      } catch (const Failure&) {
      } catch (const std::invalid_argument&) {
        bool refused = model.has_lied();
        for (Index node = 0; node < std::ssize(grown.tokens); ++node)
          refused = refused || !takes(processing, grown.text(context, node));
        require(refused);
      }
    }
    require(std::ranges::equal(model.context(), context));
  }
}

}  // namespace

void fuzz::sample(std::span<const std::uint8_t> data) {
  Bytes bytes(data);
  const std::uint8_t first = bytes.byte();
  if (first >= 250) return run_walk(bytes);
  if (first >= 243) return run_processor(bytes);
  switch (first % 9) {
    case 0:
      return run_steps<RowMajor<float>>(bytes);
    case 1:
      return run_steps<ColMajor<float>>(bytes);
    case 2:
      return run_steps<RowMajor<double>>(bytes);
    case 3:
      return run_steps<ColMajor<double>>(bytes);
    case 4:
      return run_steps<RowMajor<Eigen::half>>(bytes);
    case 5:
      return run_steps<ColMajor<Eigen::half>>(bytes);
    case 6:
      return run_steps<RowMajor<Eigen::bfloat16>>(bytes);
    case 7:
      return run_steps<ColMajor<Eigen::bfloat16>>(bytes);
    default:
      return run_model(bytes);
  }
}
