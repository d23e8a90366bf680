// What the functions of specdec.h about requests do. They are defined where SPECDEC_C_IMPLEMENTATION is defined before this header,
// in one file of a program.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/more/c/specdec.h"

#ifdef SPECDEC_C_IMPLEMENTATION

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/loop/batch.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/loop/request.hpp"
#include "specdec/measure/stats.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/model.hpp"
#include "specdec/more/c/status.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"
#include "specdec/verify/rules/sample_match.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec::inline v0_2_0::detail {

/// Drafts that are handed in by the call that proposes them. What their rows are is known where they are judged, elsewhere.
class HandedDrafts {
 public:
  static constexpr bool drafts_trees = false;

  /// The drafts of the next call of draft(): tokens[offsets[i]] to tokens[offsets[i + 1] − 1] for requests[i].
  void hand_in(std::span<const Index> requests, const int32_t* tokens, const int64_t* offsets) {
    handed_.clear();
    for (std::size_t i = 0; i < requests.size(); ++i)
      handed_[requests[i]] = tokens == nullptr ? std::span<const Token>()
                                               : std::span(tokens + offsets[i], tokens + offsets[i + 1]);
  }

  template <class Request>
  void draft(std::span<Request> requests) {
    for (const Request& request : requests) {
      const auto tokens = handed_.at(request.sequence);
      drafts_[request.sequence].assign(
          tokens.begin(), tokens.begin() + std::min(std::ssize(tokens), request.limits.length()));
    }
  }
  Draft<OneHotRows> drafted(Index request) const {
    const auto tokens = view_of(drafts_.at(request));
    return {tokens, OneHotRows(tokens)};
  }
  void keep(Index, Index) {}
  void release(Index request) { drafts_.erase(request); }

 private:
  std::unordered_map<Index, std::span<const Token>> handed_;
  std::unordered_map<Index, std::vector<Token>> drafts_;
};

/// The rule draws nothing here, since verdicts are settled.
using RequestsOfC = Batch<ExternalTarget, HandedDrafts&, SampleMatchVerifier>;

}  // namespace specdec::detail

struct specdec_paused {  // NOLINT: a name in C
  std::optional<specdec::detail::RequestsOfC::Paused> text = {};
};

struct specdec_requests {  // NOLINT: a name in C
  specdec_requests(specdec::Index vocabulary, specdec::Index context)
      : vocab_size(vocabulary), batch(specdec::ExternalTarget{vocabulary, context}, drafts) {}

  specdec::Index vocab_size;
  specdec::detail::HandedDrafts drafts;
  specdec::detail::RequestsOfC batch;
  // What was handed out last.
  std::vector<specdec_feed> feeds;
  std::vector<int64_t> numbers, offsets;
  std::vector<int32_t> tokens;
  std::vector<std::vector<int32_t>> fed;
  std::vector<specdec_finished> finished;
};

