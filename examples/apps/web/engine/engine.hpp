// The engine of the page: models, and a text that is being written. The page and a program for a terminal use it alike.
// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "web/engine/json.hpp"
#include "web/engine/models.hpp"
#include "web/engine/writer.hpp"

namespace web {

/// Every function returns JSON.
class Engine {
 public:
  /// Reads the models from a folder.
  explicit Engine(const std::string& folder) : models_(folder) {}

  std::string describe() const {
    Json json;
    json.object([&] {
      json.name("vocabulary").value(models_.target.vocab_size());
      json.name("context").value(models_.target.context_size());
      json.name("target").value(models_.target.shape().parameters());
      json.name("draft").value(models_.draft.shape().parameters());
    });
    return json.text();
  }

  /// Begins a text after a prompt. A prompt that is too long is refused, and the text before stays.
  std::string begin(std::string_view prompt, const Settings& settings) {
    const std::vector<specdec::Token> tokens = models_.tokenizer.encode(prompt);
    const auto count = static_cast<specdec::Index>(tokens.size()), room = models_.target.context_size();
    Json json;
    json.object([&] {
      if (prompt.empty()) return void(json.name("error").value("The prompt is empty."));
      if (count > room / 2)
        return void(json.name("error").value("The prompt has " + std::to_string(count) +
                                             " tokens, and at most " + std::to_string(room / 2) +
                                             " leave room for a text."));
      json.name("prompt").value(count);
      writer_ = std::make_unique<Writer>(models_, settings, tokens);
    });
    return json.text();
  }

  /// The next block of the text: see Writer::step().
  /// Pre: a text has begun.
  std::string step() { return writer_->step(); }
  bool done() const { return writer_->done(); }

 private:
  Models models_;
  std::unique_ptr<Writer> writer_;
};

}  // namespace web
