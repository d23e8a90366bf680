// Runs many sequences side by side: one call of the engine scores the drafts of all sequences.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <iostream>
#include <list>
#include <random>
#include <span>
#include <specdec/more/drafters.hpp>
#include <specdec/specdec.hpp>
#include <vector>

using specdec::Index, specdec::Token;

// Stands for a language model over the digits: x + 1 is the likeliest token after x.
Eigen::RowVectorXd after(Token last, double sharpness) {
  Eigen::RowVectorXd p(10);
  for (Token x = 0; x < 10; ++x) p[x] = std::exp(-sharpness * ((x - last + 9) % 10));
  return p / p.sum();
}

// Holds one context per slot, and extends all contexts in one call.
class Engine {
 public:
  explicit Engine(std::size_t slots) : contexts_(slots) {}

  // Cuts slot k to feeds[k].from tokens and appends feeds[k].tokens. Returns a row after each of the last feeds[k].rows
  // tokens of slot k.
  std::vector<Eigen::MatrixXd> forward(std::span<const specdec::Feed> feeds) {
    ++calls;
    std::vector<Eigen::MatrixXd> rows;
    for (std::size_t k = 0; k < feeds.size(); ++k) {
      const specdec::Feed& feed = feeds[k];
      contexts_[k].resize(static_cast<std::size_t>(feed.from));
      contexts_[k].insert(contexts_[k].end(), feed.tokens.begin(), feed.tokens.end());
      rows.emplace_back(feed.rows, 10);
      for (Index i = 0; i < feed.rows; ++i)
        rows[k].row(i) = after(*(contexts_[k].end() - feed.rows + i), 1.5);
    }
    return rows;
  }

  int calls = 0;

 private:
  std::vector<std::vector<Token>> contexts_;
};

// Each sequence has its own decoder and its own drafter. The target belongs to the engine.
struct Request {
  specdec::SpecDec<specdec::ExternalTarget, specdec::PromptLookupDrafter> decoder;
  decltype(decoder)::Sequence sequence;
  std::mt19937_64 rng;

  Request(Index vocabulary, const std::vector<Token>& prompt, const specdec::Options& options, unsigned seed)
      : decoder(specdec::ExternalTarget{.vocabulary = vocabulary}, specdec::PromptLookupDrafter{}),
        sequence(decoder.start(prompt, options)),
        rng(seed) {}
};

// Runs until all requests are done. Each round collects the drafts, calls the engine once, and gives each request its rows.
template <class Engine>
void run(Engine& engine, std::list<Request>& requests) {
  const auto done = [](const Request& request) { return request.sequence.done(); };
  while (!std::all_of(requests.begin(), requests.end(), done)) {
    std::vector<specdec::Feed> feeds;
    for (Request& request : requests) feeds.push_back(request.sequence.propose(request.rng));
    const auto rows = engine.forward(feeds);  // a finished request has an empty feed, and gets no rows
    auto row = rows.begin();
    for (Request& request : requests) request.sequence.accept(*row++, request.rng);
  }
}

int main() {
  std::list<Request> requests;
  requests.emplace_back(10, std::vector<Token>{0}, specdec::Options{.max_new_tokens = 30}, 1);
  requests.emplace_back(10, std::vector<Token>{5, 4},
                        specdec::Options{.max_new_tokens = 20, .stop_tokens = {3}}, 2);
  requests.emplace_back(10, std::vector<Token>{7}, specdec::Options{.max_new_tokens = 40, .gamma = 8}, 3);
  Engine engine(requests.size());
  run(engine, requests);

  // The next turn of the first conversation. Its context grows, and the engine keeps what it already holds.
  auto& first = requests.front().sequence;
  std::vector<Token> context(first.context().begin(), first.context().end());
  context.insert(context.end(), {9, 9, 9});
  first.resume(context, {.max_new_tokens = 10});
  run(engine, requests);

  Index emitted = 0;
  for (const Request& request : requests) {
    for (const Token x : request.sequence.tokens()) std::cout << x;
    std::cout << "\n";
    emitted += request.sequence.stats().emitted;
  }
  std::cout << emitted << " tokens of " << requests.size() << " sequences in " << engine.calls << " calls\n";
}
