// Files of heads: the numbers of both versions, and what is said of files that hold less or more.
// SPDX-License-Identifier: MIT
#include "transformer/weight_file.hpp"

#include <Eigen/Core>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "refusal.hpp"
#include "support/catch.hpp"
#include "support/temporary_file.hpp"

namespace test_examples_weight_file {

using transformer::Index;
using transformer::WeightFile;

namespace {

constexpr std::uint32_t magic = 0x74736574;

std::string header(std::int32_t version) {
  std::vector<std::int32_t> words(64);
  words[0] = magic;
  words[1] = version;
  return {reinterpret_cast<const char*>(words.data()), 256};
}
std::string halves(std::initializer_list<float> numbers) {
  std::string bytes;
  for (const float number : numbers) {
    const Eigen::half half(number);
    bytes.append(reinterpret_cast<const char*>(&half), 2);
  }
  return bytes;
}
std::string row_of_bytes(float scale, std::initializer_list<int> numbers) {
  std::string bytes = halves({scale});
  for (const int number : numbers) bytes += static_cast<char>(number);
  return bytes;
}

// Calls use(file) with a file of these bytes.
template <class Use>
void with_file(const std::string& bytes, const Use& use) {
  const support::TemporaryFile file(bytes);
  WeightFile opened(file.path(), magic, "test");
  use(opened);
}
template <class Use>
std::string refusal(const std::string& bytes, const Use& use) {
  return support::refusal(bytes, [&](const std::string& path) {
    WeightFile opened(path, magic, "test");
    use(opened);
  });
}

Eigen::MatrixXf matrix_of(std::initializer_list<std::initializer_list<float>> rows) {
  return WeightFile::Matrix(rows);
}

}  // namespace

TEST_CASE("version 1: halves, row by row") {
  with_file(header(1) + halves({1.5f, -2, 0.25f, 3, 4, -5, 7, 8}), [](WeightFile& file) {
    CHECK(file.matrix(2, 3) == matrix_of({{1.5f, -2, 0.25f}, {3, 4, -5}}));
    const Eigen::ArrayXf vector = file.vector(2);
    CHECK(vector.size() == 16);
    CHECK((vector[0] == 7 && vector[1] == 8 && vector.tail(14).isZero(0)));
    file.end();
  });
}

TEST_CASE("version 2: each row has a scale and bytes, and vectors are halves") {
  with_file(header(2) + row_of_bytes(0.5f, {1, -127, 127}) + row_of_bytes(2, {0, -1, 100}) + halves({7, 8}),
            [](WeightFile& file) {
              CHECK(file.matrix(2, 3) == matrix_of({{0.5f, -63.5f, 63.5f}, {0, -2, 200}}));
              CHECK(file.vector(2)[1] == 8);
              file.end();
            });
  with_file(header(2) + row_of_bytes(0.5f, {3, 4}) + row_of_bytes(1, {5, 6}), [](WeightFile& file) {
    const auto panels = file.panels<float>(2, 2);
    CHECK((panels.row(0)[0] == 1.5f && panels.row(1)[1] == 6));
  });
}

TEST_CASE("files that hold less or more, or what is no number") {
  const auto all = [](WeightFile& file) {
    file.matrix(1, 2);
    file.vector(1);
    file.end();
  };
  const std::string first = header(1) + halves({1, 2, 3}),
                    second = header(2) + row_of_bytes(1, {1, 2}) + halves({3});
  CHECK(refusal(first.substr(0, 259), all) == "expected 260 bytes or more, found 259");
  CHECK(refusal(first.substr(0, 261), all) == "expected 262 bytes or more, found 261");
  CHECK(refusal(first + "#", all) == "expected 262 bytes, found 263");
  CHECK(refusal(second.substr(0, 259), all) == "expected 260 bytes or more, found 259");
  CHECK(refusal(second + "##", all) == "expected 262 bytes, found 264");
  CHECK(refusal(first, [](WeightFile& file) { file.check_room(7); }) ==
        "expected 263 bytes or more, found 262");
  CHECK(refusal(first, [](WeightFile& file) {
          file.matrix(1 << 20, 1 << 20);
        }).starts_with("expected 2199023255808 "));
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::string& broken :
       {header(1) + halves({infinity, 2}), header(2) + row_of_bytes(infinity, {1, 2})})
    CHECK(refusal(broken, [](WeightFile& file) { file.matrix(1, 2); }) ==
          "holds a weight that is not a finite number");
  CHECK(refusal(header(3), all) == "is no test of version 1 or 2");
}

}  // namespace test_examples_weight_file
