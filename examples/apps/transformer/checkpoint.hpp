// Reads the checkpoints of llama2.c (https://github.com/karpathy/llama2.c): a header of seven numbers, then the
// weights of a Llama model, matrix after matrix, each row-major with one row per output.
//
//   legacy      28 bytes: dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len, each an int32;
//               a negative vocab_size says that the classifier has weights of its own.
//               Then float32; the tables of rotations among them are not needed.
//   version 1   256 bytes: the magic number "ak42", the version, the seven numbers, a byte that says whether
//               the classifier is the embedding, zeros. Then float32, the norms first.
//   version 16  as version 1 with every weight an IEEE half: this project's own.
//
// The file is read from front to back, a matrix at a time, rather than mapped into memory: the weights are put
// into another order anyhow (panels.hpp), and so no more than one matrix exists twice.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "transformer/attention.hpp"
#include "transformer/error.hpp"
#include "transformer/file.hpp"
#include "transformer/panels.hpp"
#include "transformer/shape.hpp"

namespace transformer {

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian");

/// The kind of a matrix in a checkpoint, with the names of the paper. w1, w2 and w3 are llama2.c's names of the feed-forward
/// matrices. A vector is a matrix of one row.
enum class Part {
  embedding,
  attention_norm,
  query,
  key,
  value,
  output,
  ffn_norm,
  w1,
  w2,
  w3,
  final_norm,
  rotations,
  classifier
};

class Checkpoint {
 public:
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  /// Reads and checks the header.
  /// Throws: std::runtime_error if the file cannot be read, is not a checkpoint, has an unknown version, has numbers that
  /// make no model, has a wrong size, or asks for a context with far more memory than the file's size. The message names
  /// the file, what was expected and what was found.
  explicit Checkpoint(const std::string& path) : path_(path), file_(path) {
    if (!file_) fail("cannot be read");
    file_size_ = static_cast<Index>(file_.size());
    read_header();
    check_shape();
    check_size();
    check_context();
  }

  const Shape& shape() const { return shape_; }

  /// Calls visit(part, layer, matrix) for every matrix of weights, in the file's order. The matrix lives until visit
  /// returns.
  /// Pre: it is called only once.
  /// Throws: std::runtime_error if the file cannot be read to its end or holds a number that is not finite.
  template <class Visit>
  void read(Visit&& visit) {
    std::vector<char> bytes;
    Matrix matrix;
    for (const Entry& entry : entries())
      for (Index layer = 0; layer < entry.copies; ++layer) {
        bytes.resize(static_cast<std::size_t>(entry.rows * entry.cols * scalar_size_));
        read_bytes(bytes.data(), bytes.size());
        if (entry.part == Part::rotations) continue;  // Rotation computes them
        matrix.resize(entry.rows, entry.cols);
        take(bytes, matrix);
        if (!matrix.allFinite()) fail("holds a weight that is not a finite number");
        visit(entry.part, layer, static_cast<const Matrix&>(matrix));
      }
  }

 private:
  static constexpr std::uint32_t magic = 0x616b3432;
  static constexpr Index legacy_header = 28, header = 256;

  struct Entry {
    Part part;
    Index copies, rows, cols;
  };

  template <class... Words>
  [[noreturn]] void fail(const Words&... words) const {
    transformer::fail<std::runtime_error>(path_, ": ", words...);
  }

  void read_bytes(char* bytes, std::size_t size) {
    if (!file_.read(bytes, size)) fail("cannot be read to its end");
  }

  void read_header() {
    if (file_size_ < legacy_header)
      fail("expected a header of ", legacy_header, " bytes, found a file of ", file_size_);
    std::array<char, header> bytes{};
    read_bytes(bytes.data(), legacy_header);
    const auto at = [&](std::size_t i) {
      std::int32_t number;
      std::memcpy(&number, bytes.data() + 4 * i, 4);
      return Index{number};
    };
    if (static_cast<std::uint32_t>(at(0)) != magic) {
      check_beginning(std::string_view(bytes.data(), 4));
      shape_ = {at(0), at(1), at(2), at(3), at(4), std::abs(at(5)), at(6), at(5) > 0};
      return;
    }
    version_ = at(1);
    if (version_ == 2) fail("version 2 (int8 groups) is not supported: export version 0 or 1");
    if (version_ != 1 && version_ != 16) fail("expected version 1 or 16, found ", version_);
    if (file_size_ < header) fail("expected a header of ", header, " bytes, found a file of ", file_size_);
    read_bytes(bytes.data() + legacy_header, header - legacy_header);
    shape_ = {at(2), at(3), at(4), at(5), at(6), at(7), at(8), bytes[36] != 0};
    scalar_size_ = version_ == 16 ? 2 : 4;
  }

