// What a processor makes of a row of logits, and of a text that goes on and back.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <specdec/types.hpp>
#include <vector>

namespace support {

inline Eigen::RowVectorXd applied(auto processor, const std::vector<double>& logits) {
  Eigen::RowVectorXd row = Eigen::Map<const Eigen::RowVectorXd>(logits.data(), std::ssize(logits));
  processor.apply(Eigen::Ref<Eigen::RowVectorXd>(row));
  return row;
}

// Takes up to two tokens of a processor's text back, and then appends up to `most` others: next() tells each.
template <class P, class Next>
void change_text(P& processor, std::vector<specdec::Token>& text, std::uint64_t most, std::mt19937_64& rng,
                 const Next& next) {
  const auto back = std::min<specdec::Index>(static_cast<specdec::Index>(rng() % 3), std::ssize(text));
  processor.pop(back);
  text.resize(text.size() - static_cast<std::size_t>(back));
  for (std::uint64_t more = rng() % (most + 1); more > 0; --more) {
    text.push_back(next());
    processor.push(text.back());
  }
}

}  // namespace support
