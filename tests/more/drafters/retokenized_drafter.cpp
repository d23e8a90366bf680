// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <exception>
#include <random>
#include <span>
#include <specdec/more/drafters/retokenized_drafter.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/bookkeeper.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/many_texts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/rules.hpp"

namespace test_more_drafters_retokenized_drafter {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

using Tokens = std::vector<Token>;

namespace {

// Takes the longest piece again and again, from the left or from the right. From the right, the end of a text
// influences all of its tokens. Bytes that are in no piece are left out.
struct Pieces {
  std::vector<std::string> pieces;
  bool from_the_right = false;

  std::string_view bytes(Token x) const { return pieces[static_cast<std::size_t>(x)]; }

  Tokens encode(std::string_view text) const {
    Tokens tokens;
    while (!text.empty()) {
      Token best = -1;
      std::size_t length = 0;
      for (std::size_t x = 0; x < pieces.size(); ++x)
        if (pieces[x].size() > length &&
            (from_the_right ? text.ends_with(pieces[x]) : text.starts_with(pieces[x]))) {
          best = static_cast<Token>(x);
          length = pieces[x].size();
        }
      if (best >= 0) tokens.push_back(best);
      const std::size_t taken = std::max<std::size_t>(1, length);
      if (from_the_right) text.remove_suffix(taken);
      else text.remove_prefix(taken);
    }
    if (from_the_right) std::ranges::reverse(tokens);
    return tokens;
  }
};

// The tokenizer of letters and runs of a and b. bytes is given by value and encode by a function.
auto tokenizer(Pieces pieces) {
  return TextTokenizer{[pieces](Token x) { return std::string(pieces.bytes(x)); },
                       [pieces](std::string_view text) { return pieces.encode(text); }};
}

const Pieces target_pieces{{"a", "b", "ab"}}, draft_pieces{{"a", "b", "ba"}};

using Tokenizer = decltype(tokenizer(Pieces{}));
static_assert(OneTextDrafter<RetokenizedDrafter<TableModel<>, Tokenizer, Tokenizer>>);

// Writes a fixed text byte by byte, whatever context it is fed, and counts the tokens that it is fed.
class Reciter {
 public:
  explicit Reciter(std::string text) : text_(std::move(text)), row_(256) {}
  Index vocab_size() const { return 256; }
  auto forward(std::span<const Token> tokens, Index) {
    fed += std::ssize(tokens);
    length_ += tokens.size();
    row_.setZero();
    row_[length_ < text_.size() ? static_cast<unsigned char>(text_[length_]) : 0] = 1;
    return Eigen::Map<const Eigen::RowVectorXd>(row_.data(), row_.size());
  }
  void truncate(Index length) { length_ = std::min(length_, static_cast<std::size_t>(length)); }
  Index fed = 0;

