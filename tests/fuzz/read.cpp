// What the examples read from files: checkpoints, tokenizers, texts. A file is read as what it says, or refused with
// an error of the documented kind. Nothing is allocated just because a few bytes claim a size.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/bytes.hpp"
#include "fuzz/target.hpp"
#include "generate/ngram_pair.hpp"
#include "generate/svg.hpp"
#include "generate/utf8.hpp"
#include "support/temporary_file.hpp"
#include "transformer/checkpoint.hpp"
#include "transformer/shape.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"
#include "transformer/weights.hpp"

namespace {

using namespace fuzz;
using support::TemporaryFile;
using transformer::Checkpoint;
using transformer::Part;
using transformer::Shape;
using transformer::Tokenizer;

std::string text_of(Bytes& bytes) {
  std::string text;
  while (!bytes.empty()) text += static_cast<char>(bytes.byte());
  return text;
}

// Cuts off the end, adds bytes, or overwrites bytes or one of the numbers at the beginning. Returns whether it did.
bool damage(Bytes& bytes, std::string& file) {
  const Index kind = bytes.up_to(7);
  if (kind == 0) {
    file.resize(file.size() - std::min(file.size(), 1 + std::size_t{bytes.byte()}));
  } else if (kind == 1) {
    const std::size_t more = 1 + std::size_t{bytes.byte()};
    file.append(more, static_cast<char>(bytes.byte()));
  } else if (kind == 2) {
    for (Index n = bytes.up_to(7); n >= 0; --n) {
      const auto at = static_cast<std::size_t>(bytes.wide());
      file[at % file.size()] = static_cast<char>(bytes.byte());
    }
  } else if (kind == 3) {
    const auto at = static_cast<std::size_t>(4 * bytes.up_to(9));
    const Index number = bytes.flag() ? Index{1} << bytes.up_to(31) : bytes.size();
    const auto held = static_cast<std::int32_t>(number);
    std::memcpy(file.data() + at, &held, sizeof(held));
  }
  return kind <= 3;
}

// ---- Checkpoints

// The parameters of a checkpoint. All of them must be finite numbers.
Index parameters_in(Checkpoint& checkpoint) {
  Index count = 0;
  checkpoint.read([&](Part, Index layer, const Checkpoint::Matrix& matrix) {
    require(layer >= 0 && layer < checkpoint.shape().n_layers && matrix.allFinite());
    count += matrix.size();
  });
  return count;
}

// Checks that a model made from the checkpoint takes tokens: two, if its context is that long.
void run_model(const std::string& path, const Shape& shape) {
  transformer::Transformer<float> model(path);
  const std::vector<transformer::Token> tokens{0, static_cast<transformer::Token>(shape.vocab_size - 1)};
  const auto count = static_cast<std::size_t>(std::min<Index>(2, shape.context_size));
  require(model.forward(std::span(tokens).first(count), 1).cols() == shape.vocab_size);
}

void check_error(const std::runtime_error& error, const TemporaryFile& file) {
  require(std::string_view(error.what()).starts_with(file.path() + ": "));
}

// Whether the bytes are read as a checkpoint. A long context takes a fuzzer's time, so it is tried only now and then.
bool is_checkpoint(const std::string& bytes, bool any_context) {
  const TemporaryFile file(bytes);
  try {
    Checkpoint checkpoint(file.path());
    const Shape shape = checkpoint.shape();
    require(parameters_in(checkpoint) == shape.parameters());
    if (shape.context_size < 1000 || any_context) run_model(file.path(), shape);
  } catch (const std::runtime_error& error) {
    check_error(error, file);
    return false;
  }
  try {
    transformer::Weights<Eigen::half>::read(file.path());
  } catch (const std::runtime_error& error) {  // a weight may be too large for that
    check_error(error, file);
  }
  return true;
}

// The bytes of a model whose weights repeat a few numbers.
template <class Scalar>
std::string file_of(const Shape& shape, Index version, const std::vector<Scalar>& weights) {
  std::string file;
  if (version != 0) {
    support::append(file, std::uint32_t{0x616b3432});
    support::append(file, static_cast<std::int32_t>(version));
  }
  const bool negative = version == 0 && !shape.shared_classifier;
  for (const Index n : {shape.dim, shape.hidden_dim, shape.n_layers, shape.n_heads, shape.n_kv_heads,
                        negative ? -shape.vocab_size : shape.vocab_size, shape.context_size})
    support::append(file, static_cast<std::int32_t>(n));
  if (version != 0) {
    file += shape.shared_classifier ? '\1' : '\0';
    file.resize(256);
  }
  const Index rotations = version == 0 ? shape.context_size * shape.head_size() : 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape.parameters() + rotations); ++i)
    support::append(file, weights[i % weights.size()]);
  return file;
}

Shape shape_of(Bytes& bytes) {
  Shape shape;
  shape.n_kv_heads = 1 + bytes.up_to(2);
  shape.n_heads = shape.n_kv_heads * (1 + bytes.up_to(2));
  shape.dim = shape.n_heads * 2 * (1 + bytes.up_to(1));
  shape.hidden_dim = 1 + bytes.up_to(8);
  shape.n_layers = 1 + bytes.up_to(2);
  shape.vocab_size = 1 + bytes.up_to(17);
  shape.context_size = 1 + bytes.up_to(20);
  shape.shared_classifier = bytes.flag();
  return shape;
}

template <class Scalar>
void run_checkpoint(Bytes& bytes, Index version) {
  const Shape shape = shape_of(bytes);
  std::vector<Scalar> weights;
  bool finite = true;
  for (Index n = bytes.up_to(3); n >= 0; --n) {
    weights.push_back(static_cast<Scalar>(static_cast<float>(bytes.number())));
    finite = finite && std::isfinite(static_cast<float>(weights.back()));
  }
  std::string file = file_of(shape, version, weights);
  const bool damaged = damage(bytes, file), read = is_checkpoint(file, bytes.byte() == 255);
  require(damaged || read == finite);
}