namespace specdec::inline v0_2_0::detail {

/// A list of `size` ids or numbers, which errors call by name.
template <class T>
std::span<const T> list_of(const char* name, const T* list, const char* name_of_size, int64_t size) {
  if (size < 0) invalid_argument(name_of_size, " = ", size, " is negative");
  if (size > 0) check_not_null(list, name);
  return {list, static_cast<std::size_t>(size)};
}
inline std::vector<Index> numbers_of(const char* name, const int64_t* requests, int64_t count) {
  const auto list = list_of(name, requests, "count", count);
  return {list.begin(), list.end()};
}

/// Empties lists, and makes room in them.
template <class... Lists>
void clear_for(int64_t count, Lists&... lists) {
  (lists.clear(), ...);
  (detail::reserve(lists, count), ...);
}

inline void check_drafts(const int32_t* tokens, const int64_t* offsets, int64_t count, Index vocab_size) {
  if (offsets == nullptr && tokens == nullptr) return;
  check_not_null(offsets, "offsets");
  check_offsets([offsets](Index i) { return Index{offsets[i]}; }, count);
  check_tokens("tokens", list_of("tokens", tokens, "offsets[count]", offsets[count]), vocab_size);
}

/// Calls f with the requests. What it throws becomes a status and a text.
template <class Requests, class F>
specdec_status on(Requests* requests, const ErrorText& error, const F& f) {
  return status_of(error, [&] {
    check_not_null(requests, "requests");
    f(*requests);
  });
}

/// Makes plain structures of the feeds. Drafts are fed whole: a rule must judge a drawn stop token, or stop tokens get too rare.
inline specdec_proposal hand_out(specdec_requests& in, std::span<const BatchFeed> feeds) {
  for (const BatchFeed& feed : feeds) {
    const auto draft = in.drafts.drafted(feed.sequence).tokens;
    auto& fed = in.fed.emplace_back(feed.tokens.begin(), feed.tokens.end() - (feed.rows - 1));
    fed.insert(fed.end(), draft.begin(), draft.end());
    in.feeds.push_back({feed.sequence, feed.from, fed.data(), std::ssize(fed), std::ssize(draft) + 1});
    in.numbers.push_back(feed.sequence);
    in.tokens.insert(in.tokens.end(), draft.begin(), draft.end());
    in.offsets.push_back(std::ssize(in.tokens));
  }
  return {std::ssize(feeds), in.feeds.data(), in.numbers.data(), in.tokens.data(), in.offsets.data()};
}

inline specdec_finished finished_of(const Finished& text) {
  const auto reason = text.result.stop_reason;
  return {text.sequence,
          text.result.tokens.data(),
          std::ssize(text.result.tokens),
          text.error                         ? SPECDEC_STOP_ERROR
          : reason == StopReason::stop_token ? SPECDEC_STOP_TOKEN
          : reason == StopReason::context    ? SPECDEC_STOP_CONTEXT
                                             : SPECDEC_STOP_LENGTH,
          text.result.cached,
          text.result.stats.target_calls,
          text.result.stats.drafted,
          text.result.stats.accepted};
}

}  // namespace specdec::detail

// NOLINTBEGIN: names and types of C; one file of a program defines these functions

