// Shared by the tests of heads: heads with random weights and their files, and what any shipped head must do.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <specdec/more/audits.hpp>
#include <specdec/more/drafters.hpp>
#include <specdec/more/heads/eagle_model.hpp>
#include <specdec/more/heads/head_model.hpp>
#include <specdec/more/lengths.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "generate/sampled.hpp"
#include "refusal.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "trained_pair.hpp"
#include "transformer/batch.hpp"
#include "transformer/transformer.hpp"

namespace support {

using Tokens = std::vector<specdec::Token>;

inline Tokens random_tokens(std::mt19937& rng, std::size_t size, Eigen::Index vocab) {
  Tokens tokens(size);
  for (specdec::Token& x : tokens) x = static_cast<specdec::Token>(rng() % static_cast<unsigned>(vocab));
  return tokens;
}

inline Eigen::VectorXf random_state(std::mt19937& rng, Eigen::Index size) {
  return Eigen::VectorXf::NullaryExpr(size, [&] { return std::normal_distribution<float>{}(rng); });
}

/// x, normed by RMS.
inline Eigen::VectorXd normed(const Eigen::VectorXd& x, const Eigen::MatrixXd& weights) {
  return x.cwiseProduct(weights.row(0).transpose()) /
         std::sqrt(x.squaredNorm() / static_cast<double>(x.size()) + 1e-5);
}

inline Eigen::VectorXd silu(const Eigen::VectorXd& x) {
  return (x.array() / (1 + (-x.array()).exp())).matrix();
}

/// Random weights by name, and the file of version 2 that has them in the order in which they were added. What has one row
/// is a vector. The numbers are as the file has them, and scales are powers of two, so that all numbers are halves, too.
class RandomHead {
 public:
  explicit RandomHead(unsigned seed) : rng_(seed) {}

  void add(const std::string& name, Eigen::Index rows, Eigen::Index cols, double mean = 0) {
    std::normal_distribution<double> normal{mean,
                                            rows == 1 ? 0.3 : 1.5 / std::sqrt(static_cast<double>(cols))};
    Eigen::MatrixXd matrix = Eigen::MatrixXd::NullaryExpr(rows, cols, [&] { return normal(rng_); });
    if (rows == 1)
      for (double& number : matrix.reshaped()) number = append_half(number);
    else
      for (auto row : matrix.rowwise()) {
        const double scale = append_half(std::exp2(std::ceil(std::log2(row.cwiseAbs().maxCoeff() / 127))));
        for (double& number : row) {
          number = std::rint(number / scale);
          numbers_ += static_cast<char>(number);
          number *= scale;
        }
      }
    parts_[name] = matrix;
  }

  const Eigen::MatrixXd& part(const std::string& name) const { return parts_.at(name); }

  /// The file, with these words in its header.
  std::string file(std::vector<std::int32_t> words) const {
    words.resize(64);
    return std::string(reinterpret_cast<const char*>(words.data()), 256) + numbers_;
  }

 private:
  // Returns the number as the file has it.
  double append_half(double number) {
    const Eigen::half half(static_cast<float>(number));
    append(numbers_, half);
    return static_cast<double>(static_cast<float>(half));
  }

  std::mt19937 rng_;
  std::map<std::string, Eigen::MatrixXd> parts_;
  std::string numbers_;
};

inline std::string with_word(std::string file, std::size_t word, std::int32_t value) {
  return file.replace(4 * word, 4, reinterpret_cast<const char*>(&value), 4);
}

/// Checks what is said of any file of a head that is broken, cut, infinite or missing.
template <class Read>
void check_refusals(const std::string& file, const std::string& kind, const Read& read) {
  CHECK(refusal("some", read) == "is no " + kind + " of version 1 or 2");
  CHECK(refusal(file.substr(0, 100), read) == "is no " + kind + " of version 1 or 2");
  CHECK(refusal(with_word(file, 0, 5), read) == "is no " + kind + " of version 1 or 2");
  CHECK(refusal(with_word(file, 1, 3), read) == "is no " + kind + " of version 1 or 2");
  CHECK(refusal(with_word(file, 2, 0), read) == "vocab_size = 0 is outside 1..1048576");
  CHECK(refusal(file.substr(0, file.size() - 2), read) == "expected " + std::to_string(file.size()) +
                                                              " bytes or more, found " +
                                                              std::to_string(file.size() - 2));
  CHECK(refusal(file + "##", read) ==
        "expected " + std::to_string(file.size()) + " bytes, found " + std::to_string(file.size() + 2));
  std::string infinite = file;
  const Eigen::half infinity(std::numeric_limits<float>::infinity());
  infinite.replace(256, 2, reinterpret_cast<const char*>(&infinity), 2);
  CHECK(refusal(infinite, read) == "holds a weight that is not a finite number");
  CHECK(message_of<std::runtime_error>([&] { read("/no/such/file"); }) == "/no/such/file: cannot be read");
}

/// The draft model that a head, or a layer with a KV cache, is on a target.
template <class Target, class H>
auto draft_model(Target& target, const H& own) {
  if constexpr (specdec::DraftLayer<H> || specdec::BatchDraftLayer<H>)
    return specdec::EagleModel{target, own};
  else return specdec::HeadModel{target, own};
}

/// The shipped target and a head on its hidden states.
template <class H>
struct HeadPair {
  transformer::Transformer<float> target = trained_pair<float>().target, plain = target;
  decltype(draft_model(target, std::declval<const H&>())) head;

