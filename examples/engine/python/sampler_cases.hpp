// Small models on which a sampler is checked: a target and a drafter each, known exactly.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <utility>
#include <vector>

namespace sampler_check {

using specdec::Index, specdec::Token;
using Model = specdec::testing::TableModel<>;
using Generator = specdec::Philox;
using Row = Eigen::RowVectorXd;

struct Case {
  std::string name;
  Index gamma;
  Model target, draft;
};

// A random row in which no token of `ids` is rare, and all others have probability 0. Like the rows of Model::random, it has
// multiples of 2^-10, so that float32 holds it exactly, and p = q in one is p = q in the other.
inline Row spread(Index vocab_size, const std::vector<Token>& ids, Generator& generator) {
  const int least = 48, rest = 1024 - least * static_cast<int>(ids.size());
  std::vector<int> cuts{0, rest};
  while (cuts.size() <= ids.size()) cuts.push_back(static_cast<int>(specdec::uniform01(generator) * rest));
  std::sort(cuts.begin(), cuts.end());
  Row row = Row::Zero(vocab_size);
  for (std::size_t k = 0; k < ids.size(); ++k) row[ids[k]] = (least + cuts[k + 1] - cuts[k]) / 1024.;
  return row;
}

// A model with one such row for each text of up to `order` tokens. choose(V) names the tokens that the row has.
inline Model model(Index vocab_size, Index order, Generator& generator,
                   const std::function<std::vector<Token>(Index vocab_size)>& choose) {
  Index rows = 1;
  for (Index k = 0; k < order; ++k) rows *= vocab_size + 1;
  Model::Rows table(rows, vocab_size);
  for (Index i = 0; i < rows; ++i) table.row(i) = spread(vocab_size, choose(vocab_size), generator);
  return Model(std::move(table), order);
}

// The tokens first, first + step, ... of the vocabulary.
inline auto every(Token step, Token first) {
  return [=](Index vocab_size) {
    std::vector<Token> ids;
    for (Token x = first; x < vocab_size; x += step) ids.push_back(x);
    return ids;
  };
}

// The rows depend on all tokens before them, so a row of a wrong position is another row.
inline std::vector<Case> cases(std::uint64_t seed) {
  Generator generator(seed, 0, 1);
  const auto one = [&generator](Index vocab_size) {
    return std::vector<Token>{
        static_cast<Token>(specdec::uniform01(generator) * static_cast<double>(vocab_size))};
  };
  std::vector<Case> all;
  const auto random = [&](Index vocab_size, Index gamma) {
    all.push_back({"random rows with zeros", gamma, Model::random(vocab_size, gamma, generator),
                   Model::random(vocab_size, gamma, generator)});
  };
  const auto made = [&](const std::string& name, Index vocab_size, Index gamma, const auto& of_p,
                        const auto& of_q) {
    Model target = model(vocab_size, gamma, generator, of_p);
    all.push_back({name, gamma, std::move(target), model(vocab_size, gamma, generator, of_q)});
  };
  made("random rows without zeros", 3, 1, every(1, 0), every(1, 0));
  made("random rows without zeros", 3, 2, every(1, 0), every(1, 0));
  made("random rows without zeros", 3, 3, every(1, 0), every(1, 0));
  random(4, 1);
  random(3, 2);
  random(4, 2);
  random(3, 3);
  const Model both = model(3, 2, generator, every(1, 0));
  all.push_back({"p = q", 2, both, both});
  made("no token in common", 4, 2, every(2, 0), every(2, 1));
  made("q is 0 for half of the tokens", 4, 2, every(1, 0), every(2, 1));
  made("p is 0 for half of the tokens", 4, 2, every(2, 0), every(1, 0));
  made("p is one-hot", 3, 2, one, every(1, 0));
  made("q is one-hot", 3, 2, every(1, 0), one);
  return all;
}

}  // namespace sampler_check
