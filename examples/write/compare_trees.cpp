// How many tokens a target call emits with each kind of draft, on the shipped pair. All kinds meet the same places: those of texts
// that the target writes alone. At each place some drafts are made. What the rule accepts of a draft on average is computed, not
// counted, so the noise that is left is that of the places and of the drafts. The places are common to all kinds, so most of their
// noise cancels in the difference of two kinds.
//
//   compare_trees 60 2         60 places in each of 20 texts, 2 drafts of each kind at each place
//   compare_trees 60 2 sizes   trees of 4 to 32 tokens
//
// The weights are stored in half precision, so models that keep halves would give equal rows.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "generate/pair.hpp"
#include "generate/tree_shapes.hpp"
#include "paired/kinds.hpp"
#include "paired/places.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

using generate::Widths, paired::Kind, paired::Kinds, paired::Measured;
using specdec::Index, specdec::TreeShape;
using Tokens = std::vector<specdec::Token>;

// For each number of calls of the draft model: the line, and trees of about 16 tokens.
std::vector<Kind> by_calls(paired::Pair& pair) {
  Kinds kinds(pair);
  for (const Index calls : {2, 3, 4, 5}) {
    Widths widths{4, 1, 1, 1, 1};
    widths.resize(static_cast<std::size_t>(calls));
    const TreeShape shape = TreeShape::of_widths(widths);
    const std::string named = ' ' + generate::text_of(widths);
    kinds.line(calls);
    if (calls == 4) {
      kinds.spares({2, 1, 1, 1});
      kinds.spares({8, 4, 2, 2});
      kinds.drawn("`independent`" + named, shape, specdec::Independent{});
      kinds.drawn("`without-replacement`" + named, shape, specdec::WithoutReplacement{});
      kinds.likeliest("`likeliest`" + named, shape);
    }
    if (calls == 3 || calls == 4) kinds.drawn("`drawn-first`" + named, shape, specdec::DrawnThenLikeliest{});
    if (calls == 4)  // more below the likeliest token, the second child
      kinds.drawn("`drawn-first`, by hand", TreeShape{-1, -1, -1, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 10},
                  specdec::DrawnThenLikeliest{});
    if (calls < 5) kinds.confident(16, calls);
    kinds.drawn_confident(16, calls);
    kinds.sequoia(16, calls);
  }
  return std::move(kinds).list();
}

// Trees of four calls of the draft model, by their number of tokens.
constexpr Index sizes[] = {4, 8, 12, 16, 24, 32};
constexpr std::string_view families[] = {"`drawn-confident`", "sequoia", "`spares`", "`confident`"};

std::vector<Kind> by_size(paired::Pair& pair, std::string_view family) {
  Kinds kinds(pair);
  kinds.line(4);
  if (family == "`spares`")
    for (const Widths& widths :
         {Widths{1, 1, 1, 1}, {4, 2, 1, 1}, {6, 3, 2, 1}, {8, 4, 2, 2}, {12, 6, 3, 3}, {16, 8, 4, 4}})
      kinds.spares(widths);
  for (const Index nodes : sizes) {
    if (family == "`drawn-confident`") kinds.drawn_confident(nodes, 4);
    if (family == "sequoia") kinds.sequoia(nodes, 4);
    if (family == "`confident`") kinds.confident(nodes, 4);
  }
  return std::move(kinds).list();
}

// ---- The table ----------------------------------------------------------------------------------------

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// A mean over the places, with its standard error.
std::string with_error(const std::vector<double>& values, std::string_view plus = "") {
  const auto n = static_cast<double>(values.size());
  const double average = mean(values);
  double squares = 0;
  for (const double value : values) squares += std::pow(value - average, 2);
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << (average < -0.005 ? "−" : plus) << std::abs(average) << " ± "
       << std::sqrt(squares / (n * (n - 1)));
  return text.str();
}

// Tokens a target call; how many more than with the line; and, if that is wanted, how many times as many.
std::string cell(const Measured& kind, const Measured& line, bool ratio) {
  if (kind.tokens.empty()) return "–";
  if (&kind == &line) return with_error(kind.tokens);
  std::vector<double> more;
  for (std::size_t i = 0; i < kind.tokens.size(); ++i) more.push_back(kind.tokens[i] - line.tokens[i]);
  std::ostringstream text;
  text << with_error(kind.tokens) << ", " << with_error(more, "+");
  if (ratio) text << ", " << std::fixed << std::setprecision(2) << mean(kind.tokens) / mean(line.tokens);
  return text.str();
}

