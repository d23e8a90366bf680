// Files of heads: a header of 256 bytes, then IEEE half numbers. train/half_file.py writes them.
#pragma once

#include <Eigen/Core>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "transformer/error.hpp"
#include "transformer/panels.hpp"

namespace transformer {

/// A file of a head. It is read in this order: the words of the header, check_size(), then the matrices in their order.
/// Throws: std::runtime_error from each function; the message begins with the file's name.
class HalfFile {
 public:
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  static constexpr std::size_t header = 256;
  static constexpr std::int32_t largest = 1 << 20;  ///< of a word: products of two cannot overflow

  /// `magic` and version 1 are what the file must begin with; `kind` is what such a file is, for the message.
  HalfFile(const std::string& path, std::uint32_t magic, const char* kind) : path_(path) {
    static_assert(std::endian::native == std::endian::little, "the file is little-endian");
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    if (!file) refuse("cannot be read");
    if (bytes_.size() < header || static_cast<std::uint32_t>(at(0)) != magic || at(1) != 1)
      refuse("is no ", kind, " of version 1");
  }

  /// Word number `i` of the header, which begins with magic and version.
  /// Throws: unless it is in least..most; the message calls it `name`.
  Index word(std::size_t i, const char* name, Index least = 1, Index most = largest) const {
    if (at(i) < least || at(i) > most) refuse(name, " = ", at(i), " is outside ", least, "..", most);
    return at(i);
  }

  /// Throws: unless exactly `numbers` numbers follow the header.
  void check_size(Index numbers) const {
    const auto expected = header + 2 * static_cast<std::size_t>(numbers);
    if (bytes_.size() != expected) refuse("expected ", expected, " bytes, found ", bytes_.size());
  }

  /// The next matrix.
  /// Pre: check_size() has counted it.
  Matrix matrix(Index rows, Index cols) {
    Matrix numbers(rows, cols);
    for (Index i = 0; i < numbers.size(); ++i, at_ += 2) {
      Eigen::half number;
      std::memcpy(&number, bytes_.data() + at_, 2);
      numbers.data()[i] = static_cast<float>(number);
    }
    if (!numbers.allFinite()) refuse("holds a weight that is not a finite number");
    return numbers;
  }
  template <class Scalar>
  Panels<Scalar> panels(Index rows, Index cols) {
    Panels<Scalar> panels(rows, cols);
    panels.set_rows(0, matrix(rows, cols));
    return panels;
  }
  /// The next vector, padded with zeros.
  Eigen::ArrayXf vector(Index size) {
    Eigen::ArrayXf numbers = Eigen::ArrayXf::Zero(padded(size));
    numbers.head(size) = matrix(1, size).row(0).transpose().array();
    return numbers;
  }

 private:
  std::int32_t at(std::size_t i) const {
    std::int32_t number = 0;
    std::memcpy(&number, bytes_.data() + 4 * i, 4);
    return number;
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
