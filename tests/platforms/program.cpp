// The golden program: it prints what must be equal on every platform, as short lines, so that a difference names its section.
//
//   numbers    generators, draws and the library's own exponentials and logarithms
//   verdicts   all rules over rows of every kind, from many seeds, as one digest for each rule and kind
//   ids        tokens, parents and batches with ids of every integer type
//   texts      what seeds write: one text and many, lines and trees, processed and not
//   rounded    log-probabilities and entropies, to six digits
//   bits       the same numbers to the last bit. These alone may differ: they come from the C library's log and exp, and from
//              sums that a compiler may fuse and that Eigen takes in vectors of the platform's width
//
// `.ci/platforms` compares the lines of several platforms. The numbers that go in are made without a product that is
// rounded and then added to, so a compiler that fuses makes the same ones.
// SPDX-License-Identifier: MIT
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <random>
#include <span>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/more/models/ngram.hpp>
#include <specdec/more/rows/entropy.hpp>
#include <specdec/more/samplers/min_length.hpp>
#include <specdec/more/samplers/no_repeat_ngrams.hpp>
#include <specdec/more/samplers/penalties.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/specdec.hpp>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace {

using specdec::Index, specdec::Token;
template <class Scalar>
using RowMajor = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ColMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;

// ---- What is printed ----

