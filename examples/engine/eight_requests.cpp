// Eight requests in one batch, each with wishes of its own: stop strings, a grammar, a penalty, log-probabilities, a temperature.
// They come at different steps; one is paused and goes on later, one is cancelled. Each text is what its request gets alone.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/models/ngram.hpp>
#include <specdec/more/samplers.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using specdec::Index, specdec::Token;

// The tokens of this example are letters.
constexpr std::string_view rhyme =
    "This is the house that Jack built. This is the malt that lay in the house that Jack built. "
    "This is the rat that ate the malt that lay in the house that Jack built. "
    "This is the cat that killed the rat that ate the malt that lay in the house that Jack built. ";
std::vector<Token> letters(std::string_view text) { return {text.begin(), text.end()}; }
std::string bytes(Token x) { return std::string(1, static_cast<char>(x)); }

// Stands for an engine's model: it returns logits.
class Engine {
 public:
  explicit Engine(const specdec::NgramModel& model) : model_(model) {}
  Index vocab_size() const { return model_.vocab_size(); }
  const Eigen::MatrixXf& forward(std::span<const Token> tokens, Index rows) {
    logits_ = model_.forward(tokens, rows).array().log().cast<float>();
    return logits_;
  }
  void truncate(Index length) { model_.truncate(length); }

 private:
  specdec::NgramModel model_;
  Eigen::MatrixXf logits_;
};

// A grammar: the text is one of some answers. Without answers everything is allowed.
struct OneOf {
  std::vector<std::string> answers;
  std::string text = {};

  void allow(std::span<std::uint32_t> mask) const {
    for (std::uint32_t x = 0; x < 32 * mask.size(); ++x)
      if (OneOf(*this).advance(static_cast<Token>(x))) mask[x / 32] |= std::uint32_t{1} << (x % 32);
  }
  bool advance(Token x) {
    text += bytes(x);
    const auto begins = [&](const std::string& answer) { return answer.starts_with(text); };
    return answers.empty() || std::ranges::any_of(answers, begins);
  }
};

// What a request of the server says. The defaults switch everything off.
struct Job {
  int step;  // it comes before this step
  std::string prompt;
  specdec::Options options;
  double temperature = 1, penalty = 0;
  std::vector<std::string> answers = {};
};

const std::vector<Job> jobs{
    {0, "This is the", {.gamma = 6, .stop_tokens = {'.'}}},
    {0, "This is the", {.gamma = 6, .stop_strings = {{" killed", " lay"}, bytes}}},
    {0, "Who ate it? The", {.stop_tokens = {'.'}}, 1, 0, {" rat.", " cat.", " cat and the rat."}},
    {0, "This is the malt", {.max_new_tokens = 40, .gamma = 6}, 1, 0.7},
    {1, "This is the ", {.max_new_tokens = 3, .log_probabilities = {.processed = true, .top = 4}}},
    {1, "This is the rat", {.max_new_tokens = 40, .gamma = 6}},
    {2, "in the house", {.max_new_tokens = 200, .gamma = 6}},
    {4, "the cat", {.max_new_tokens = 40, .gamma = 6}, 0},
};
const Job& job(Index number) { return jobs[static_cast<std::size_t>(number)]; }

int main() {
  // Target and draft model ask for the temperature and the processors of each text, by its number.
  const auto chain_of = [](Index n) { return specdec::Chain{specdec::Temperature{job(n).temperature}}; };
  const auto processors_of = [](Index n) {
    return specdec::Processors{
        specdec::FrequencyPenalty{job(n).penalty, 20},  // of the last 20 tokens
        specdec::AfterPrompt{job(n).prompt.size(), specdec::Grammar{OneOf{job(n).answers}}}};
  };
  const auto model = specdec::NgramModel::train(letters(rhyme), {.order = 8, .vocab_size = 128});
  const auto processed = [&](const specdec::NgramModel& of) {
    return specdec::ProcessedModel{specdec::ModelPerSequence{Engine{of}}, chain_of, processors_of};
  };
  const auto new_batch = [&] {
    return specdec::Batch{processed(model), specdec::ModelDrafter{processed(model.with_order(3))}};
  };
  const auto add = [](auto& batch, Index number) {
    batch.add({.prompt = letters(job(number).prompt),
               .options = job(number).options,
               .source = std::mt19937_64{static_cast<unsigned>(number)},
               .number = number});
  };

  auto batch = new_batch();
  std::map<Index, specdec::Result> results;
  std::optional<decltype(batch)::Paused> paused;
  Index next = 0;
  for (int step = 0; next < std::ssize(jobs) || !batch.empty() || paused; ++step) {
    std::cout << "step " << step << ":";
    for (; next < std::ssize(jobs) && job(next).step <= step; ++next) {
      add(batch, next);
      std::cout << " " << next << " comes";
    }
    if (step == 3) {
      paused = batch.pause(5);  // with all that belongs to it
      std::cout << " 5 pauses";
    }
    if (step == 6) {
      batch.add(*std::exchange(paused, {}));  // its text goes on as if nothing had happened
      std::cout << " 5 goes on";
    }
    if (step == 8) {
      results[6] = batch.cancel(6);
      std::cout << " 6 is cancelled";
    }
    for (const specdec::Finished& done : batch.step()) {  // one call of the target for all that are here
      results[done.sequence] = done.result;
      std::cout << " " << done.sequence << (done.error ? " fails" : " ends");
    }
    std::cout << "\n";
  }

  Index different = 0;
  for (const auto& [number, result] : results) {
    std::cout << number << " " << job(number).prompt << "|" << result.text(bytes) << "| "
              << result.stop_reason << "\n";
    auto other = new_batch();
    add(other, number);
    std::vector<Token> alone = other.run().front().result.tokens;
    if (result.stop_reason == specdec::StopReason::callback)
      alone.resize(result.tokens.size());  // it was cancelled
    if (result.tokens != alone) ++different;
  }
  std::cout << "The first letter of 4 has log-probability " << results[4].log_probabilities[0]
            << ". Likeliest were";
  for (const auto& [token, value] : results[4].log_probabilities.top(0))
    std::cout << " " << bytes(token) << ": " << value;
  std::cout << "\nTexts that are not what they are alone: " << different << "\n";
  return different == 0 ? 0 : 1;
}