extern "C" {

specdec_status specdec_requests_create(specdec_requests** requests, int64_t vocab_size, int64_t context_size,
                                       char* error, size_t error_size) {
  using namespace specdec::detail;
  return status_of({error, error_size}, [&] {
    check_not_null(requests, "requests");
    if (vocab_size < 1) invalid_argument("vocab_size = ", vocab_size, " is below 1");
    if (context_size < 0) invalid_argument("context_size = ", context_size, " is negative");
    *requests = new specdec_requests(vocab_size, context_size == 0 ? specdec::unlimited : context_size);
  });
}

void specdec_requests_destroy(specdec_requests* requests) { delete requests; }

int64_t specdec_requests_size(const specdec_requests* requests) {
  return requests == nullptr ? 0 : requests->batch.size();
}

specdec_status specdec_requests_add(specdec_requests* requests, const int32_t* prompt, int64_t prompt_size,
                                    int64_t cached, int64_t max_new_tokens, int64_t gamma,
                                    const int32_t* stop_tokens, int64_t stop_token_count, int64_t* number,
                                    char* error, size_t error_size) {
  using namespace specdec::detail;
  return on(requests, {error, error_size}, [&](auto& in) {
    check_not_null(number, "number");
    if (gamma < 0 || gamma > specdec::longest_draft)
      invalid_argument("gamma = ", gamma, " is outside 0..", specdec::longest_draft);
    const auto stops = list_of("stop_tokens", stop_tokens, "stop_token_count", stop_token_count);
    *number =
        in.batch.add({.prompt = list_of("prompt", prompt, "prompt_size", prompt_size),
                      .options = {.max_new_tokens = max_new_tokens, .gamma = gamma, .stop_tokens = stops},
                      .source = specdec::SplitMix64{0},
                      .cached = cached});
  });
}

specdec_status specdec_requests_fork(specdec_requests* requests, int64_t of, int64_t cached, int64_t* number,
                                     char* error, size_t error_size) {
  using namespace specdec::detail;
  return on(requests, {error, error_size}, [&](auto& in) {
    check_not_null(number, "number");
    *number = in.batch.fork(of, {.source = specdec::SplitMix64{0}, .cached = cached});
  });
}

specdec_status specdec_requests_text(const specdec_requests* requests, int64_t number, specdec_text* text,
                                     char* error, size_t error_size) {
  using namespace specdec::detail;
  return on(requests, {error, error_size}, [&](auto& in) {
    check_not_null(text, "text");
    const auto& sequence = in.batch.sequence(number);
    const auto tokens = sequence.context();
    *text = {tokens.data(), std::ssize(tokens), std::ssize(sequence.tokens()), sequence.kept()};
  });
}

specdec_status specdec_requests_propose(specdec_requests* requests, const int64_t* requests_drafted,
                                        int64_t count, const int32_t* tokens, const int64_t* offsets,
                                        specdec_proposal* proposal, char* error, size_t error_size) {
  using namespace specdec::detail;
  return on(requests, {error, error_size}, [&](auto& in) {
    check_not_null(proposal, "proposal");
    const auto drafted = numbers_of("requests_drafted", requests_drafted, count);
    check_drafts(tokens, offsets, count, in.vocab_size);
    in.drafts.hand_in(view_of(drafted), tokens, offsets);
    clear_for(count + 1, in.feeds, in.numbers, in.fed, in.finished, in.offsets);
    clear_for(offsets == nullptr ? 0 : offsets[count], in.tokens);
    in.offsets.push_back(0);
    *proposal = hand_out(in, in.batch.propose_for(view_of(drafted)));
  });
}

specdec_status specdec_requests_settle(specdec_requests* requests, const int64_t* settled,
                                       const specdec_verdict* verdicts, int64_t count,
                                       const specdec_finished** finished, int64_t* finished_count,
                                       char* error, size_t error_size) {
  using namespace specdec::detail;
  return on(requests, {error, error_size}, [&](auto& in) {
    check_not_null(finished, "finished");
    check_not_null(finished_count, "finished_count");
    const auto numbers = numbers_of("settled", settled, count);
    if (count > 0) check_not_null(verdicts, "verdicts");
    std::vector<specdec::Verdict> taken;
    for (int64_t i = 0; i < count; ++i) taken.push_back({verdicts[i].accepted, verdicts[i].token});
    clear_for(count, in.finished);
    for (const auto& text : in.batch.settle_for(view_of(numbers), view_of(taken)))
      in.finished.push_back(finished_of(text));
    *finished = in.finished.data();
    *finished_count = std::ssize(in.finished);
  });
}

specdec_status specdec_requests_pause(specdec_requests* requests, int64_t number, specdec_paused** paused,
                                      char* error, size_t error_size) {
  using namespace specdec::detail;
  return on(requests, {error, error_size}, [&](auto& in) {
    check_not_null(paused, "paused");
    auto out = std::make_unique<specdec_paused>();
    out->text.emplace(in.batch.pause(number));
    *paused = out.release();
  });
}

specdec_status specdec_requests_resume(specdec_requests* requests, specdec_paused** paused, int64_t cached,
                                       char* error, size_t error_size) {
  using namespace specdec::detail;
  return on(requests, {error, error_size}, [&](auto& in) {
    check_not_null(paused, "paused");
    check_not_null(*paused, "*paused");
    in.batch.add(std::move(*(*paused)->text), {cached});
    delete std::exchange(*paused, nullptr);
  });
}

void specdec_paused_destroy(specdec_paused* paused) { delete paused; }

specdec_status specdec_requests_cancel(specdec_requests* requests, int64_t number, char* error,
                                       size_t error_size) {
  using namespace specdec::detail;
  return on(requests, {error, error_size}, [&](auto& in) { in.batch.cancel(number); });
}

}  // extern "C"

// NOLINTEND

#endif