// FNV-1a, 64 bits, of integers. Their bytes go in from the lowest to the highest, whatever their order in memory.
class Digest {
 public:
  void add(std::uint64_t number) {
    for (int byte = 0; byte < 8; ++byte) {
      state_ = (state_ ^ (number & 0xff)) * 0x100000001b3u;
      number >>= 8;
    }
  }
  void add(const specdec::Verdict& verdict) {
    add(static_cast<std::uint64_t>(verdict.accepted));
    add(static_cast<std::uint64_t>(verdict.token));
  }
  void add(const specdec::TreeVerdict& verdict) {
    add(verdict.path.size());
    for (const Index k : verdict.path) add(static_cast<std::uint64_t>(k));
    add(static_cast<std::uint64_t>(verdict.token));
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

void print_hex(std::uint64_t number) {
  std::cout << std::hex << std::setw(16) << std::setfill('0') << number << std::dec << '\n';
}
void print(std::string_view section, std::string_view what, std::string_view kind, const Digest& digest) {
  std::cout << section << ' ' << what << ", " << kind << ": ";
  print_hex(digest.value());
}
void print(std::string_view name, std::span<const Token> text) {
  std::cout << "texts " << name << ": ";
  for (const Token x : text) {
    if (x >= ' ' && x <= '~') std::cout << static_cast<char>(x);
    else std::cout << '<' << x << '>';
  }
  std::cout << '\n';
}

// ---- Numbers ----

void write_numbers() {
  Digest digest;
  const auto flush = [&](std::string_view what) {
    print("numbers", what, "1000", std::exchange(digest, {}));
  };
  specdec::Philox philox{42, 7, 3};
  for (int n = 0; n < 1000; ++n) digest.add(philox());
  flush("Philox");
  specdec::SplitMix64 split{42};
  for (int n = 0; n < 1000; ++n) digest.add(split());
  flush("SplitMix64");
  std::mt19937 narrow{42};
  for (int n = 0; n < 1000; ++n) digest.add(std::bit_cast<std::uint64_t>(specdec::uniform01(narrow)));
  flush("uniform01 of 32 bits");
  std::minstd_rand odd{42};
  for (int n = 0; n < 1000; ++n) digest.add(specdec::random_bits64(odd));
  flush("bits of a generator whose range is no power of two");
  const Eigen::RowVectorXf flat = Eigen::RowVectorXf::Constant(4096, 1.0f / 4096);
  const specdec::DenseRow<float> row(flat.data(), flat.size());
  specdec::Keyed keyed{42};
  for (int n = 0; n < 1000; ++n) digest.add(static_cast<std::uint64_t>(keyed.draw(row)));
  flush("Keyed");
}

// ---- Rows of every kind ----

constexpr Index gamma = 4;
constexpr std::array<Token, gamma> branches{-1, -1, 0, 0};

// Rows of u⁴ with independent uniform u, normalised. A draft row is half the target's, half its own.
struct Numbers {
  RowMajor<double> target, draft;

  // Of a tree, tokens 0 and 1 are siblings, and so are 2 and 3: siblings have equal draft rows, as K-SEQ wants.
  Numbers(std::uint64_t seed, Index vocab_size, bool siblings = false)
      : target(gamma + 1, vocab_size), draft(gamma, vocab_size) {
    specdec::SplitMix64 rng{seed};
    for (double& p : target.reshaped()) p = fourth_power(rng);
    for (double& q : draft.reshaped()) q = fourth_power(rng);
    normalise(target);
    draft = 0.5 * draft;  // products by 1/2 are exact
    normalise(draft);
    draft = 0.5 * draft + 0.5 * target.topRows(gamma);
    if (siblings)
      for (const Index i : {0, 2}) draft.row(i + 1) = draft.row(i);
  }

 private:
  static double fourth_power(specdec::SplitMix64& rng) {
    const double u = specdec::uniform01(rng);
    return (u * u) * (u * u);
  }
  // In order, whatever Eigen's vectors are.
  static void normalise(RowMajor<double>& rows) {
    for (Index i = 0; i < rows.rows(); ++i) {
      double sum = 0;
      for (Index x = 0; x < rows.cols(); ++x) sum += rows(i, x);
      for (Index x = 0; x < rows.cols(); ++x) rows(i, x) /= sum;
    }
  }
};

const specdec::Chain chain{specdec::Temperature{0.8}, specdec::TopK{3000}, specdec::TopP{0.9}};

template <class Scalar>
using LogitsOf = specdec::Logits<specdec::NumbersOf<const RowMajor<Scalar>&>>;
using Processed = decltype(specdec::ProcessedRows(std::declval<const RowMajor<float>&>(),
                                                  std::declval<decltype((chain))>()));
using Lists = specdec::RowSpan<specdec::SparseRow<double>>;
// Rules and rows are one type each, so that the rules are compiled once.
using AnyRows = specdec::VariantRows<RowMajor<float>, ColMajor, RowMajor<Eigen::half>, LogitsOf<float>,
                                     Processed, Lists, specdec::OneHotRows>;
constexpr std::array kinds{"floats", "columns of doubles", "halves", "logits", "processed logits",
                           "lists",  "one-hot drafts"};
constexpr std::size_t processed = 4, one_hot = 6;

// A matrix in every kind of storage.
struct Stored {
  RowMajor<float> floats, logits;
  ColMajor columns;
  RowMajor<Eigen::half> halves;
  std::vector<std::vector<Token>> ids;
  std::vector<std::vector<double>> listed;
  std::vector<specdec::SparseRow<double>> sparse;

  explicit Stored(const RowMajor<double>& rows)
      : floats(rows.cast<float>()),
        // Logits of about the size that models write. They are no logarithms: those are the C library's.
        logits((rows.array() / rows.maxCoeff() * 16).matrix().cast<float>()),
        columns(rows),
        halves(rows.cast<float>().cast<Eigen::half>()),
        ids(static_cast<std::size_t>(rows.rows())),
        listed(ids.size()) {
    for (std::size_t i = 0; i < ids.size(); ++i) list(rows, i);
    for (std::size_t i = 0; i < ids.size(); ++i) sparse.emplace_back(ids[i], listed[i], rows.cols());
  }

  AnyRows of_kind(std::size_t kind) const {
    switch (kind) {
      case 0:
        return {std::in_place_index<0>, floats};
      case 1:
        return {std::in_place_index<1>, columns};
      case 2:
        return {std::in_place_index<2>, halves};
      case 3:
        return {std::in_place_index<3>, LogitsOf<float>(logits, {.temperature = 0.75})};
      case processed:
        return {std::in_place_index<processed>, Processed(logits, chain)};
      default:
        return {std::in_place_index<5>, Lists(sparse, columns.cols())};
    }
  }

 private:
  // The probabilities of every third token, normalised.
  void list(const RowMajor<double>& rows, std::size_t i) {
    double sum = 0;
    for (Index x = static_cast<Index>(i) / 2; x < rows.cols(); x += 3) {
      ids[i].push_back(static_cast<Token>(x));
      listed[i].push_back(rows(static_cast<Index>(i), x));
      sum += listed[i].back();
    }
    for (double& p : listed[i]) p /= sum;
  }
};

// ---- Verdicts ----

const std::tuple line_rules{specdec::BlockVerifier{},       specdec::TokenVerifier{},
                            specdec::GreedyBlockVerifier{}, specdec::SampleMatchVerifier{},
                            specdec::ArgmaxVerifier{},      specdec::LenientVerifier{0.5}};
constexpr std::array line_names{"block", "token", "greedy block", "sample-match", "argmax", "lenient"};
const std::tuple tree_rules{specdec::TraversalVerifier{}, specdec::RecursiveRejectionVerifier{},
                            specdec::KSeqVerifier{}, specdec::TrunkAndSpares<specdec::BlockVerifier>{}};
constexpr std::array tree_names{"traversal", "recursive rejection", "k-seq", "trunk and spares"};

// A drafted block of one kind of rows, and its digests by rule.
struct Drafted {
  AnyRows p, q;
  std::vector<Token> tokens;
  std::uint64_t seed;

  template <std::size_t... k>
  void judge_lines(std::array<Digest, 6>& digests, std::index_sequence<k...>) const {
    const auto judge = [&](auto rule, Digest& digest) {
      specdec::Philox rng{seed};
      digest.add(rule(p, q, tokens, rng));
    };
    (judge(std::get<k>(line_rules), digests[k]), ...);
  }
  template <std::size_t... k>
  void judge_trees(std::array<Digest, 4>& digests, std::index_sequence<k...>) const {
    const auto judge = [&](auto rule, Digest& digest) {
      specdec::Philox rng{seed};
      digest.add(rule(p, q, tokens, branches, rng));
    };
    (judge(std::get<k>(tree_rules), digests[k]), ...);
  }
  void judge_keyed(Digest& digest) const {
    specdec::Keyed source(seed);
    digest.add(specdec::KeyedVerifier{}(p, q, tokens, source));
  }
};

Drafted draft(const Stored& target, const Stored& draft, std::size_t kind, std::uint64_t seed) {
  specdec::Philox rng{seed};
  specdec::RandomChance chance{rng};
  const AnyRows q = draft.of_kind(kind);
  Drafted out{target.of_kind(kind), q, {}, seed};
  for (Index i = 0; i < gamma; ++i) out.tokens.push_back(chance.draw(q.row(i)));
  return out;
}

void write_verdicts() {
  std::array<std::array<Digest, 6>, kinds.size()> lines;
  std::array<std::array<Digest, 4>, kinds.size()> trees;
  std::array<Digest, kinds.size()> keyed;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    // A vocabulary that fits into one stretch of a row, and one that does not.
    const Index vocab_size = seed % 8 == 0 ? 5000 : 300;
    const Numbers numbers(seed, vocab_size), of_tree(seed, vocab_size, true);
    const Stored p(numbers.target), q(numbers.draft), branched(of_tree.draft);
    for (std::size_t kind = 0; kind < one_hot; ++kind) {
      const Drafted drafted = draft(p, q, kind, seed);
      drafted.judge_lines(lines[kind], std::make_index_sequence<6>());
      drafted.judge_keyed(keyed[kind]);
      draft(p, branched, kind, seed).judge_trees(trees[kind], std::make_index_sequence<4>());
    }
    Drafted certain = draft(p, q, 0, seed);
    certain.q = AnyRows(std::in_place_index<one_hot>, specdec::OneHotRows(certain.tokens));
    certain.judge_lines(lines[one_hot], std::make_index_sequence<6>());
    certain.judge_keyed(keyed[one_hot]);
  }
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    for (std::size_t k = 0; k < line_names.size(); ++k)
      print("verdicts", line_names[k], kinds[kind], lines[kind][k]);
    for (std::size_t k = 0; k < tree_names.size() && kind != one_hot; ++k)
      print("verdicts", tree_names[k], kinds[kind], trees[kind][k]);
    print("verdicts", "keyed", kinds[kind], keyed[kind]);
  }
}