 private:
  std::string text_;
  Eigen::RowVectorXd row_;
  std::size_t length_ = 0;
};

const auto as_bytes =
    TextTokenizer{[](Token x) { return x == 0 ? std::string() : std::string(1, static_cast<char>(x)); },
                  [](std::string_view text) {
                    Tokens tokens;
                    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
                    return tokens;
                  }};

template <class Drafter>
Tokens propose(Drafter& drafter, const Tokens& context, Index gamma, std::mt19937_64& rng) {
  const auto draft = drafter.draft(std::span<const Token>(context), {.nodes = gamma}, rng);
  for (Index i = 0; i < draft.rows.rows(); ++i)
    CHECK(draft.rows.row(i).probability(draft.tokens[static_cast<std::size_t>(i)]) == 1);
  return {draft.tokens.begin(), draft.tokens.end()};
}

}  // namespace

TEST_CASE("drafts of a model with another tokenizer are lossless under every rule", "[law]") {
  std::mt19937_64 rng{21};
  for (const AnyVerifier& rule : rules_for_drafters) {
    INFO(rule.name());
    double difference = 0, accepted = 0, rejected = 0;
    for (int pair = 0; pair < 6; pair += support::every(6))
      for (Index gamma = 1; gamma <= (support::sanitized ? 2 : 3); ++gamma) {
        auto target = TableModel<>::random(3, 2, rng);
        Pieces pieces = target_pieces, others = draft_pieces;
        pieces.from_the_right = pair % 3 == 1;
        others.from_the_right = pair % 3 == 2;
        SpecDec decoder{target,
                        RetokenizedDrafter{TableModel<>::random(3, 1, rng), tokenizer(pieces),
                                           tokenizer(others), pair % 2 == 0 ? unlimited : 1},
                        for_loops(rule)};
        const Options options{.max_new_tokens = 4, .gamma = gamma};
        const Tokens prompt{0, 1};
        const GenerationLaw got = enumerate_generate(decoder, prompt, options);
        difference =
            std::max(difference, largest_difference(got.law, target_law(target, prompt, options)).size);
        accepted += got.accepted;
        rejected += got.drafted - got.accepted;
      }
    CHECK(difference < 1e-12);
    CHECK(accepted > 1);
    CHECK(rejected > 1);
  }
}

namespace {

std::string text_of(const Pieces& pieces, const Tokens& tokens) {
  std::string text;
  for (const Token x : tokens) text += pieces.bytes(x);
  return text;
}

// The definition: encode all text anew, write as many bytes as γ tokens of the text have, and encode everything again.
Tokens by_encoding_all(const TableModel<>& model, const Pieces& target, const Pieces& draft,
                       const Tokens& context, Index gamma) {
  const std::string text = text_of(target, context);
  const double bytes = static_cast<double>(gamma * std::ssize(text)) / static_cast<double>(context.size());
  Tokens read = draft.encode(text);
  std::string all = text;
  while (static_cast<double>(all.size() - text.size()) < bytes) {
    Token best = 0;
    const auto row = model.distribution(read);
    for (Token d = 1; d < row.vocab_size(); ++d)
      if (row.probability(d) > row.probability(best)) best = d;
    read.push_back(best);
    all += draft.bytes(best);
  }
  Tokens proposed;
  std::size_t at = 0;
  for (const Token x : target.encode(all)) {
    if (at >= text.size() && std::ssize(proposed) < gamma) {
      if (at > text.size() && proposed.empty()) return {};
      proposed.push_back(x);
    }
    at += target.bytes(x).size();
  }
  return proposed;
}

// A model with one-hot rows, so its text is known.
TableModel<> decided(Index vocab_size, Index order, std::mt19937_64& rng) {
  auto model = TableModel<>::random(vocab_size, order, rng);
  Index states = 1;
  for (Index k = 0; k < order; ++k) states *= vocab_size + 1;
  TableModel<>::Rows table = TableModel<>::Rows::Zero(states, vocab_size);
  for (Index i = 0; i < states; ++i)
    table(i, static_cast<Index>(uniform01(rng) * static_cast<double>(vocab_size))) = 1;
  return TableModel<>(table, order);
}

}  // namespace

TEST_CASE("a text is encoded from its first byte to its last, as a whole or where it has changed") {
  auto pieces = tokenizer(draft_pieces);
  specdec::detail::EncodedText encoded;
  std::string before;
  for (const std::string text : {"bab", "babba", "babaa", "ab", "ba", ""}) {
    const auto same = std::ranges::mismatch(text, before).in1 - text.begin();
    encoded.encode(text, static_cast<std::size_t>(same), 2, pieces, 3);
    CHECK(std::ranges::equal(encoded.tokens(), draft_pieces.encode(text)));
    before = text;
  }
}

TEST_CASE("while the text grows and is cut, proposals equal those made by encoding all of it anew") {
  std::mt19937_64 rng{22};
  int proposed = 0, nothing = 0;
  const std::vector<Pieces> tokenizers{
      {{"a", "b", "ab", "aab", "bb"}}, {{"b", "a", "ba", "abb"}}, {{"a", "b", "aa", "bab"}, true}};
  for (std::size_t n = 0; n < 9; ++n) {
    const Pieces &target = tokenizers[n % 3], &draft = tokenizers[n / 3];
    const auto model = decided(std::ssize(draft.pieces), 3, rng);
    RetokenizedDrafter drafter{TableModel<>(model), tokenizer(target), tokenizer(draft), unlimited};
    Tokens text{0};
    for (int step = 0; step < 60; ++step) {
      const Tokens found = propose(drafter, text, 3, rng);
      CHECK(found == by_encoding_all(model, target, draft, text, 3));
      proposed += static_cast<int>(found.size());
      nothing += found.empty();
      const auto kept = static_cast<std::size_t>(uniform01(rng) * static_cast<double>(found.size() + 1));
      text.insert(text.end(), found.begin(), found.begin() + static_cast<std::ptrdiff_t>(kept));
      if (uniform01(rng) < 0.2 && text.size() > 4) text.resize(text.size() - 3);
      drafter.truncate(std::ssize(text));
      if (uniform01(rng) < 0.1) continue;
      text.push_back(static_cast<Token>(uniform01(rng) * static_cast<double>(target.pieces.size())));
    }
  }
  CHECK(proposed > 300);
  CHECK(nothing > 20);
}

namespace {

// A tokenizer of letters that cannot be copied, and counts what it encodes.
struct Uncopyable {
  mutable int encoded = 0;
  explicit Uncopyable() = default;
  Uncopyable(Uncopyable&&) = default;
  std::string bytes(Token x) const { return std::string(1, static_cast<char>(x)); }
  Tokens encode(std::string_view text) const {
    ++encoded;
    return {text.begin(), text.end()};
  }
};

}  // namespace

TEST_CASE("a tokenizer that has a name is referred to, and a temporary is moved in") {
  std::mt19937_64 rng{24};
  const Uncopyable target;
  RetokenizedDrafter drafter{Reciter("abcdef"), target, Uncopyable{}};
  CHECK(propose(drafter, {'a', 'b'}, 2, rng) == Tokens{'c', 'd'});
  CHECK(target.encoded > 0);
}

TEST_CASE("a proposal begins where the committed text ends, and has whole characters only") {
  std::mt19937_64 rng{23};
  const Pieces words{{"", "the", " c", "at", " cat", " s", " sat", "\xC3", "\xA9", "\xC3\xA9", "x"}};
  const auto proposed = [&](const char* text, const Tokens& context, Index gamma) {
    RetokenizedDrafter drafter{Reciter(text), tokenizer(words), as_bytes};
    return propose(drafter, context, gamma, rng);
  };
  CHECK(proposed("the cat sat", {0, 1}, 3) == Tokens{4, 6});
  CHECK(proposed("the cat sat", {0, 1}, 1) == Tokens{2});  // three bytes long, as the token before it
  CHECK(proposed("the cat sat", {1, 2}, 3).empty());       // " cat" is one token
  CHECK(proposed("the cat sat", {1, 2, 3}, 1) == Tokens{5});
  CHECK(proposed("the c\xC3\xA9 sat", {1, 2}, 1) == Tokens{9});
  CHECK(proposed("the\xC3\xA9 cat", {1, 7}, 2)
            .empty());  // half a character: its other half is in one token with it
  // The model goes on as if the half character were not there.
  CHECK(proposed("thex cat sat", {1, 7}, 3).empty());
  CHECK(proposed("the cat", {1}, 0).empty());
  CHECK(proposed("the cat", {0}, 2).empty());  // there is no text yet
}

TEST_CASE("half a character at the end of a text is told apart from whole ones and from invalid bytes") {
  const auto whole = [](std::string_view text) { return specdec::detail::whole_characters(text); };
  const std::string_view euro = "a\xE2\x82\xAC", clef = "a\xF0\x9D\x84\x9E";
  CHECK(whole("") == 0);
  CHECK(whole("ab") == 2);
  for (std::size_t size = 1; size <= 4; ++size) CHECK(whole(euro.substr(0, size)) == (size == 4 ? 4 : 1));
  for (std::size_t size = 1; size <= 5; ++size) CHECK(whole(clef.substr(0, size)) == (size == 5 ? 5 : 1));
  CHECK(whole("\xC3\xA9") == 2);
  CHECK(whole("\xA9\xA9\xA9\xA9") == 4);
}

TEST_CASE("the model is fed only new tokens, and the window after a cut") {
  std::mt19937_64 rng{24};
  const Pieces words{{"abc", "def", "ghi", "jkl"}};
  Reciter model("abcdefghijkl");
  RetokenizedDrafter drafter{model, tokenizer(words), as_bytes, 4};
  CHECK(propose(drafter, {0}, 2, rng) == Tokens{1, 2});
  CHECK(model.fed == 3 + 5);  // the text, and all that it wrote except the last byte
  drafter.truncate(3);
  CHECK(propose(drafter, {0, 1, 2}, 1, rng) == Tokens{3});
  CHECK(model.fed == 8 + 1 + 2);
  drafter.truncate(1);
  CHECK(propose(drafter, {0, 2}, 1, rng) == Tokens{2});  // it recites whatever it is fed
  CHECK(model.fed == 11 + 3 + 2);
  drafter.truncate(0);
  CHECK(propose(drafter, {0}, 1, rng) == Tokens{1});
  CHECK(model.fed == 16 + 3 + 2);
}

TEST_CASE(
    "encoders are shown texts that begin with a whole token and a whole character, however small the "
    "window") {
  std::mt19937_64 rng{26};
  int shown = 0, amid = 0;
  // Both tokenizers have a token for each byte; in this one every token is a byte.
  const auto watched = TextTokenizer{as_bytes.bytes, [&](std::string_view text) {
                                       ++shown;
                                       amid += !text.empty() && (text.front() & 0xC0) == 0x80;
                                       return as_bytes.encode(text);
                                     }};
  const std::string text = "na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x90\x8B\xE2\x82\xAC\xC3\xA9 end";
  for (const Index window : {0, 1, 2, 5}) {
    RetokenizedDrafter drafter{Reciter(text), watched, watched, window};
    Tokens context;
    for (const char byte : text) {
      context.push_back(static_cast<unsigned char>(byte));
      propose(drafter, context, 2, rng);
    }
    for (std::size_t size = context.size(); size > 1; size -= 2) {  // and back again
      drafter.truncate(static_cast<Index>(size) - 2);
      context.resize(size);
      propose(drafter, context, 2, rng);
    }
  }
  CHECK(shown > 100);
  CHECK(amid == 0);
}

TEST_CASE("what an encoder that throws has left is not taken for the text") {
  std::mt19937_64 rng{28};
  const Pieces words{{"abc", "def", "ghi", "jkl"}};
  bool fails = false;
  const auto failing = TextTokenizer{as_bytes.bytes, [&](std::string_view text) {
                                       if (fails) throw std::runtime_error("an encoder");
                                       return as_bytes.encode(text);
                                     }};
  RetokenizedDrafter drafter{Reciter("abcdefghijkl"), tokenizer(words), failing, 4};
  CHECK(propose(drafter, {0, 1}, 1, rng) == Tokens{2});
  fails = true;
  CHECK_THROWS_AS(propose(drafter, {0, 1, 2}, 1, rng), std::runtime_error);
  fails = false;
  drafter.truncate(2);
  CHECK(propose(drafter, {0, 1}, 1, rng) == Tokens{2});
  CHECK(propose(drafter, {0, 1, 2}, 1, rng) == Tokens{3});
}

TEST_CASE("the draft model draws with the numbers of the places where its tokens would stand") {
  const Pieces letters{{"a", "b"}};
  const Eigen::RowVector2d even(0.5, 0.5);
  RetokenizedDrafter drafter{TableModel<>::context_free(even), tokenizer(letters), tokenizer(letters)};
  const Tokens context{0, 1, 1};
  Keyed keyed{27}, expected{27, std::ssize(context)};
  const auto draft = drafter.draft(std::span<const Token>(context), {.nodes = 20}, keyed);
  REQUIRE(draft.tokens.size() == 20);
  for (const Token x : draft.tokens) CHECK(x == expected.draw(distributions(even).row(0)));
  CHECK(keyed.position() == std::ssize(context));  // another drafter may draft in place of this one
}

TEST_CASE(
    "in a batch, a model of another tokenizer drafts for all texts together, for each what it would draft "
    "alone") {
  std::mt19937_64 rng{29};
  const auto target = TableModel<>::random(3, 2, rng), small = TableModel<>::random(3, 1, rng);
  const auto drafter_of = [&](auto&& model) {
    return RetokenizedDrafter{std::forward<decltype(model)>(model), tokenizer(target_pieces),
                              tokenizer(draft_pieces), 2};
  };
  Bookkeeper many(small);
  static_assert(specdec::Drafter<decltype(drafter_of(many))>);
  {
    Batch batch{Bookkeeper(target), drafter_of(many), BlockVerifier{}};
    check_texts_alone(batch, [&] {
      return SpecDec{TableModel<>(target), drafter_of(TableModel<>(small)), BlockVerifier{}};
    });
  }
  CHECK(many.contexts.empty());

  // One call of the model for a token of each text; nothing is fed twice.
  const Tokens prompt(50, 1);
  const Options options{.max_new_tokens = 30, .gamma = 3};
  Index calls[2], fed[2];
  for (const bool five : {false, true}) {
    Bookkeeper model(small);
    Batch batch{Bookkeeper(target), drafter_of(model), BlockVerifier{}};
    for (int text = 0; text < (five ? 5 : 1); ++text) batch.add(prompt, options, std::mt19937_64{7});
    batch.run();
    calls[five] = model.calls, fed[five] = model.fed;
  }
  CHECK(calls[true] == calls[false]);
  CHECK(fed[true] == 5 * fed[false]);
  CountingModel counting{small};
  SpecDec alone{TableModel<>(target), drafter_of(counting), BlockVerifier{}};
  std::mt19937_64 generator(7);
  alone.generate(prompt, options, generator);
  CHECK(fed[false] == counting.fed);
}

TEST_CASE("samples of one prompt are read once in another tokenizer's tokens, too") {
  std::mt19937_64 rng{29};
  const auto target = TableModel<>::random(3, 2, rng), small = TableModel<>::random(3, 1, rng);
  const Tokens prompt(500, 1);
  for (const Index most :
       {unlimited, Index{50}})  // with little room the target has read the prompt before the first draft
    for (const int steps : {0, 2}) {
      std::map<Index, Tokens> texts[2];
      Index fed[2];
      for (const bool copied : {false, true}) {
        ForkingBookkeeper model(small);
        model.refuses = !copied;
        Batch batch{ForkingBookkeeper(target),
                    RetokenizedDrafter{model, tokenizer(target_pieces), tokenizer(draft_pieces), 2},
                    BlockVerifier{}, BatchOptions{.tokens_per_call = most}};
        const Index first = batch.add(prompt, {.max_new_tokens = 30, .gamma = 3}, std::mt19937_64{0});
        while (batch.sequence(first).stats().target_calls < steps) batch.step();
        for (std::uint64_t seed = 1; seed < 4; ++seed) batch.fork(first, std::mt19937_64{seed});
        for (const Finished& done : batch.run()) {
          REQUIRE_FALSE(done.error);
          texts[copied][done.sequence] = done.result.tokens;
        }
        fed[copied] = model.fed;
        CHECK(model.contexts.empty());
      }
      CHECK(texts[true].size() == 4);
      CHECK(texts[true] == texts[false]);
      CHECK(fed[true] < fed[false] / 2);
    }
}

TEST_CASE("a text that cannot be encoded costs only its own retokenized draft") {
  const auto pieces = tokenizer(target_pieces);
  const auto model = TableModel<>::context_free(Eigen::RowVector2d(0.5, 0.5));
  RetokenizedDrafter drafter{Bookkeeper(model), pieces, pieces};
  RetokenizedDrafter alone{TableModel<>(model), pieces, pieces};
  const Tokens contexts[] = {{1, 1}, {1, 0, 1}, {}, {1}};
  std::vector<std::mt19937_64> rngs(4, std::mt19937_64(3));
  std::vector<DraftRequest<std::mt19937_64>> requests;
  for (std::size_t n = 0; n < 4; ++n)
    requests.push_back({.sequence = static_cast<Index>(n),
                        .context = contexts[n],
                        .limits = {.nodes = 3},
                        .source = &rngs[n]});
  drafter.draft(std::span(requests));
  CHECK(message_of([&] { std::rethrow_exception(requests[1].error); }) ==
        "specdec: encoded[1] = 2 is outside the vocabulary 0..1");
  CHECK(requests[2].error);
  for (const std::size_t n : {0u, 3u}) {
    CHECK_FALSE(requests[n].error);
    const auto draft = drafter.drafted(static_cast<Index>(n));
    std::mt19937_64 rng(3);
    alone.truncate(0);
    CHECK(Tokens(draft.tokens.begin(), draft.tokens.end()) == propose(alone, contexts[n], 3, rng));
    CHECK(draft.tokens.size() > 0);
  }
}

TEST_CASE("arguments that no retokenized draft can be made with are named in the error") {
  std::mt19937_64 rng{25};
  const auto pieces = tokenizer(target_pieces);
  const auto model = [] { return TableModel<>::context_free(Eigen::RowVector2d(0.5, 0.5)); };
  CHECK(message_of([&] { RetokenizedDrafter(model(), pieces, pieces, -1); }) ==
        "specdec: window = -1 is negative");
  RetokenizedDrafter drafter{model(), pieces, pieces};
  CHECK(message_of([&] {
          propose(drafter, {1, 0, 1}, 2, rng);
        }) == "specdec: encoded[1] = 2 is outside the vocabulary 0..1");
  CHECK(propose(drafter, {1}, 1, rng).size() == 1);  // nothing is left of the failed request
  CHECK_FALSE(message_of([&] { propose(drafter, {}, 2, rng); }).empty());
  RetokenizedDrafter bounded{BoundedModel(model(), 3), pieces, pieces};
  CHECK(propose(bounded, {0, 0}, 9, rng).size() <= 2);
  CHECK(propose(bounded, {0, 0, 0, 0}, 9, rng).empty());
}

}  // namespace test_more_drafters_retokenized_drafter
