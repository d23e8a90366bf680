// How laws become fractions, and what is refused.
// SPDX-License-Identifier: MIT
#include "laws.hpp"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cases.hpp"
#include "fraction.hpp"
#include "json.hpp"
#include "rows.hpp"
#include "support/catch.hpp"

namespace vectors_laws {

using namespace vectors;

namespace {

std::string found(double number) {
  const std::optional<Fraction> fraction = fraction_of(number);
  return fraction ? fraction->text() : "none";
}

// The last outcome has the rest of the probability.
Law law_of_parts(const std::vector<double>& parts) {
  Law law;
  double rest = 1;
  for (const double part : parts) {
    law[{{static_cast<Index>(law.size()), 0}}] = part;
    rest -= part;
  }
  law[{{static_cast<Index>(law.size()), 0}}] = rest;
  return law;
}

}  // namespace

TEST_CASE("the fraction of a number is found in spite of its rounding") {
  CHECK(found(0) == "0/1");
  CHECK(found(1) == "1/1");
  CHECK(found(1 - 0x1p-53) == "1/1");
  CHECK(found(1 + 0x1p-52) == "1/1");
  CHECK(found(1e-16) == "0/1");
  CHECK(found(0x1p-20) == "1/1048576");
  CHECK(found(1 - 0x1p-20) == "1048575/1048576");
  Numbers numbers(3);
  for (int n = 0; n < 2'000; ++n) {
    const std::int64_t denominator = 1 + below(largest_denominator, numbers),
                       numerator = below(denominator + 1, numbers), common = std::gcd(numerator, denominator);
    const double exactly = static_cast<double>(numerator) / static_cast<double>(denominator);
    for (const double rounded : {exactly, exactly * (1 - 0x1p-50), exactly * (1 + 0x1p-50)})
      CHECK(found(rounded) == Fraction{numerator / common, denominator / common}.text());
  }
}

TEST_CASE("a number that is no fraction with a small denominator has none") {
  for (const double number : {std::sqrt(0.5), std::exp(-1.0), 1 / 1048577.0, 0x1p-21, 0x1p-40, 1 - 0x1p-21,
                              1.0 / 3 + 1e-12, -0.5, 1.5, std::nan("")})
    CHECK(found(number) == "none");
}

TEST_CASE("a law is exact if all of its parts are, and sum to 1") {
  const auto thirds = exact(law_of_parts({1 / 3.0, 1 / 2.0}));
  REQUIRE(thirds);
  CHECK(thirds->size() == 3);
  CHECK(thirds->back().second.text() == "1/6");
  CHECK(exact(law_of_parts({1 / 3.0, 1e-17}))->size() == 2);  // what rounding has made possible
  CHECK(!exact(law_of_parts({std::sqrt(0.5)})));
  CHECK(!exact({{{{0, 0}}, 1 / 3.0}, {{{0, 1}}, 1 / 3.0}}));
  CHECK(!exact({{{{0, 0}}, 0.5}, {{{0, 1}}, 0.5 + 0x1p-20}}));
  CHECK(
      !sum_to_one({{1, 1048573}, {1048572, 1048573}, {1, 1048571}, {1, 1048569}}));  // no common denominator
}

TEST_CASE("a case whose law cannot be written is refused by its name") {
  const auto refused = [](Case of) {
    try {
      exact_law_of(of);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const Case right{"token/x", "", {{{1, 3}, {2, 2}}, {{3, 1}}, {0}}};
  CHECK(exact_law_of(right).size() == 3);
  CHECK(refused(right) == "nothing");
  Case of = right;
  of.drafted.target[0] = {1, 2};
  CHECK(refused(of) == "token/x: a row sums to 3, which is no power of two up to 2^20");
  of.drafted.target[0] = {-1, 5};
  CHECK(refused(of) == "token/x: a weight is negative");
  of.drafted.target[0] = {1, 2, 1};
  CHECK(refused(of) == "token/x: rows have different lengths");
  of = right;
  of.id = "tokens/x";
  CHECK(refused(of) == "tokens/x: there is no rule tokens");
  // p = 1/2^20, kept once in 2^19 times, and then one of 4 ids: a denominator of 2^21.
  of = right;
  of.drafted = {{{(1 << 20) - 1, 1, 0, 0}, {1, 1, 1, 1}}, {{1, 1, 0, 0}}, {1}};
  CHECK(refused(of) == "token/x: the law is not in fractions with denominators up to 2^20");
}

TEST_CASE("a table has a row for each context, the last token counting least") {
  const Table table{2, {{7, 1}, {1, 7}, {2, 6}, {6, 2}}};
  auto model = model_of(table);
  for (Token a = 0; a < 2; ++a)
    for (Token b = 0; b < 2; ++b)
      CHECK(model.distribution(std::vector<Token>{1, a, b}).probability(0) ==
            static_cast<double>(table.rows[static_cast<std::size_t>(2 * a + b)][0]) / 8);
  const auto refused = [](Writing writing) {
    try {
      check_rows({.id = "text/x", .shows = "a table", .writing = std::move(writing)});
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const Table flat{0, {{1, 1}}};
  CHECK(refused({table, flat, {0, 1}, 1, 2, {}}) == "nothing");
  CHECK(refused({table, flat, {0}, 1, 2, {}}) == "text/x: the prompt is shorter than the order of a table");
  CHECK(refused({{1, table.rows}, flat, {0, 1}, 1, 2, {}}) == "text/x: a table of order 1 has 4 rows");
}

TEST_CASE("numbers and texts are printed as JSON") {
  CHECK(json_probability(1) == "1");
  CHECK(json_probability(0.25) == "0.25");
  CHECK(json_probability(1 / 3.0) == "0.333333333");
  CHECK(json_probability(0x1p-10) == "0.000976563");  // half way, rounded up
  CHECK(json_probability(0x1p-10 - 1e-18) == "0.000976563");
  CHECK(json_probability(1e-12) == "0");
  CHECK(json_row({1, 0, 3}) == "[1, 0, 3]");
  CHECK(json_row(sparse(100, {{7, 3}, {99, 1}})) == R"({"ids": [7, 99], "weights": [3, 1]})");
  CHECK(json_row(chosen) == "null");
  CHECK(json_outcome({{2, 5}}, false) == "[2, 5]");
  CHECK(json_outcome({{}, {5}}, true) == "[[], 5]");
  CHECK(json_outcome({{0, 1}, {2, 0}}, false) == "[[0, 1], [2, 0]]");
  CHECK_THROWS_AS(json(std::string("\"")), std::runtime_error);
}

}  // namespace vectors_laws
