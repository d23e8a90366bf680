// A TorchScript module as a model of logits. Each call takes the keys and values of the context and returns the new ones.
// SPDX-License-Identifier: MIT
#pragma once

#include <torch/script.h>

#include <Eigen/Core>
#include <cstdint>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// A model of logits (specdec::Model) by a module of the form that export.py describes. Copies share the module, and each
/// has its own context: tensors of keys and values are never written to.
/// Throws: std::runtime_error if the file is not such a module.
class TorchModel {
 public:
  using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  explicit TorchModel(const std::string& path) : module_(load(path)) {
    const auto number = [&](const char* name) {
      if (!module_.hasattr(name) || !module_.attr(name).isInt())
        throw std::runtime_error("'" + path + "' has no number " + name + ": see export.py");
      return module_.attr(name).toInt();
    };
    vocab_size_ = number("vocab_size");
    context_size_ = number("context_size");
    keys_ = values_ = torch::empty({number("layers"), number("kv_heads"), 0, number("head_size")});
  }

  specdec::Index vocab_size() const { return vocab_size_; }
  specdec::Index context_size() const { return context_size_; }

  /// Throws: the module's errors; the context is then as before.
  Eigen::Map<const Rows> forward(std::span<const specdec::Token> tokens, specdec::Index rows) {
    const c10::InferenceMode no_gradients;
    ids_.assign(tokens.begin(), tokens.end());
    const torch::Tensor ids = torch::from_blob(ids_.data(), std::ssize(ids_), torch::kInt64);
    const auto output = module_.forward({ids, keys_, values_, rows}).toTuple();
    logits_ = output->elements().at(0).toTensor().to(torch::kFloat32).contiguous();
    keys_ = output->elements().at(1).toTensor();
    values_ = output->elements().at(2).toTensor();
    return {logits_.data_ptr<float>(), logits_.size(0), logits_.size(1)};
  }

  /// O(1): a view of the first keys and values.
  void truncate(specdec::Index length) {
    const c10::InferenceMode no_gradients;
    if (length >= keys_.size(2)) return;
    keys_ = keys_.narrow(2, 0, length);
    values_ = values_.narrow(2, 0, length);
  }

 private:
  static torch::jit::Module load(const std::string& path) {
    try {
      torch::jit::Module module = torch::jit::load(path);
      module.eval();
      return module;
    } catch (const c10::Error& error) {
      throw std::runtime_error("'" + path + "' is no TorchScript module: " + error.what_without_backtrace());
    }
  }

  torch::jit::Module module_;
  specdec::Index vocab_size_ = 0, context_size_ = 0;
  torch::Tensor keys_, values_;  // of the tokens in the context
  torch::Tensor logits_;         // of the last call
  std::vector<std::int64_t> ids_;
};