// ---- Ids of every type, and batches ----

template <class Id, class Other>
std::vector<Id> as(const Other& ids) {
  return {ids.begin(), ids.end()};
}

// Verdicts do not depend on the type of the ids: a line, a tree, two drafts of a batch, and what these emit.
template <class Id>
void judge_ids(std::string_view name, const Drafted& drafted) {
  Digest digest;
  const std::vector<Id> ids = as<Id>(drafted.tokens);
  std::mt19937_64 rng{drafted.seed};
  digest.add(specdec::BlockVerifier{}(drafted.p, drafted.q, ids, rng));
  digest.add(specdec::TraversalVerifier{}(drafted.p, drafted.q, ids, as<Id>(branches), rng));

  std::array rngs{std::mt19937_64{1}, std::mt19937_64{2}};
  const std::array<Index, 3> offsets{0, 2, 3};
  std::array<specdec::BatchVerdict, 2> verdicts;
  const auto three = std::span(ids).first(3);
  const specdec::RowRange q(drafted.q, 0, 3);
  specdec::verify_batch(specdec::BlockVerifier{}, drafted.p, q, three, offsets, rngs, verdicts);
  std::vector<Id> emitted(6);
  std::array<std::int32_t, 2> accepted;
  specdec::write_emitted(three, specdec::PackedDrafts{offsets}, 3, verdicts, emitted, accepted);
  for (const Id x : emitted) digest.add(static_cast<std::uint64_t>(x));
  std::array<specdec::BatchTreeVerdict, 2> trees;
  specdec::verify_batch(specdec::TraversalVerifier{}, drafted.p, q, three, as<Id>(std::array{-1, -1, -1}),
                        offsets, rngs, trees);
  for (const specdec::BatchTreeVerdict& each : trees) digest.add(each.verdict);
  print("ids", name, "line, tree and batch", digest);
}

