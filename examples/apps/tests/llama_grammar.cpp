// examples/apps/llama_cpp/llama_grammar.hpp over a small fake of llama.cpp: the forbidden tokens, the rollback, and that every
// sampler is freed.
// SPDX-License-Identifier: MIT
#include "llama_cpp/llama_grammar.hpp"

#include <limits>
#include <random>
#include <span>
#include <specdec/more/drafters.hpp>
#include <specdec/more/samplers.hpp>
#include <string>
#include <vector>

#include "fake_llama.hpp"
#include "llama_cpp/llama_model.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/temporary_file.hpp"

namespace test_examples_llama_grammar {

using specdec::Index;
using Tokens = std::vector<specdec::Token>;

namespace {

LlamaWeights weights() {
  static const support::TemporaryFile file("GGUF");
  return LlamaWeights(file.path());
}

// The tokens that may come next.
std::string allowed(LlamaGrammar& grammar) {
  Eigen::RowVectorXf logits = Eigen::RowVectorXf::LinSpaced(fake_llama::vocab_size, 1, 2);
  const Eigen::RowVectorXf before = logits;
  grammar.apply(logits);
  std::string tokens;
  for (Index x = 0; x < logits.size(); ++x) {
    if (logits[x] == before[x]) tokens += static_cast<char>('0' + x);
    else CHECK(logits[x] == -std::numeric_limits<float>::infinity());
  }
  return tokens;
}

}  // namespace

TEST_CASE("a grammar of llama.cpp is a processor, which goes back by clones") {
  fake_llama::aborted = false;
  {
    LlamaGrammar grammar(weights(), "12*3");
    CHECK(allowed(grammar) == "1");
    CHECK(!grammar.push(3));
    CHECK(grammar.push(1));
    LlamaGrammar copy = grammar;
    CHECK(!copy.push(fake_llama::vocab_size));
    CHECK(!copy.push(-1));
    Eigen::RowVectorXf longer = Eigen::RowVectorXf::Ones(fake_llama::vocab_size + 2),
                       shorter = longer.head(3);
    copy.apply(longer);
    copy.apply(shorter);
    CHECK((longer.array() == 1).count() == 1);
    CHECK(longer[2] == 1);
    CHECK(shorter[2] == 1);
    CHECK(grammar.push(2));
    CHECK(allowed(grammar) == "01234");
    CHECK(grammar.push(0));
    CHECK(grammar.push(3));
    for (int n = 0; n < 100; ++n) CHECK(grammar.push(4));  // the end may repeat
    CHECK(allowed(grammar) == "4");
    CHECK(!grammar.push(0));
    grammar.pop(102);
    CHECK(allowed(grammar) == "01234");
    CHECK(allowed(copy) == "2");
    CHECK(support::message_of([] { LlamaGrammar(weights(), ""); }) == "llama.cpp cannot read the grammar");
    CHECK(support::message_of([] { LlamaGrammar(weights(), "*3"); }) ==
          "llama.cpp cannot read the grammar, or it forbids nothing");
  }
  CHECK(!fake_llama::aborted);
  CHECK(fake_llama::samplers == 0);
}

TEST_CASE("a text of a grammar of llama.cpp is what it is without drafts, and follows it") {
  fake_llama::aborted = false;
  const Tokens prompt{0, 3};
  {
    const LlamaGrammar grammar(weights(), "0***2**0***2*");
    const auto text = [&](auto drafter) {
      specdec::ProcessedModel target{LlamaModel(weights()), specdec::Chain{},
                                     specdec::AfterPrompt{2, grammar}};
      specdec::SpecDec decoder{std::move(target), drafter, specdec::ArgmaxVerifier{}};
      std::mt19937_64 rng{1};
      return decoder.generate(prompt, {.max_new_tokens = 20, .gamma = 3, .stop_tokens = {4}}, rng).tokens;
    };
    const Tokens alone = text(specdec::NoDrafter{});
    CHECK(alone[0] == 0);
    CHECK(text(specdec::PromptLookupDrafter{}) == alone);
    CHECK(text(specdec::ForcedTokens{specdec::AfterPrompt{2, grammar}, 5}) == alone);
  }
  CHECK(!fake_llama::aborted);
  CHECK(fake_llama::samplers == 0);
}

}  // namespace test_examples_llama_grammar