// ---- Tokenizers

void append_piece(std::string& file, std::string_view piece, float score) {
  support::append(file, score);
  support::append(file, static_cast<std::int32_t>(piece.size()));
  file += piece;
}

// The control tokens and bytes at the beginning of every vocabulary.
std::string beginning_of_vocabulary() {
  std::string file;
  support::append(file, std::int32_t{10});
  for (const char* control : {"<unk>", "\n<s>\n", "\n</s>\n"}) append_piece(file, control, 0);
  constexpr std::string_view digits = "0123456789ABCDEF";
  for (std::size_t b = 0; b < 256; ++b)
    append_piece(file, std::string("<0x") + digits[b / 16] + digits[b % 16] + ">", 0);
  return file;
}

// A file of tokens: whether all scores are finite, and whether it may be another file or hold another number.
struct Vocabulary {
  std::string file;
  Index size = 259;
  bool finite = true, damaged = false;

  explicit Vocabulary(Bytes& bytes) {
    static const std::string beginning = beginning_of_vocabulary();
    file = beginning;
    for (Index n = bytes.up_to(40); n > 0; --n, ++size) {
      constexpr std::string_view letters = " ab\xC3\xA4\n";
      std::string piece;
      for (Index k = bytes.up_to(4); k > 0; --k) piece += letters[static_cast<std::size_t>(bytes.up_to(5))];
      const auto score = static_cast<float>(bytes.number());
      finite = finite && std::isfinite(score);
      append_piece(file, piece, score);
    }
    damaged = damage(bytes, file);
    if (bytes.up_to(15) != 15) return;
    size = bytes.flag() ? size + 1 : bytes.size();
    damaged = true;
  }
};

void run_tokenizer(Bytes& bytes) {
  const Vocabulary vocabulary(bytes);
  const TemporaryFile file(vocabulary.file);
  try {
    const Tokenizer tokenizer(file.path(), vocabulary.size);
    require(tokenizer.vocab_size() == vocabulary.size);
    const std::string text = text_of(bytes);
    const std::vector<Tokenizer::Token> tokens = tokenizer.encode(text);
    std::string back;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      require(tokens[i] >= 0 && tokens[i] < tokenizer.vocab_size());
      if (i > 0) back += tokenizer.decode(tokens[i - 1], tokens[i]);
    }
    require(vocabulary.damaged || (vocabulary.finite && back == text));
  } catch (const std::runtime_error& error) {
    require(vocabulary.damaged || !vocabulary.finite);
    check_error(error, file);
  }
}

void run_any_bytes(Bytes& bytes) {
  const Index vocab_size = bytes.flag() ? 259 : bytes.size();
  const std::string text = text_of(bytes);
  is_checkpoint(text, false);
  const TemporaryFile file(text);
  try {
    Tokenizer(file.path(), vocab_size);
    require(false);  // so few bytes are not a vocabulary
  } catch (const std::runtime_error&) {
  }
}

// ---- Texts

void run_ngrams(Bytes& bytes) {
  const Index order = bytes.size(), draft_order = bytes.size();
  const std::string text = text_of(bytes);
  const TemporaryFile file(text);
  try {
    const generate::Pair pair = generate::ngram_pair(file.path(), order, draft_order);
    require(order >= 1 && draft_order >= 1 && draft_order <= order && !text.empty());
    const generate::Tokens tokens = pair.encode(text);
    require(tokens.size() == text.size());
    const auto tail = std::span(tokens).last(std::min<std::size_t>(3, tokens.size()));
    for (generate::Model* model : {pair.target.get(), pair.draft.get()}) {
      const auto logits = model->forward(tail, 1);
      require(logits.cols() == 256 && logits.allFinite());
      require(std::abs(logits.cast<double>().array().exp().sum() - 1) < 1e-4);
    }
  } catch (const std::runtime_error&) {
    require(text.empty());
  } catch (const std::invalid_argument&) {
    require(order < 1 || draft_order < 1 || draft_order > order);
  }
}

// UTF-8 in pieces must give the characters of UTF-8 at once, must be valid, and must fit into a picture.
void run_characters(Bytes& bytes) {
  const std::uint8_t cut = bytes.byte();
  const std::string text = text_of(bytes);
  generate::WholeCharacters at_once, in_pieces;
  std::string whole = at_once.add(text), joined;
  whole += at_once.end();
  for (std::size_t i = 0; i < text.size(); i += 1 + cut % 5)
    joined += in_pieces.add(std::string_view(text).substr(i, 1 + cut % 5));
  joined += in_pieces.end();
  require(joined == whole);
  for (const std::string& characters : {whole, generate::xml_escaped(text)})
    for (std::string_view rest = characters; !rest.empty();) {
      const generate::FirstCharacter first = generate::first_character(rest);
      require(first.state == generate::FirstCharacter::State::whole);
      rest.remove_prefix(first.size);
    }
}

}  // namespace

void fuzz::read(std::span<const std::uint8_t> data) {
  Bytes bytes(data);
  switch (bytes.up_to(6)) {
    case 0:
      return run_checkpoint<float>(bytes, 0);
    case 1:
      return run_checkpoint<float>(bytes, 1);
    case 2:
      return run_checkpoint<Eigen::half>(bytes, 16);
    case 3:
      return run_tokenizer(bytes);
    case 4:
      return run_ngrams(bytes);
    case 5:
      return run_characters(bytes);
    default:
      return run_any_bytes(bytes);
  }
}