// What stands below the head of a table's column.
struct Column {
  std::string head;
  std::vector<std::string> cells;
  std::vector<double> drafted;  // tokens of a draft
};

// Each kind is compared with the last line before it.
Column column(const std::string& head, const std::vector<Kind>& kinds, const std::vector<paired::Text>& texts,
              Index drafts, bool ratios) {
  Column column{head, {}, {}};
  std::vector<Measured> all;
  for (const Kind& kind : kinds) all.push_back(kind.measure ? kind.measure(texts, drafts) : Measured{});
  for (std::size_t k = 0, line = 0; k < all.size(); ++k) {
    if (kinds[k].title == "a line") line = k;
    column.cells.push_back(cell(all[k], all[line], ratios));
    column.drafted.push_back(all[k].drafted);
  }
  return column;
}

void print(const std::string& head, const std::vector<std::string>& left,
           const std::vector<Column>& columns) {
  std::string rule;
  for (auto cells = 1 + std::ranges::count(head, '|') + std::ssize(columns); cells > 0; --cells)
    rule += " --- |";
  std::cout << "| " << head << " |";
  for (const Column& column : columns) std::cout << ' ' << column.head << " |";
  std::cout << "\n|" << rule << '\n';
  for (std::size_t k = 0; k < left.size(); ++k) {
    std::cout << "| " << left[k] << " |";
    for (const Column& column : columns) std::cout << ' ' << column.cells[k] << " |";
    std::cout << '\n';
  }
}

// ---- What is asked for --------------------------------------------------------------------------------

struct Work {
  std::shared_ptr<generate::Model> target, draft;
  std::vector<Tokens> prompts;
  Index places, drafts;
};

void compare_kinds(const Work& work) {
  std::vector<Column> columns;
  std::vector<std::string> left;
  std::vector<double> drafted;
  for (const double temperature : {0.0, 0.8, 1.0}) {
    paired::Pair pair(*work.target, *work.draft, temperature);
    const auto texts = paired::written(pair.target, work.prompts, work.places);
    const auto kinds = by_calls(pair);
    std::ostringstream head;
    head << "T = " << temperature;
    columns.push_back(column(head.str(), kinds, texts, work.drafts, true));
    drafted.resize(kinds.size());
    left.clear();
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      drafted[k] = std::max(drafted[k], columns.back().drafted[k]);  // 0 where there is no such kind
      left.push_back(std::to_string(kinds[k].calls) + " | " + kinds[k].title + " | " +
                     std::to_string(std::lround(drafted[k])));
    }
  }
  print("calls | draft | tokens", left, columns);
}

void compare_sizes(const Work& work) {
  paired::Pair pair(*work.target, *work.draft, 0.8);
  const auto texts = paired::written(pair.target, work.prompts, work.places);
  std::vector<Column> columns;
  for (const std::string_view family : families)
    columns.push_back(column(std::string(family), by_size(pair, family), texts, work.drafts, false));
  std::vector<std::string> left{"a line of 4"};
  for (const Index nodes : sizes) left.push_back(std::to_string(nodes));
  print("tokens", left, columns);
}

std::shared_ptr<generate::Model> model(const std::string& file) {
  return generate::erased(std::make_shared<transformer::Transformer<float>>(file));
}

int main(int count, char** arguments) {
  const Index places = count > 1 ? std::atoll(arguments[1]) : 1;
  const Index drafts = count > 2 ? std::atoll(arguments[2]) : 1;
  const std::string_view option = count > 3 ? arguments[3] : "";
  const bool by_sizes = option == "sizes";
  if (places < 1 || drafts < 1 || (!option.empty() && !by_sizes)) {
    std::cerr
        << "compare_trees: wanted are two positive numbers, of places and of drafts, and perhaps sizes\n";
    return 2;
  }
  const std::string weights = SPECDEC_EXAMPLES "/transformer/weights/";
  Work work{model(weights + "target.bin"), model(weights + "draft.bin"), {}, places, drafts};
  const transformer::Tokenizer tokenizer(weights + "tokenizer.bin", work.target->vocab_size());
  std::ifstream lines(SPECDEC_EXAMPLES "/data/prompts.txt");
  for (std::string line; std::getline(lines, line);) work.prompts.push_back(tokenizer.encode(line));
  if (by_sizes) compare_sizes(work);
  else compare_kinds(work);
}
