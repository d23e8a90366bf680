// A target, a draft model and their tokenizer.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <specdec/more/text/text_tokenizer.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace generate {

using specdec::Index;
using specdec::Token;
using Tokens = std::vector<Token>;

/// A type-erased model with float logits, so that decoders are compiled once for all models.
class Model {
 public:
  using Logits = Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                            Eigen::OuterStride<>>;

  Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  virtual ~Model() = default;

  virtual Index vocab_size() const = 0;
  virtual Index context_size() const = 0;
  virtual Logits forward(std::span<const Token> tokens, Index rows) = 0;
  virtual void truncate(Index length) = 0;
  virtual bool can_draft(Index /*length*/) const { return true; }

  /// Whether the model takes trees. If not, the two functions below throw std::logic_error.
  virtual bool takes_trees() const = 0;
  virtual Logits forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) = 0;
  virtual void keep(std::span<const Index> path) = 0;
};

/// Wraps a model M as a Model.
template <specdec::Model M>
class ModelOf final : public Model {
 public:
  explicit ModelOf(std::shared_ptr<M> model) : model_(std::move(model)) {}

  Index vocab_size() const override { return model_->vocab_size(); }
  Index context_size() const override { return specdec::context_size(*model_); }
  Logits forward(std::span<const Token> tokens, Index rows) override { return model_->forward(tokens, rows); }
  void truncate(Index length) override { model_->truncate(length); }
  bool can_draft(Index length) const override {
    if constexpr (requires { model_->can_draft(length); }) return model_->can_draft(length);
    else return true;
  }

  bool takes_trees() const override { return specdec::takes_trees<M>; }
  Logits forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) override {
    if constexpr (specdec::takes_trees<M>) return model_->forward(tokens, parents, rows);
    else refuse();
  }
  void keep(std::span<const Index> path) override {
    if constexpr (specdec::takes_trees<M>) model_->keep(path);
    else refuse();
  }

 private:
  [[noreturn]] static void refuse() { throw std::logic_error("generate: the model takes no trees"); }

  std::shared_ptr<M> model_;
};

template <class M>
std::shared_ptr<Model> erased(std::shared_ptr<M> model) {
  return std::make_shared<ModelOf<M>>(std::move(model));
}

using Tokenizer =
    specdec::TextTokenizer<std::function<std::string(Token)>, std::function<Tokens(std::string_view)>>;

/// A draft model of another vocabulary.
struct TextModel {
  std::shared_ptr<Model> model;
  Tokenizer tokenizer;
};

/// A draft model that learns from the target's rows: see transformer/online_model.hpp.
struct OnlineDraft {
  std::shared_ptr<Model> model;
  std::function<void(Index length, const Eigen::ArrayXf& row)> learn;
};

/// The target's own layers that draft.
struct OwnLayers {
  std::optional<Index> exit_layer;  ///< of early exits; by default half of the layers
  std::vector<std::string>
      left_out;  ///< the names of the sublayers that are left out where layers are skipped
};

/// Two models over one vocabulary, and further draft models.
struct Pair {
  std::shared_ptr<Model> target, draft;
  /// Make draft models of the target's own layers: see transformer/self_draft.hpp. Empty for n-grams.
  std::function<std::shared_ptr<Model>(const OwnLayers&)> early_exit, skip_layers;
  /// Draft models on the target's hidden states (transformer/speculator.hpp, eagle.hpp, medusa.hpp), by the names of their
  /// drafters.
  std::map<std::string_view, std::shared_ptr<Model>> heads = {};
  /// Makes a copy of the draft model that learns. Empty for n-grams.
  std::function<OnlineDraft(double temperature)> online = {};
  std::string description = {};  ///< lines that describe the models
  std::string note = {};         ///< the lines of them that also stand below every table
  std::function<Tokens(std::string_view)> encode;
  std::function<std::string(Token before, Token token)> decode;
  Tokens stop_tokens;
  Tokenizer tokenizer = {};  ///< of the two models, for pieces of a text
  TextModel other = {},
            bytes =
                {};  ///< a transformer with another tokenizer and n-grams of bytes, where they are asked for
};

}  // namespace generate