void write_ids() {
  const Numbers numbers(1, 5000);
  const Stored p(numbers.target), q(numbers.draft);
  const Drafted drafted = draft(p, q, processed, 1);
  judge_ids<std::int32_t>("int32_t", drafted);
  judge_ids<std::int64_t>("int64_t", drafted);
  judge_ids<long>("long", drafted);
  judge_ids<long long>("long long", drafted);
  judge_ids<Index>("Index", drafted);
}

// ---- Texts ----

constexpr std::string_view rhyme =
    "This is the house that Jack built. This is the malt that lay in the house that Jack built. "
    "This is the rat that ate the malt that lay in the house that Jack built. ";

struct Texts {
  std::vector<Token> letters{rhyme.begin(), rhyme.end()};
  specdec::NgramModel model = specdec::NgramModel::train(letters, {.order = 6, .vocab_size = 128});
  specdec::NgramModel coarse = model.with_order(3);

  void write(std::string_view name, auto target, auto drafter, auto verifier, auto source) const {
    specdec::SpecDec decoder{std::move(target), std::move(drafter), std::move(verifier)};
    print(name, decoder.generate(letters, {.max_new_tokens = 60, .gamma = 5}, source).tokens);
  }
  // Logits that grow with the n-gram model's probabilities: a chain and processors need logits.
  struct AsLogits {
    specdec::NgramModel model;
    RowMajor<float> logits = {};
    Index vocab_size() const { return model.vocab_size(); }
    const RowMajor<float>& forward(std::span<const Token> tokens, Index rows) {
      logits = (24 * model.forward(tokens, rows)).cast<float>();
      return logits;
    }
    void truncate(Index length) { model.truncate(length); }
  };

