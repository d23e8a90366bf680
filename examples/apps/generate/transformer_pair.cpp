// SPDX-License-Identifier: MIT
#include "generate/transformer_pair.hpp"

#include <iomanip>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <specdec/more/heads/eagle_model.hpp>
#include <specdec/more/heads/head_model.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generate/pair.hpp"
#include "transformer/checkpoint.hpp"
#include "transformer/deepened.hpp"
#include "transformer/eagle.hpp"
#include "transformer/medusa.hpp"
#include "transformer/online_model.hpp"
#include "transformer/product.hpp"
#include "transformer/self_draft.hpp"
#include "transformer/shape.hpp"
#include "transformer/speculator.hpp"
#include "transformer/sublayers.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"
#include "transformer/weights.hpp"

namespace generate {
namespace {

/// A draft model of the target's first `layers` layers, by default half of its `own`, which are the trained ones. Layers
/// added by --target-layers compute nothing, so an exit after the last own layer would be the target itself.
/// Throws: std::invalid_argument if the target has no such exit.
template <class Scalar>
std::shared_ptr<Model> early_exit(const std::shared_ptr<transformer::Transformer<Scalar>>& target, Index own,
                                  std::optional<Index> layers) {
  const Index exit = layers.value_or(own / 2);
  if (exit < 1 || exit >= own)
    throw std::invalid_argument("--exit-layer " + std::to_string(exit) +
                                " is not before the end of the target's own " + std::to_string(own) +
                                " layers");
  return erased(std::make_shared<transformer::EarlyExit<Scalar>>(*target, exit));
}

template <class Scalar>
OnlineDraft online(const transformer::Transformer<Scalar>& draft, double temperature) {
  using Online = transformer::OnlineModel<Scalar>;
  const auto model = std::make_shared<Online>(draft, typename Online::Options{.temperature = temperature});
  return {erased(model), [model](Index length, const Eigen::ArrayXf& row) { model->learn(length, row); }};
}

/// A draft model of the target's `own` layers, which are the trained ones, without the sublayers of these names.
/// Throws: std::invalid_argument on a name that no own sublayer has.
template <class Scalar>
std::shared_ptr<Model> skip_layers(const std::shared_ptr<transformer::Transformer<Scalar>>& target, Index own,
                                   std::span<const std::string> left_out) {
  return erased(std::make_shared<transformer::SelfDraft<Scalar>>(
      *target, transformer::Sublayers::first(own).without(left_out)));
}

/// The states of some of the layers that a target shows, for one of several heads.
/// Pre: the target outlives this object.
template <class Scalar>
class PartOfHidden {
 public:
  /// `layers` layers from number `first` on of those that are shown.
  PartOfHidden(const transformer::Transformer<Scalar>& target, Index first, Index layers)
      : target_(&target), first_(first * target.shape().dim), count_(layers * target.shape().dim) {}

  Index context_size() const { return target_->context_size(); }
  Index length() const { return target_->length(); }
  auto hidden() const { return target_->hidden().segment(first_, count_); }
  auto hidden_at(Index token) const { return target_->hidden_at(token).segment(first_, count_); }

 private:
  const transformer::Transformer<Scalar>* target_;
  Index first_, count_;
};

/// Makes heads on the hidden states of one target.
template <class Scalar>
class Heads {
 public:
  explicit Heads(transformer::Transformer<Scalar>& target) : target_(target) {}

  /// Adds a head as a draft model: a specdec::HeadModel, or an EagleModel. The target then shows its layers, after those of
  /// the heads before it.
  template <template <class, class> class DraftModel, class Head>
  std::shared_ptr<Model> add(Head head) {
    const auto first = std::ssize(layers_), count = std::ssize(head.layers());
    layers_.insert(layers_.end(), head.layers().begin(), head.layers().end());
    target_.show_hidden(layers_);
    struct Drafting {
      PartOfHidden<Scalar> hidden;
      DraftModel<PartOfHidden<Scalar>, Head> model;
      Drafting(PartOfHidden<Scalar> part, Head own) : hidden(part), model(hidden, std::move(own)) {}
    };
    const auto drafting =
        std::make_shared<Drafting>(PartOfHidden<Scalar>(target_, first, count), std::move(head));
    return erased(std::shared_ptr<DraftModel<PartOfHidden<Scalar>, Head>>(drafting, &drafting->model));
  }