  // The legacy format has no magic number: it begins with dim. But no dim is as large as four letters, read as a number. So
  // this finds texts, other formats that begin with their name, and zip archives, which PyTorch writes.
  void check_beginning(std::string_view bytes) const {
    const auto of_text = [](char c) {
      const auto byte = static_cast<unsigned char>(c);  // a byte of UTF-8 text
      return c == '\t' || c == '\n' || c == '\r' || (byte >= ' ' && byte != 0x7F && byte < 0xF8);
    };
    if (!std::ranges::all_of(bytes, of_text) && bytes != "PK\3\4") return;
    std::string shown(bytes);
    std::ranges::replace_if(
        shown, [](char c) { return c < ' ' || c > '~'; }, '.');
    fail("is no checkpoint of llama2.c: it begins with \"", shown, '"');
  }

  void check_shape() const {
    const auto positive = [&](std::string_view name, Index number) {
      if (number < 1) fail(name, " = ", number, " is not positive");
    };
    const Shape& s = shape_;
    positive("dim", s.dim);
    positive("hidden_dim", s.hidden_dim);
    positive("n_layers", s.n_layers);
    positive("n_heads", s.n_heads);
    positive("n_kv_heads", s.n_kv_heads);
    positive("vocab_size", s.vocab_size);
    positive("seq_len", s.context_size);
    if (s.dim % s.n_heads != 0) fail("dim = ", s.dim, " is no multiple of n_heads = ", s.n_heads);
    if (s.head_size() % 2 != 0)
      fail("dim / n_heads = ", s.head_size(), " is odd: there are no pairs to rotate");
    if (s.n_heads % s.n_kv_heads != 0)
      fail("n_heads = ", s.n_heads, " is no multiple of n_kv_heads = ", s.n_kv_heads);
    constexpr Index longest = Index{1} << 20;  // a model makes room for the whole context
    if (s.context_size > longest) fail("seq_len = ", s.context_size, " is more than ", longest);
  }

  // Sums in double first, because products of the numbers of a broken header may overflow an integer.
  void check_size() const {
    double about = 0;
    for (const Entry& e : entries())
      about += static_cast<double>(e.copies) * static_cast<double>(e.rows) * static_cast<double>(e.cols);
    if (about > static_cast<double>(file_size_))
      fail("expected about ", about * static_cast<double>(scalar_size_), " bytes for a model of ", shape_,
           ", found ", file_size_);
    Index expected = version_ == 0 ? legacy_header : header;
    for (const Entry& e : entries()) expected += e.copies * e.rows * e.cols * scalar_size_;
    if (file_size_ != expected)
      fail("expected ", expected, " bytes for a model of ", shape_, ", found ", file_size_);
  }

  // A model makes room for the whole context of the header, but the file holds nothing of that size. So a small broken file
  // could ask for all memory.
  void check_context() const {
    const Index room = padded(shape_.context_size) * numbers_a_position(shape_) * Index{sizeof(float)};
    const Index most = (Index{1} << 28) + 16 * file_size_;
    if (room > most)
      fail("seq_len = ", shape_.context_size, " asks for ", room,
           " bytes of keys, values and scores, more than ", most, " that a model of ", file_size_,
           " bytes may have");
  }

  // The matrices of the file, in its order. Each size is a product of at most two numbers, so it cannot overflow.
  std::vector<Entry> entries() const {
    const auto& [dim, hidden, layers, heads, kv_heads, vocab, context, shared, trained] = shape_;
    const Index kv_dim = shape_.kv_dim();
    const Entry embedding{Part::embedding, 1, vocab, dim}, final_norm{Part::final_norm, 1, 1, dim},
        attention_norm{Part::attention_norm, layers, 1, dim}, ffn_norm{Part::ffn_norm, layers, 1, dim},
        query{Part::query, layers, dim, dim}, key{Part::key, layers, kv_dim, dim},
        value{Part::value, layers, kv_dim, dim}, output{Part::output, layers, dim, dim},
        w1{Part::w1, layers, hidden, dim}, w2{Part::w2, layers, dim, hidden},
        w3{Part::w3, layers, hidden, dim}, rotations{Part::rotations, 2, context, shape_.head_size() / 2},
        classifier{Part::classifier, shared ? 0 : 1, vocab, dim};
    if (version_ == 0)
      return {embedding, attention_norm, query,     key,       value, output, ffn_norm, w1, w2,
              w3,        final_norm,     rotations, classifier};
    return {attention_norm, ffn_norm, final_norm, embedding, query, key,
            value,          output,   w1,         w2,        w3,    classifier};
  }

  void take(const std::vector<char>& bytes, Matrix& matrix) const {
    if (scalar_size_ == 4) {
      std::memcpy(matrix.data(), bytes.data(), bytes.size());
    } else {
      for (Index i = 0; i < matrix.size(); ++i) {
        Eigen::half number;
        std::memcpy(&number, bytes.data() + 2 * i, 2);
        matrix.data()[i] = static_cast<float>(number);
      }
    }
  }

  std::string path_;
  File file_;
  Index file_size_ = 0, version_ = 0, scalar_size_ = 4;
  Shape shape_;
};

}  // namespace transformer
