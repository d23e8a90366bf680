// Files of heads and adapters: a header of 256 bytes, then weights in halves or in bytes. train/weight_file.py writes them.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "transformer/error.hpp"
#include "transformer/file.hpp"
#include "transformer/panels.hpp"

namespace transformer {

/// A file of a head or an adapter. It is read in this order: the words of the header, the matrices and vectors in their
/// order, then end().
///
///   version 1   all numbers are IEEE halves, matrices row by row
///   version 2   a row of a matrix is a half, the row's scale, and a signed byte for each number: number = scale · byte.
///               Vectors are halves
///
/// Throws: std::runtime_error from each function; the message begins with the file's name.
class WeightFile {
 public:
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  static constexpr std::size_t header = 256;
  static constexpr std::int32_t largest = 1 << 20;  ///< of a word: products of two cannot overflow

  /// `magic` and a version are what the file must begin with; `kind` is what such a file is, for the message.
  WeightFile(const std::string& path, std::uint32_t magic, const char* kind) : path_(path) {
    static_assert(std::endian::native == std::endian::little, "the file is little-endian");
    if (!read_file(path, bytes_)) refuse("cannot be read");
    if (bytes_.size() < header || static_cast<std::uint32_t>(at(0)) != magic || at(1) < 1 || at(1) > 2)
      refuse("is no ", kind, " of version 1 or 2");
  }

  /// Word number `i` of the header, which begins with magic and version.
  /// Throws: unless it is in least..most; the message calls it `name`.
  Index word(std::size_t i, const char* name, Index least = 1, Index most = largest) const {
    if (at(i) < least || at(i) > most) refuse(name, " = ", at(i), " is outside ", least, "..", most);
    return at(i);
  }

  /// Throws: unless the words of the header fit together.
  template <class... Words>
  void check(bool fit, const Words&... words) const {
    if (!fit) refuse(words...);
  }

  /// Throws: if a file of this size cannot hold so many numbers.
  void check_room(Index numbers) const {
    const auto least = header + static_cast<std::size_t>(numbers);  // a byte each
    if (bytes_.size() < least) refuse("expected ", least, " bytes or more, found ", bytes_.size());
  }

  /// The next matrix.
  Matrix matrix(Index rows, Index cols) {
    const bool scaled = at(1) == 2;
    need(rows * (scaled ? 2 + cols : 2 * cols));
    Matrix numbers(rows, cols);
    for (Index i = 0; i < rows; ++i) {
      const float scale = scaled ? half() : 1;
      for (float& number : numbers.row(i)) number = scaled ? scale * byte() : half();
    }
    return finite(std::move(numbers));
  }
  /// The next vector, as a matrix of one row.
  Matrix row(Index size) { return vector(size).head(size).matrix().transpose(); }
  template <class Scalar>
  Panels<Scalar> panels(Index rows, Index cols) {
    Panels<Scalar> panels(rows, cols);
    panels.set_rows(0, matrix(rows, cols));
    return panels;
  }
  /// The next vector, padded with zeros.
  Eigen::ArrayXf vector(Index size) {
    need(2 * size);
    Eigen::ArrayXf numbers = Eigen::ArrayXf::Zero(padded(size));
    for (float& number : numbers.head(size)) number = half();
    return finite(std::move(numbers));
  }

  /// Throws: unless all of the file was read.
  void end() const {
    if (bytes_.size() != at_) refuse("expected ", at_, " bytes, found ", bytes_.size());
  }

 private:
  std::int32_t at(std::size_t i) const {
    std::int32_t number = 0;
    std::memcpy(&number, bytes_.data() + 4 * i, 4);
    return number;
  }

  // Throws: unless the file has so many more bytes. It is asked before memory for them is.
  void need(Index more) const {
    const auto least = at_ + static_cast<std::size_t>(more);
    if (bytes_.size() < least) refuse("expected ", least, " bytes or more, found ", bytes_.size());
  }
  float half() {
    Eigen::half number;
    std::memcpy(&number, bytes_.data() + at_, 2);
    at_ += 2;
    return static_cast<float>(number);
  }
  float byte() { return static_cast<float>(static_cast<signed char>(bytes_[at_++])); }
  template <class Numbers>
  Numbers finite(Numbers numbers) const {
    if (!numbers.allFinite()) refuse("holds a weight that is not a finite number");
    return numbers;
  }

  template <class... Words>
  [[noreturn]] void refuse(const Words&... words) const {
    fail<std::runtime_error>(path_, ": ", words...);
  }

  std::string path_;
  std::vector<char> bytes_;
  std::size_t at_ = header;
};

}  // namespace transformer
