// Writes one text, block by block, and tells each block as JSON.
// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <span>
#include <specdec/specdec.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "generate/utf8.hpp"
#include "web/engine/chosen_drafter.hpp"
#include "web/engine/chosen_length.hpp"
#include "web/engine/chosen_rule.hpp"
#include "web/engine/json.hpp"
#include "web/engine/models.hpp"
#include "web/engine/shown_chance.hpp"
#include "web/engine/shown_rule.hpp"

namespace web {

struct Settings {
  double temperature;
  RuleKind rule;
  DrafterKind drafter;
  specdec::Index gamma;  ///< the most tokens that are drafted at a time; 0: the target alone
  bool automatic;        ///< gamma is a limit, and the fastest length is measured
  specdec::Index tokens;
  unsigned seed;

  /// A rule that asks for no q accepts the drafter's likeliest tokens most often.
  double draft_temperature() const { return rule == RuleKind::sample_match ? 0 : temperature; }
};

/// Pre: the models outlive this object, and nobody else uses them. The prompt has 1 token or more, all fit the target's context.
class Writer {
 public:
  Writer(Models& models, const Settings& settings, std::span<const specdec::Token> prompt)
      : tokenizer_(models.tokenizer),
        generator_(settings.seed),
        chance_(generator_),
        last_(prompt.back()),
        decoder_(generate::sampled(models.target, settings.temperature),
                 ChosenDrafter(settings.drafter, models.draft, settings.draft_temperature()),
                 ShownRule(ChosenRule(settings.rule), shown_), ChosenLength(settings.automatic)),
        text_(decoder_.start(prompt, {.max_new_tokens = settings.tokens,
                                      .gamma = settings.gamma,
                                      .stop_tokens = {transformer::Tokenizer::begin_of_text,
                                                      transformer::Tokenizer::end_of_text}})) {}
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  bool done() const { return text_.done(); }

  /// Writes a block, and tells it: see write_block(). Where the text is done, nothing is written.
  std::string step() {
    shown_.clear();
    const std::span<const specdec::Token> emitted = text_.step(chance_);
    Json json;
    json.object([&] {
      write_block(json, emitted);
      write_stats(json);
    });
    return json.text();
  }

 private:
  using Decoder = specdec::SpecDec<SampledModel, ChosenDrafter, ShownRule, ChosenLength>;

  // drafted: the tokens with p, q and the probability that the rule accepts so many; accepted, token: the verdict;
  // text: what each token of the block adds to the text; rows and events: see ShownDraft.
  void write_block(Json& json, std::span<const specdec::Token> emitted) {
    json.name("drafted").list([&] {
      for (std::size_t i = 0; i < shown_.drafted.size(); ++i)
        json.list([&] { write(json, shown_.drafted[i]).value(shown_.survival[i]); });
    });
    json.name("accepted").value(shown_.verdict.accepted);
    json.name("token").value(tokenizer_.bytes(shown_.verdict.token));
    json.name("text").list([&] {
      for (const specdec::Token token : emitted) {
        json.value(characters_.add(tokenizer_.decode(last_, token)));
        last_ = token;
      }
    });
    json.name("rows").list([&] {
      for (const std::vector<Candidate>& row : shown_.rows)
        json.list([&] {
          for (const Candidate& candidate : row) json.list([&] { write(json, candidate); });
        });
    });
    json.name("events").list([&] {
      for (const Event& event : shown_.events) json.list([&] { write(json, event); });
    });
  }

  Json& write(Json& json, const Candidate& candidate) const {
    return write_token(json, candidate.token, candidate.p, candidate.q);
  }
  Json& write_token(Json& json, specdec::Token token, double p, double q) const {
    json.value(tokenizer_.bytes(token)).value(p);
    return q < 0 ? json.null() : json.value(q);
  }

  void write(Json& json, const Event& event) const {
    using enum Event::Kind;
    switch (event.kind) {
      case coin:
        json.value("coin").value(event.h);
        (event.u < 0 ? json.null() : json.value(event.u)).value(event.yes);
        return;
      case draw:
        write_token(json.value("draw"), event.token, event.p, event.q);
        return;
      case race:
        json.value("race").value(event.h);
        return;
      case won:
        json.value("won").value(tokenizer_.bytes(event.token));
        return;
      case lost:
        json.value("lost");
        return;
    }
  }

  // Totals of the text so far; times in milliseconds, without the time that telling takes.
  void write_stats(Json& json) {
    const specdec::Stats& stats = text_.stats();
    const auto milliseconds = [](std::chrono::nanoseconds time) {
      return static_cast<double>(time.count()) / 1e6;
    };
    json.name("tokens").value(stats.emitted).name("calls").value(stats.target_calls);
    json.name("ms").object([&] {
      json.name("target").value(milliseconds(stats.target_time));
      json.name("draft").value(milliseconds(stats.draft_time));
      json.name("verify").value(milliseconds(stats.verify_time - shown_.time));
    });
    json.name("done");
    if (!done()) return void(json.null());
    std::ostringstream reason;
    reason << text_.result().stop_reason;
    json.value(reason.str());
  }

  const transformer::Tokenizer& tokenizer_;
  Generator generator_;
  ShownChance chance_;
  ShownDraft shown_;
  specdec::Token last_;
  generate::WholeCharacters characters_;
  Decoder decoder_;
  Decoder::Sequence text_;
};

}  // namespace web