  void write_lines() const {
    const specdec::PathByPath target{specdec::NgramModel(model)};
    write("keyed", target, specdec::ModelDrafter{specdec::NgramModel(coarse)}, specdec::KeyedVerifier{},
          specdec::Keyed(1));
    write("prompt lookup", target, specdec::PromptLookupDrafter{}, specdec::TokenVerifier{},
          specdec::Philox{2});
    write("tree", target,
          specdec::ModelDrafter{
              specdec::PathByPath{specdec::NgramModel(coarse)},
              specdec::Tree{specdec::TreeShape{-1, -1, 0, 1, 2}, specdec::WithoutReplacement{}}},
          specdec::TraversalVerifier{}, std::mt19937_64{4});
  }
  void write_processed() const {
    const specdec::Processors processors{specdec::MinLength{30, {'.'}}, specdec::RepetitionPenalty{1.1},
                                         specdec::NoRepeatNgrams{5}};
    const specdec::Chain steps{specdec::Temperature{0.9}, specdec::TopK{40}, specdec::TopP{0.95},
                               specdec::MinP{0.01}};
    for (const std::uint64_t seed : {7u, 8u, 9u})
      write("processed", specdec::ProcessedModel{AsLogits{model}, steps, processors},
            specdec::ModelDrafter{specdec::ProcessedModel{AsLogits{coarse}, steps, processors}},
            specdec::BlockVerifier{}, std::mt19937_64{seed});
  }
  void write_batch() const {
    specdec::ModelPerSequence large{model}, drafting{specdec::NgramModel(coarse)};
    specdec::Batch batch{large, specdec::ModelDrafter{drafting}};
    for (const std::uint64_t seed : {5u, 6u})
      batch.add(letters, {.max_new_tokens = 40, .gamma = 3, .stop_tokens = {'.'}}, std::mt19937_64{seed});
    while (!batch.empty())
      for (const auto& finished : batch.step()) print("batch", finished.result.tokens);
  }
};

// ---- Log-probabilities and entropies ----

void write_bits() {
  const Numbers numbers(3, 5000);
  const Stored stored(numbers.target);
  // Rows in their own types: these have log-probabilities of their own. The bits of a sum would hide those of its parts.
  const auto print_row = [](std::string_view kind, const auto& row) {
    double sum = 0;
    Digest digest;
    for (Token x = 1; x < 5000; x += 6) {
      if (!(row.probability(x) > 0)) continue;
      const double each = specdec::log_probability(row, x);
      sum += each;
      digest.add(std::bit_cast<std::uint64_t>(each));
    }
    print("bits", "log_probability", kind, digest);
    const double entropy = specdec::entropy(row);
    digest = {};
    digest.add(std::bit_cast<std::uint64_t>(entropy));
    print("bits", "entropy", kind, digest);
    std::cout << "rounded log_probability and entropy, " << kind << ": " << std::setprecision(6) << sum << ' '
              << entropy << '\n';
  };
  print_row("floats", specdec::DenseRows(stored.floats).row(2));
  print_row("doubles", specdec::DenseRows(stored.columns).row(2));
  print_row("logits", LogitsOf<float>(stored.logits, {.temperature = 0.75}).row(2));
  print_row("processed logits", Processed(stored.logits, chain).row(2));
  print_row("lists", stored.of_kind(5).row(2));
}

}  // namespace

int main() {
  write_numbers();
  write_verdicts();
  write_ids();
  const Texts texts;
  texts.write_lines();
  texts.write_processed();
  texts.write_batch();
  write_bits();
}