 private:
  transformer::Transformer<Scalar>& target_;
  std::vector<Index> layers_;
};

/// Reads a head.
/// Throws: std::runtime_error on a bad file, std::invalid_argument if it was made for another target.
template <class Head, class Scalar>
Head head_for(const transformer::Transformer<Scalar>& target, const std::string& path) {
  Head head(path);
  const auto numbers = std::ssize(head.layers()) * target.shape().dim;
  if (head.features_size() != numbers)
    throw std::invalid_argument("'" + path + "' reads states of " + std::to_string(head.features_size()) +
                                " numbers, the target shows " + std::to_string(numbers));
  return head;
}

/// Draft models on the target's hidden states, which the target shows from now on. Medusa's heads share the target's output
/// layer, the others keep their weights as `Drafts`.
/// Throws: std::runtime_error on a bad file, std::invalid_argument if a head was made for another target.
template <class Drafts, class Scalar>
std::map<std::string_view, std::shared_ptr<Model>> heads_of(transformer::Transformer<Scalar>& target,
                                                            const HeadFiles& files) {
  Heads<Scalar> heads(target);
  std::map<std::string_view, std::shared_ptr<Model>> models;
  using specdec::EagleModel, specdec::HeadModel, transformer::Eagle, transformer::Medusa,
      transformer::Speculator;
  if (files.speculator)
    models["speculator"] =
        heads.template add<HeadModel>(head_for<Speculator<Drafts>>(target, *files.speculator));
  if (files.eagle)
    models["eagle"] = heads.template add<EagleModel>(head_for<Eagle<Drafts>>(target, *files.eagle));
  if (files.medusa) models["medusa"] = heads.template add<HeadModel>(Medusa<Scalar>(*files.medusa, target));
  return models;
}

/// The model of a checkpoint, perhaps with added layers that change nothing (transformer/deepened.hpp).
template <class Scalar>
transformer::Transformer<Scalar> target_model(const std::string& path, std::optional<Index> layers) {
  auto weights = transformer::Weights<Scalar>::read(path);
  if (layers) weights = deepened(std::move(weights), *layers);
  return transformer::Transformer<Scalar>(
      std::make_shared<const transformer::Weights<Scalar>>(std::move(weights)));
}

/// A line of text about the size of a deepened model.
template <class Scalar>
std::string note_on(const transformer::Shape& deepened) {
  const auto parameters = static_cast<double>(deepened.parameters());
  std::ostringstream note;
  note << "The target was deepened to " << deepened.n_layers
       << " layers without effect on what it computes: " << std::fixed << std::setprecision(1)
       << parameters / 1e6 << " million parameters, " << std::setprecision(0)
       << parameters * sizeof(Scalar) / 1e6 << " MB.\n";
  return note.str();
}

/// A tokenizer for pieces of a text. encode() puts the beginning-of-text token first, and encodes the piece as the inside
/// of a text.
Tokenizer text_tokenizer(const std::shared_ptr<const transformer::Tokenizer>& tokenizer) {
  return {[tokenizer](Token token) { return std::string(tokenizer->bytes(token)); },
          [tokenizer](std::string_view text) {
            Tokens tokens = tokenizer->encode_inside(text);
            tokens.insert(tokens.begin(), transformer::Tokenizer::begin_of_text);
            return tokens;
          }};
}

/// A transformer with its own tokenizer.
/// Throws: std::runtime_error on a bad file.
template <class Scalar>
TextModel other_transformer(const std::string& model, const std::string& tokenizer_path) {
  const auto transformer = std::make_shared<transformer::Transformer<Scalar>>(model);
  const auto tokenizer =
      std::make_shared<const transformer::Tokenizer>(tokenizer_path, transformer->vocab_size());
  return {erased(transformer), text_tokenizer(tokenizer)};
}

/// The target's weights are kept as `Scalar`, those of drafters as `Drafts`.
template <class Drafts, class Scalar>
Pair read(const TransformerFiles& files) {
  using transformer::Tokenizer;
  const auto target = std::make_shared<transformer::Transformer<Scalar>>(
      target_model<Scalar>(files.target, files.target_layers));
  const auto draft = std::make_shared<transformer::Transformer<Drafts>>(files.draft);
  if (target->vocab_size() != draft->vocab_size())
    throw std::invalid_argument("'" + files.target + "' has a vocabulary of " +
                                std::to_string(target->vocab_size()) + " tokens, '" + files.draft +
                                "' one of " + std::to_string(draft->vocab_size()));
  const auto tokenizer = std::make_shared<const Tokenizer>(files.tokenizer, target->vocab_size());
  const std::string note = files.target_layers ? note_on<Scalar>(target->shape()) : "";
  const Index own = transformer::Checkpoint(files.target).shape().n_layers;
  std::ostringstream description;
  description << "Target " << files.target << ": " << target->shape() << "\nDraft  " << files.draft << ": "
              << draft->shape() << '\n'
              << note;
  return {.target = erased(target),
          .draft = erased(draft),
          .early_exit = [target,
                         own](const OwnLayers& layers) { return early_exit(target, own, layers.exit_layer); },
          .skip_layers = [target,
                          own](const OwnLayers& layers) { return skip_layers(target, own, layers.left_out); },
          .heads = heads_of<Drafts>(*target, files.heads),
          .online = [draft](double temperature) { return online(*draft, temperature); },
          .description = description.str(),
          .note = note,
          .encode = [tokenizer](std::string_view text) { return tokenizer->encode(text); },
          .decode = [tokenizer](Token before,
                                Token token) { return std::string(tokenizer->decode(before, token)); },
          .stop_tokens = {Tokenizer::begin_of_text, Tokenizer::end_of_text},
          .tokenizer = text_tokenizer(tokenizer),
          .other = files.other.empty() ? TextModel{}
                                       : other_transformer<Drafts>(files.other, files.other_tokenizer)};
}

}  // namespace

Pair transformer_pair(const TransformerFiles& files) {
  if (files.half) return read<Eigen::half, Eigen::half>(files);
  return read<transformer::FastScalar, float>(files);
}

}  // namespace generate
