// Checkpoints of llama2.c: every format returns the weights that were written, and a broken file gives one line that says
// why.
// SPDX-License-Identifier: MIT
#include "transformer/checkpoint.hpp"

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "small_transformer.hpp"
#include "support/catch.hpp"
#include "transformer/weights.hpp"

namespace test_examples_checkpoint {

using support::RandomModel;
using support::TemporaryFile;
using transformer::Checkpoint;
using transformer::Part;
using transformer::Shape;

namespace {

const Shape small{24, 20, 2, 4, 2, 300, 24, true};

// The error of reading the bytes as a checkpoint, without the file name before it.
std::string error_of(const std::string& bytes) {
  const TemporaryFile file(bytes);
  const std::string message = support::message_of<std::runtime_error>([&] {
    Checkpoint checkpoint(file.path());
    checkpoint.read([](Part, Eigen::Index, const Checkpoint::Matrix&) {});
  });
  const std::string start = file.path() + ": ";
  return message.starts_with(start) ? message.substr(start.size()) : "unnamed: " + message;
}

// The bytes with the i-th int32 replaced.
std::string with_number(std::string bytes, std::size_t i, std::int32_t number) {
  std::memcpy(bytes.data() + 4 * i, &number, 4);
  return bytes;
}

}  // namespace

TEST_CASE("Checkpoint: every format holds the same model") {
  const bool shared = GENERATE(true, false);
  Shape shape = small;
  shape.shared_classifier = shared;
  const RandomModel model(shape, 1);
  for (const std::string& bytes :
       {model.legacy(), model.versioned<float>(), model.versioned<Eigen::half>()}) {
    const TemporaryFile file(bytes);
    Checkpoint checkpoint(file.path());
    const Shape& s = checkpoint.shape();
    CHECK(std::vector{s.dim, s.hidden_dim, s.n_layers, s.n_heads, s.n_kv_heads, s.vocab_size,
                      s.context_size} == std::vector<Eigen::Index>{24, 20, 2, 4, 2, 300, 24});
    CHECK(s.shared_classifier == shared);
    std::size_t parts = 0;
    checkpoint.read([&](Part part, Eigen::Index layer, const Checkpoint::Matrix& matrix) {
      ++parts;
      CHECK(matrix.cast<double>() == model.part(part, layer));
    });
    CHECK(parts == (shared ? 20 : 21));
  }
}

TEST_CASE("Checkpoint: a model too small or too large for its file") {
  const RandomModel model(small, 2);
  const std::string legacy = model.legacy(), one = model.versioned<float>(),
                    half = model.versioned<Eigen::half>();
  const std::string shape =
      " bytes for a model of dim 24, hidden 20, 2 layers, 4 heads, 2 kv heads, vocabulary 300, context 24, "
      "found ";
  for (const auto& [bytes, size] :
       {std::pair{legacy, legacy.size()}, {one, one.size()}, {half, half.size()}}) {
    const std::string expected = "expected " + std::to_string(size) + shape;
    CHECK(error_of(bytes) == "unnamed: ");
    CHECK(error_of(bytes + "x") == expected + std::to_string(size + 1));
    CHECK(error_of(bytes.substr(0, size - 1)) == expected + std::to_string(size - 1));
    CHECK(error_of(bytes + bytes) == expected + std::to_string(2 * size));
  }
  CHECK(legacy.size() == 28 + 4 * (300 * 24 + 2 * (24 + 576 + 288 + 288 + 576 + 24 + 3 * 480) + 24 + 24 * 6));
  CHECK(half.size() == 256 + 2 * (300 * 24 + 2 * (24 + 576 + 288 + 288 + 576 + 24 + 3 * 480) + 24));
}

TEST_CASE("Checkpoint: headers that are none") {
  const RandomModel model(small, 3);
  const std::string legacy = model.legacy(), one = model.versioned<float>();
  CHECK(error_of("") == "expected a header of 28 bytes, found a file of 0");
  CHECK(error_of(legacy.substr(0, 27)) == "expected a header of 28 bytes, found a file of 27");
  CHECK(error_of(one.substr(0, 255)) == "expected a header of 256 bytes, found a file of 255");
  CHECK(error_of(with_number(one, 1, 2)) ==
        "version 2 (int8 groups) is not supported: export version 0 or 1");
  CHECK(error_of(with_number(one, 1, 3)) == "expected version 1 or 16, found 3");
  CHECK(error_of(with_number(one, 1, 0)) == "expected version 1 or 16, found 0");
}

TEST_CASE("Checkpoint: files that are plainly something else") {
  const std::string model = RandomModel(small, 3).legacy(),
                    no = "is no checkpoint of llama2.c: it begins with ";
  const auto beginning = [&](const std::string& bytes) { return bytes + model.substr(bytes.size()); };
  CHECK(error_of(std::string(1000, 'a')) == no + "\"aaaa\"");
  CHECK(error_of(beginning("# A title\n\nand a text\n")) == no + "\"# A \"");
  CHECK(error_of(beginning("\r\n\t{")) == no + "\"...{\"");
  CHECK(error_of(beginning("\xC3\x9C"
                           "ber")) == no + "\"..be\"");
  CHECK(error_of(beginning("GGUF\3")) == no + "\"GGUF\"");
  CHECK(error_of(beginning("PK\3\4")) == no + "\"PK..\"");
  // These bytes could be a real dim, so the numbers are checked one by one.
  CHECK(error_of(beginning("PK\3\5"))
            .starts_with("expected about 1.69756e+17 bytes for a model of dim 84101968, "));
  CHECK(error_of(beginning(std::string("abc\0", 4))) == "dim = 6513249 is no multiple of n_heads = 4");
}

TEST_CASE("Checkpoint: numbers that make no model") {
  const RandomModel model(small, 4);
  const std::string legacy = model.legacy(), one = model.versioned<float>();
  const std::vector<std::string> names{"dim",        "hidden_dim", "n_layers", "n_heads",
                                       "n_kv_heads", "vocab_size", "seq_len"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    INFO(names[i]);
    CHECK(error_of(with_number(legacy, i, 0)) == names[i] + " = 0 is not positive");
    CHECK(error_of(with_number(one, i + 2, 0)) == names[i] + " = 0 is not positive");
    CHECK(error_of(with_number(one, i + 2, -7)) == names[i] + " = -7 is not positive");
    if (names[i] != "vocab_size")
      CHECK(error_of(with_number(legacy, i, -7)) == names[i] + " = -7 is not positive");
  }
  CHECK(error_of(with_number(one, 5, 5)) == "dim = 24 is no multiple of n_heads = 5");
  CHECK(error_of(with_number(one, 5, 24)) == "dim / n_heads = 1 is odd: there are no pairs to rotate");
  CHECK(error_of(with_number(one, 6, 3)) == "n_heads = 4 is no multiple of n_kv_heads = 3");
  CHECK(error_of(with_number(one, 8, 1 << 30)) == "seq_len = 1073741824 is more than 1048576");
}

TEST_CASE("Checkpoint: a context out of all proportion to the file is refused before there is room for it") {
  const auto error_at = [](const std::string& bytes, std::int32_t seq_len) {
    return error_of(with_number(bytes, 8, seq_len));
  };
  const auto refused = [](const std::string& bytes, const std::string& seq_len, const std::string& room) {
    return "seq_len = " + seq_len + " asks for " + room + " bytes of keys, values and scores, more than " +
           std::to_string((1 << 28) + 16 * bytes.size()) + " that a model of " +
           std::to_string(bytes.size()) + " bytes may have";
  };
  // Keys and values of 60 layers: 4 numbers each, padded to 16 in one of the two.
  const std::string deep = RandomModel(Shape{4, 4, 60, 1, 1, 10, 24, true}, 8).versioned<float>();
  CHECK(error_of(deep) == "unnamed: ");
  CHECK(error_at(deep, 1 << 15) == "unnamed: ");  // 160 MB
  CHECK(error_at(deep, 1 << 16) ==
        refused(deep, "65536", std::to_string(65536 * 4 * (60 * (4 + 16) + 16 + 4))));
  CHECK(error_at(deep, 1 << 20) == refused(deep, "1048576", "5117050880"));
  // The scores of 16 tokens for 100 heads with shared keys.
  const std::string wide = RandomModel(Shape{200, 4, 1, 100, 1, 10, 24, true}, 9).versioned<float>();
  CHECK(error_at(wide, 1 << 15) == "unnamed: ");  // 212 MB
  CHECK(error_at(wide, 1 << 16) ==
        refused(wide, "65536", std::to_string(65536 * 4 * (2 + 16 + 16 * 100 + 2))));
}

TEST_CASE("Checkpoint: sizes that no integer holds") {
  const RandomModel model(small, 5);
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max() - 1;
  std::string bytes = model.legacy();
  for (const std::size_t i : {0u, 1u, 2u, 5u}) bytes = with_number(bytes, i, most);
  bytes = with_number(with_number(bytes, 3, 2), 4, 1);
  CHECK(error_of(bytes) == "dim / n_heads = 1073741823 is odd: there are no pairs to rotate");
  bytes = with_number(bytes, 3, 1);
  CHECK(error_of(bytes).starts_with("expected about 2.77299e+29 bytes for a model of dim 2147483646, "));
  CHECK(error_of(with_number(model.legacy(), 5, std::numeric_limits<std::int32_t>::min()))
            .starts_with("expected about 4.12317e+11 bytes for a model of dim 24, "));
}

TEST_CASE("Checkpoint: files that cannot be read") {
  const std::string directory = std::filesystem::temp_directory_path().string();
  CHECK(support::message_of<std::runtime_error>([&] { Checkpoint{directory}; }) ==
        directory + ": cannot be read");
  CHECK(support::message_of<std::runtime_error>([] { Checkpoint{"no/such/file"}; }) ==
        "no/such/file: cannot be read");
}

TEST_CASE("Checkpoint: weights that are no finite numbers") {
  RandomModel model(small, 6);
  model.parts[Part::w2][1](3, 4) =
      GENERATE(std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity());
  for (const std::string& bytes : {model.legacy(), model.versioned<float>(), model.versioned<Eigen::half>()})
    CHECK(error_of(bytes) == "holds a weight that is not a finite number");
}

TEST_CASE("Weights: what is too large for a half") {
  RandomModel model(small, 7);
  const auto read = [&](double weight) {
    model.parts[Part::key][0](0, 0) = weight;
    const TemporaryFile file(model.versioned<float>());
    transformer::Weights<float>::read(file.path());
    return support::message_of<std::runtime_error>(
        [&] { transformer::Weights<Eigen::half>::read(file.path()); });
  };
  CHECK(read(-65519) == "");
  CHECK(read(-65520).ends_with(": holds a weight that is too large for half precision"));
}

}  // namespace test_examples_checkpoint
