// Rows of which one probability is at hand, and the rest is fetched only if a rule asks for it.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <optional>
#include <span>  // and std::ranges::contiguous_range: <ranges> takes a while to compile
#include <type_traits>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/rows/row_adaptor.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

template <class Fetch>
using FetchedFrom = std::remove_cvref_t<std::invoke_result_t<const Fetch&, Index>>;

}  // namespace detail

/// A row that knows the probability of one token. At the first question about more it fetches the whole row, and keeps it.
template <class Fetch>
  requires Distribution<detail::FetchedFrom<Fetch>>
class FetchedRow
    : public detail::RowAdaptor<FetchedRow<Fetch>, detail::Keeps::all, detail::FetchedFrom<Fetch>> {
 public:
  FetchedRow(Token token, double probability, Index vocab_size, Index place, const Fetch& fetch)
      : token_(token), probability_(probability), vocab_size_(vocab_size), place_(place), fetch_(fetch) {}

  static constexpr bool constant_time_probability = false;

  Index vocab_size() const { return vocab_size_; }
  double probability(Token x) const {
    return x == token_ ? probability_ : specdec::probability(fetched(), x);
  }
  double log_probability(Token x) const {
    return x == token_ ? std::log(probability_) : specdec::log_probability(fetched(), x);
  }
  bool possible(Token x) const { return x == token_ ? probability_ > 0 : specdec::possible(fetched(), x); }
  void prefetch(Token) const = delete;  // that would fetch the row
  auto sampler() const { return fetched().sampler(); }

  // For RowAdaptor.
  decltype(auto) ask(const auto& f) const { return f(fetched()); }

 private:
  const detail::FetchedFrom<Fetch>& fetched() const {
    if (!row_) row_.emplace(fetch_(place_));
    if (row_->vocab_size() != vocab_size_)
      detail::invalid_argument("the fetched row ", place_, " has ", Index{row_->vocab_size()},
                               " tokens, expected ", vocab_size_);
    return *row_;
  }

  Token token_;
  double probability_;
  Index vocab_size_, place_;
  Fetch fetch_;
  mutable std::optional<detail::FetchedFrom<Fetch>> row_;
};

/// The rows of drafted tokens of which only the probabilities of these tokens were stored: row i gives tokens[i] the probability
/// probabilities[i], and is fetch(i) for all other tokens. fetch(i) returns the row, a Distribution: it computes it, or reads it
/// from a disk. A lossless rule cannot do without: where it stops it draws from (w·p − q)+, which needs q of other tokens. But it
/// need not know the rows of what it keeps.
///
///   FetchedRows{tokens, probabilities, vocab_size, [&](Index i) { return old_model.distribution(context(i)); }}
///
/// Pre: fetch(i) is the very row that tokens[i] was drawn from, and gives it probabilities[i], up to rounding.
/// The lists must outlive the view; temporary containers of them are refused. The function is copied with each row; what the row
/// that it returns refers to must live as long as this.
/// Throws: InvalidArgument unless there are as many probabilities as tokens, vocab_size is positive, and fetched rows have so many
/// tokens; what `fetch` throws.
/// Cost: a row is fetched once for each race that reads it. TokenVerifier reads one, where it stops. BlockVerifier may read each row
/// after the last token that it keeps: row i with about the probability w_i that the draft survives up to there.
template <Real S, class Fetch>
class FetchedRows {
 public:
  FetchedRows(TokenIds tokens, std::span<const S> probabilities, Index vocab_size, Fetch fetch)
      : tokens_(tokens), probabilities_(probabilities), vocab_size_(vocab_size), fetch_(std::move(fetch)) {
    if (vocab_size < 1) detail::invalid_argument("vocab_size = ", vocab_size, " is not positive");
    if (tokens.size() != std::ssize(probabilities))
      detail::invalid_argument(probabilities.size(), " probabilities of ", tokens.size(), " tokens");
  }
  template <detail::OwningTemporary Temporary>
  FetchedRows(Temporary&& tokens, std::span<const S> probabilities, Index vocab_size, Fetch fetch) = delete;
  template <detail::OwningTemporary Temporary>
  FetchedRows(TokenIds tokens, Temporary&& probabilities, Index vocab_size, Fetch fetch) = delete;

  Index rows() const { return tokens_.size(); }
  Index vocab_size() const { return vocab_size_; }
  FetchedRow<Fetch> row(Index i) const {
    const auto probability = static_cast<double>(static_cast<Arithmetic<S>>(detail::at(probabilities_, i)));
    return {detail::as_token(tokens_[i]), probability, vocab_size_, i, fetch_};
  }

 private:
  TokenIds tokens_;
  std::span<const S> probabilities_;
  Index vocab_size_;
  Fetch fetch_;
};

template <class Tokens, std::ranges::contiguous_range P, class Fetch>
FetchedRows(Tokens&&, P&&, Index, Fetch) -> FetchedRows<std::ranges::range_value_t<P>, Fetch>;

}  // namespace specdec
