// Tells the log-probabilities of the tokens of a text, and of its prompt: an observer.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/loop/log_probabilities.hpp"
#include "specdec/loop/observers.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/top_tokens.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// The log-probabilities that a sequence records.
struct LogProbabilityRecord {
  LogProbabilities processed, raw;
  TopTokens likeliest;

  /// Adds a token. Errors about the row carry the row's name.
  template <class Named>
  void add(const Named& row, Token token, const LogProbabilityOptions& options) {
    row.named([&] {
      if (options.processed) add(processed, row.unnamed(), token, options);
      if (options.raw) add_raw(row.unnamed(), token, options);
      return 0;
    });
  }

  /// Adds a token to one of the two. If the row throws, call truncate(): the token may have been added in part.
  template <Distribution R>
  void add(LogProbabilities& to, const R& row, Token token, const LogProbabilityOptions& options) {
    to.add(token, view_of(options.ids), likeliest.of(row, options.top),
           [&](Token x) { return log_probability(row, x); });
  }

  Index size() const { return std::max(processed.size(), raw.size()); }
  void truncate(Index size) {
    processed.truncate(size);
    raw.truncate(size);
  }

 private:
  // Needs a row that has unprocessed(): its values before temperature, cuts and hooks.
  template <class R>
  void add_raw(const R& row, Token token, const LogProbabilityOptions& options) {
    if constexpr (KnowsUnprocessed<R>) add(raw, row.unprocessed(), token, options);
    else
      invalid_argument(
          "log_probabilities.raw is asked for, but the target's rows do not tell what they were before they "
          "were processed: rows of specdec::Logits and specdec::ProcessedRows do");
  }
};

/// The log-probabilities of a prompt's last tokens. They are told in parts, as the target reads the prompt.
struct PromptRecord : LogProbabilityRecord {
  Index end = 0;                ///< the tokens before this one are told, or will not be
  Index ruled_out = unlimited;  ///< the first token that its row rules out

  /// No row before the one after token `from` will come. If that leaves a gap, no token before it counts.
  void begin_at(Index from) {
    if (end > from) return;
    truncate(0);
    end = from + 1;
  }
  /// Adds the tokens after token `from` of the text, by the rows after it and the tokens that follow; not those told before.
  /// Throws: what the rows throw. The tokens before the one that failed are told then.
  template <class Rows>
  void read(const Rows& rows, Index from, std::span<const Token> text, const LogProbabilityOptions& options) {
    begin_at(from);
    for (; end <= from + rows.rows(); ++end) {
      const Index told = size(), i = end - from - 1;
      const auto tell = [&] {
        const auto row = rows.row(i);
        const NamedRow named(row, "target", i);
        add(named, at(text, end), options);
        if (named.probability(at(text, end)) == 0) ruled_out = std::min(ruled_out, end);
      };
      undo_on_error(tell, [&] { truncate(told); });
    }
  }
};

}  // namespace detail

/// Records what Options::log_probabilities asks for. The step tells it of a prompt's rows, which a call before the first step brings.
struct LogProbabilityObserver : Observer {
  detail::LogProbabilityRecord of_text = {};
  detail::PromptRecord of_prompt = {};
  bool owes_prompt = false;  ///< whether the prompt's are all that is asked for: the text gets no token

  void weighed(const auto& weighed) {
    const LogProbabilityOptions& wanted = weighed.options.log_probabilities;
    if (!wanted.any()) return;
    Index node = 0;
    for (std::size_t i = 0; i < weighed.emitted.size(); ++i) {
      if constexpr (requires { weighed.drafted.target(node); })  // else none may be wanted: Step::settle
        of_text.add(weighed.drafted.target(node), weighed.emitted[i], wanted);
      if (i < weighed.path.size()) node = weighed.path[i] + 1;
    }
  }
  void withdrawn(Index tokens) noexcept { of_text.truncate(tokens); }
  void restarted() noexcept { of_prompt = {}; }
  void report(auto& result) const {
    result.log_probabilities = of_text.processed;
    result.raw_log_probabilities = of_text.raw;
    result.prompt_log_probabilities = of_prompt.processed;
    result.raw_prompt_log_probabilities = of_prompt.raw;
  }
};

}  // namespace specdec
