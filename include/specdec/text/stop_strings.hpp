// The search for strings that end a text, wherever its tokens break them: with it, StopStrings can be made.
// SPDX-License-Identifier: MIT
#pragma once

#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/text/stop_search.hpp"
#include "specdec/text/string_matcher.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

template <class Bytes>
class StopSearcherOf final : public StopSearcher {
 public:
  StopSearcherOf(std::vector<std::string> all, Bytes bytes)
      : StopSearcher(std::move(all)), matcher_(strings), bytes_(std::move(bytes)) {}

  std::optional<StopMatch> find(StopSearch& search, Token token, bool counts) const override {
    const auto& piece = bytes_(token);
    return find(search, std::string_view(piece), counts);
  }

  std::optional<StopMatch> find(StopSearch& search, std::string_view bytes, bool counts) const override {
    for (const char byte : bytes) {
      search.state = matcher_.next(search.state, byte);
      ++search.bytes;
      const Index string = matcher_.string(search.state);
      if (string < 0 || !counts) continue;
      const Index length = std::ssize(at(strings, string));
      return StopMatch{string, search.bytes - length, search.bytes};
    }
    return std::nullopt;
  }

  Index begun(const StopSearch& search) const override { return matcher_.depth(search.state); }

 private:
  StringMatcher matcher_;
  Bytes bytes_;
};

}  // namespace specdec::detail