  explicit HeadPair(const H& own) : head(draft_model(target, own)) { target.show_hidden(own.layers()); }
  HeadPair(const HeadPair&) = delete;  // the head refers to the target
  HeadPair& operator=(const HeadPair&) = delete;

  Tokens alone(const Tokens& prompt, const specdec::Options& options) {
    std::mt19937_64 rng{1};
    return specdec::autoregressive(generate::sampled(plain, 0), prompt, options, rng).tokens;
  }
};

/// Target calls of a text of 60 tokens.
struct HeadCalls {
  specdec::Index lines, trees;
};

/// Checks that with drafts of this head the target writes its own text. Returns the number of its calls.
template <class H>
HeadCalls check_text(const H& own) {
  HeadPair<H> pair(own);
  const Tokens prompt = trained_tokenizer().encode("The people of the United States");
  std::mt19937_64 rng{6};
  const specdec::Options options{.max_new_tokens = 60, .gamma = 3};
  const Tokens alone = pair.alone(prompt, options);
  specdec::SpecDec lines{generate::sampled(pair.target, 0),
                         specdec::ModelDrafter{generate::sampled(pair.head, 0)}};
  const specdec::Result line = lines.generate(prompt, options, rng);
  CHECK(line.tokens == alone);
  specdec::SpecDec trees{
      generate::sampled(pair.target, 0),
      specdec::ModelDrafter{generate::sampled(pair.head, 0), specdec::ConfidentTree{.nodes = 16}},
      specdec::TraversalVerifier{}};
  const specdec::Result tree = trees.generate(prompt, {.max_new_tokens = 60, .gamma = 16}, rng);
  CHECK(tree.tokens == alone);
  return {line.stats.target_calls, tree.stats.target_calls};
}

/// Checks that two sequences that take turns with one target and one head write what each writes alone.
template <class H>
void check_turns(const H& own) {
  HeadPair<H> pair(own);
  specdec::SpecDec decoder{generate::sampled(pair.target, 0),
                           specdec::ModelDrafter{generate::sampled(pair.head, 0)}};
  std::mt19937_64 rng{8};
  const specdec::Options options{.max_new_tokens = 30, .gamma = 3};
  const Tokens one = trained_tokenizer().encode("Call me"),
               other = trained_tokenizer().encode("The ship was");
  auto a = decoder.start(one, options), b = decoder.start(other, options);
  while (!a.done() || !b.done()) {
    a.step(rng);
    b.step(rng);
  }
  CHECK(a.result().tokens == pair.alone(one, options));
  CHECK(b.result().tokens == pair.alone(other, options));
}

/// Checks that in a batch, where `together` drafts for all texts, each text is what it is alone.
template <class H, class Together>
void check_batch(const H& own, const Together& together) {
  HeadPair<H> pair(own);
  const specdec::Temperature chain{0.8};
  transformer::TransformerBatch<float> many(trained_weights + "target.bin");
  many.show_hidden(together.layers());
  auto heads = draft_model(many, together);  // a HeadModel, or an EagleModel
  specdec::Batch batch{specdec::ProcessedModel{many, chain},
                       specdec::ModelDrafter{specdec::ProcessedModel{heads, chain}}};
  const std::vector<Tokens> prompts{trained_tokenizer().encode("Call me"),
                                    trained_tokenizer().encode("The people of the United States"),
                                    trained_tokenizer().encode("The ship was")};
  const specdec::Options options{.max_new_tokens = 30, .gamma = 3};
  for (std::size_t i = 0; i < prompts.size(); ++i) batch.add(prompts[i], options, std::mt19937_64{i});
  batch.step();
  CHECK(message_of<std::logic_error>([&] { many.show_hidden(own.layers()); }) ==
        "transformer: show_hidden() while there are sequences");
  specdec::SpecDec decoder{specdec::ProcessedModel{pair.target, chain},
                           specdec::ModelDrafter{specdec::ProcessedModel{pair.head, chain}}};
  specdec::Index accepted = 0;
  for (const specdec::Finished& done : batch.run()) {
    REQUIRE(!done.error);
    const auto i = static_cast<std::size_t>(done.sequence);
    std::mt19937_64 rng{i};
    CHECK(done.result.tokens == decoder.generate(prompts[i], options, rng).tokens);
    accepted += done.result.stats.accepted;
  }
  CHECK(accepted > 20);
}

/// Checks that texts follow the target's law at temperature 1, and that tokens are drawn from the rows that the head reports.
/// False-alarm rate 1e-6 each; the seed is fixed.
template <class H>
void check_law(const H& own) {
  HeadPair<H> pair(own);
  specdec::testing::AuditedDrafter drafter{specdec::ModelDrafter{generate::sampled(pair.head, 1)}};
  specdec::SpecDec decoder{generate::sampled(pair.target, 1), drafter};
  const auto report = check_trained([&](const auto& prompt, const specdec::Options& options, auto& rng) {
    return decoder.generate(prompt, options, rng).tokens;
  });
  INFO(report);
  CHECK(report.accepted());
  CHECK(!drafter.report().convicted());
}

}  // namespace support
