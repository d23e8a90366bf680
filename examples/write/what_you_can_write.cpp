// The least of each type that you can write, and one use of each: see what_you_can_write.md.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>
#include <span>
#include <specdec/more/drafters.hpp>
#include <specdec/more/heads/eagle_model.hpp>
#include <specdec/more/heads/head_model.hpp>
#include <specdec/more/ranks.hpp>
#include <specdec/more/samplers.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <vector>

using specdec::Index, specdec::Token;

// ---- Models. All of them find all of their four tokens equally likely. ----

struct MyModel {
  Index vocab_size() const { return 4; }
  Eigen::MatrixXf forward(std::span<const Token> tokens, Index rows) {
    cached += std::ssize(tokens);
    return Eigen::MatrixXf::Constant(rows, 4, 0.25f);  // a row after each of the last `rows` tokens
  }
  void truncate(Index length) { cached = std::min(cached, length); }  // nothing, if the context is not longer
  Index cached = 0;
};

struct MyTreeModel : MyModel {
  using MyModel::forward;
  Eigen::MatrixXf forward(std::span<const Token> /*tokens*/, std::span<const Index> /*parents*/, Index rows) {
    return Eigen::MatrixXf::Constant(rows, 4, 0.25f);
  }
  void keep(std::span<const Index> path) { cached += std::ssize(path); }
};

struct MyModelForMany {
  Index vocab_size() const { return 4; }
  Eigen::MatrixXf forward(std::span<const specdec::BatchFeed> feeds) {
    Index rows = 0;
    for (const specdec::BatchFeed& feed : feeds) rows += feed.rows;
    return Eigen::MatrixXf::Constant(rows, 4, 0.25f);  // feed after feed
  }
  void keep(Index /*sequence*/, Index /*length*/) {}
  void release(Index /*sequence*/) {}
};

struct MyModelWithHidden : MyModel {
  Index length() const { return cached; }
  Eigen::VectorXf hidden() const { return hidden_at(cached - 1); }  // after the last token
  Eigen::VectorXf hidden_at(Index token) const { return Eigen::VectorXf::Unit(4, token % 4); }
};

struct MyHead {  // a row of logits for each depth of a draft, like Medusa's heads
  Index vocab_size() const { return 4; }
  Index state_size() const { return 5; }  // the hidden state and the depth
  void begin(const Eigen::VectorXf& hidden, Eigen::Ref<Eigen::VectorXf> state) { state << hidden, 0; }
  Eigen::MatrixXf forward(const Eigen::Ref<const Eigen::MatrixXf>& states, std::span<const Token> /*tokens*/,
                          Eigen::Ref<Eigen::MatrixXf> next, Index rows) {
    next = states;
    next.row(4).array() += 1;
    return next.topRightCorner(4, rows).transpose() * next(4, 0);
  }
};

struct MyHeadOfTwoTokens : MyHead {  // drafts the target's tokens 3 and 0
  const specdec::TokenMap* token_map() const { return &map; }
  Index vocab_size() const { return 2; }
  Eigen::MatrixXf forward(const Eigen::Ref<const Eigen::MatrixXf>& states, std::span<const Token> tokens,
                          Eigen::Ref<Eigen::MatrixXf> next, Index rows) {
    const Eigen::MatrixXf all = MyHead::forward(states, tokens, next, rows);
    return all(Eigen::all, {3, 0});
  }
  specdec::TokenMap map{std::vector<Token>{3, 0}, 4};
};

struct MyLayer {  // a row of logits for each place, like a layer with a KV cache
  Index vocab_size() const { return 4; }
  Index state_size() const { return 4; }
  void begin(const Eigen::VectorXf& hidden, Eigen::Ref<Eigen::VectorXf> state) { state = hidden; }
  Eigen::MatrixXf forward(const Eigen::Ref<const Eigen::MatrixXf>& states, std::span<const Token> tokens,
                          Eigen::Ref<Eigen::MatrixXf> next, Index rows) {
    cached += std::ssize(tokens);
    next = states;
    return next.rightCols(rows).transpose() * static_cast<float>(cached);
  }
  void truncate(Index length) { cached = std::min(cached, length); }
  Index cached = 0;
};

// ---- Drafters ----

struct MyDrafter {  // the last token, again and again
  specdec::Draft<specdec::OneHotRows> draft(std::span<const Token> context, Index gamma, auto& /*chance*/) {
    tokens.assign(static_cast<std::size_t>(gamma), context.back());
    return {tokens, specdec::OneHotRows(tokens)};
  }
  void truncate(Index /*length*/) {}
  std::vector<Token> tokens;
};

struct MyTreeDrafter {  // every token as a child of the context
  specdec::Draft<specdec::OneHotRows> draft(std::span<const Token> /*context*/,
                                            const specdec::DraftLimits& limits, auto& /*chance*/) {
    if (limits.nodes < 4 || limits.depth < 1) return {{}, specdec::OneHotRows({})};
    return {tokens, specdec::OneHotRows(tokens), parents};
  }
  void truncate(Index /*length*/) {}
  std::vector<Token> tokens{0, 1, 2, 3};
  std::vector<Index> parents{-1, -1, -1, -1};
};

struct MyDrafterForMany {  // the last token of each text, once
  static constexpr bool drafts_trees = false;
  template <class Request>
  void draft(std::span<Request> requests) {
    for (const Request& request : requests)
      drafts[request.sequence].assign(request.limits.length() > 0 ? 1 : 0, request.context.back());
  }
  specdec::Draft<specdec::OneHotRows> drafted(Index sequence) const {
    const std::vector<Token>& tokens = drafts.at(sequence);
    return {tokens, specdec::OneHotRows(tokens)};
  }
  void keep(Index /*sequence*/, Index /*length*/) {}
  void release(Index sequence) { drafts.erase(sequence); }
  std::map<Index, std::vector<Token>> drafts;
};

struct MyStrategy {  // the likeliest token after the context
  static constexpr bool drafts_trees = false, branches = false;
  template <specdec::Distribution Row, bool stable>
  struct Growth {
    void begin(const MyStrategy&, const specdec::DraftLimits& limits, Index room) {
      tokens.clear();
      wanted = room >= 0 && limits.length() > 0;
    }
    bool next() const { return wanted; }
    specdec::DraftWish wish() const { return {}; }  // the row after the context
    void take(const auto& rows, auto& /*chance*/, const auto& /*keep_drafting*/) {
      tokens = {rows.row(0).argmax()};
      wanted = false;
    }
    void end() { wanted = false; }
    specdec::Draft<specdec::OneHotRows> draft(Index) const { return {tokens, specdec::OneHotRows(tokens)}; }
    std::vector<Token> tokens;
    bool wanted = false;
  };
};

// ---- Rules ----

struct MyRule {  // the target draws, and accepts a drafted token that is the one it drew
  constexpr specdec::Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0;; ++i) {
      const Token drawn = drafted.draw(chance, i);
      if (i == drafted.gamma() || drawn != drafted.token(i)) return {i, drawn};
    }
  }
};

struct MyTreeRule {  // MyRule from node to node: 0 is the context, k + 1 stands after token k
  specdec::NodeVerdict judge(const auto& drafted, auto& chance) const {
    for (Index node = 0, k = 0;; node = k + 1) {
      const Token drawn = drafted.draw(chance, node);
      for (k = drafted.first_child(node); k >= 0 && drafted.token(k) != drawn;) k = drafted.next_sibling(k);
      if (k < 0) return {node, drawn};
    }
  }
};

// ---- Rows ----

struct MyRow {
  Index vocab_size() const { return 4; }
  double probability(Token /*x*/) const { return 0.25; }
  auto sampler() const {
    return [](double u) { return static_cast<Token>(4 * u); };
  }
};

struct MyRows {
  Index rows() const { return count; }
  Index vocab_size() const { return 4; }
  MyRow row(Index /*i*/) const { return {}; }
  Index count;
};

// ---- Processors of logits ----

struct MyProcessor {  // no token twice in a row
  void apply(Eigen::Ref<Eigen::RowVectorXf> logits) {
    if (!text.empty()) logits[text.back()] = -std::numeric_limits<float>::infinity();
  }
  void push(Token x) { text.push_back(x); }
  void pop(Index n) { text.resize(text.size() - static_cast<std::size_t>(n)); }
  std::vector<Token> text;
};

struct MyMatcher {  // even tokens only
  void allow(std::span<std::uint32_t> mask) { mask[0] |= 0b0101U; }
  bool advance(Token x) { return x % 2 == 0; }
};

// ---- Draft lengths ----

struct MyLength {  // one token more than the last step accepted
  Index next(Index most) { return std::min(most, accepted + 1); }
  void observe(const specdec::StepRecord& step) { accepted = step.accepted; }
  Index accepted = 0;
};

// ---- What the library runs on ----

constexpr auto my_executor = [](Index n, const auto& f) {
  for (Index i = n - 1; i >= 0; --i) f(i);  // in any order
};

struct MyRanks {  // one rank, which is alone
  Index rank() const { return 0; }
  Index size() const { return 1; }
  void all_gather(std::span<const double> mine, std::span<double> all) {
    std::ranges::copy(mine, all.begin());
  }
};

struct MyGenerator {
  static constexpr std::uint64_t min() { return 0; }
  static constexpr std::uint64_t max() { return std::numeric_limits<std::uint64_t>::max(); }
  std::uint64_t operator()() { return state = state * 6364136223846793005U + 1442695040888963407U; }
  std::uint64_t state;
};

constexpr auto my_bytes = [](Token x) { return std::string(1, static_cast<char>('a' + x)); };

constexpr auto my_callback = [](std::span<const Token> emitted) { return emitted.back() != 3; };

int main() {
  const std::vector<Token> prompt{0};
  const specdec::Options options{.max_new_tokens = 12, .gamma = 4};
  MyGenerator rng{42};

  specdec::SpecDec line{MyModel{}, MyDrafter{}, MyRule{}, MyLength{}};
  const specdec::Result result = line.generate(prompt, options, rng, my_callback);
  std::cout << "by a drafter of lines: " << result.text(my_bytes) << "\n";

  specdec::SpecDec tree{MyTreeModel{}, MyTreeDrafter{}, MyTreeRule{}};
  std::cout << "by a drafter of trees: " << tree.generate(prompt, options, rng).text(my_bytes) << "\n";

  specdec::Batch batch{MyModelForMany{}, specdec::ModelDrafter{MyModelForMany{}, MyStrategy{}}, MyRule{}};
  for (const std::uint64_t seed : {1U, 2U}) batch.add(prompt, options, MyGenerator{seed});
  for (const specdec::Finished& done : batch.run(my_executor))
    std::cout << "text " << done.sequence << " of a batch: " << done.result.text(my_bytes) << "\n";

  specdec::FallbackDrafter chain{specdec::PromptLookupDrafter{}, MyDrafterForMany{}};
  specdec::Batch chained{MyModelForMany{}, chain, MyRule{}};
  for (const std::uint64_t seed : {1U, 2U}) chained.add(prompt, options, MyGenerator{seed});
  for (const specdec::Finished& done : chained.run())
    std::cout << "text " << done.sequence << " by a chain: " << done.result.text(my_bytes) << "\n";

  MyModelWithHidden shows;
  specdec::HeadModel head{shows, MyHead{}};
  specdec::SpecDec headed{shows,
                          specdec::ModelDrafter{specdec::ProcessedModel{head, specdec::Temperature{1}}}};
  std::cout << "by a head: " << headed.generate(prompt, options, rng).text(my_bytes) << "\n";

  specdec::HeadModel some{shows, MyHeadOfTwoTokens{}};
  specdec::SpecDec of_two{shows,
                          specdec::ModelDrafter{specdec::ProcessedModel{some, specdec::Temperature{1}}}};
  std::cout << "by a head of two tokens: " << of_two.generate(prompt, options, rng).text(my_bytes) << "\n";

  specdec::EagleModel layer{shows, MyLayer{}};
  specdec::SpecDec layered{shows,
                           specdec::ModelDrafter{specdec::ProcessedModel{layer, specdec::Temperature{1}}}};
  std::cout << "by a layer: " << layered.generate(prompt, options, rng).text(my_bytes) << "\n";

  const std::vector<Token> tokens{1, 2};
  const specdec::Verdict verdict = specdec::verify(MyRule{}, MyRows{3}, MyRows{2}, tokens, rng);
  std::cout << "by hand: " << verdict.accepted << " of 2 accepted, then token " << verdict.token << "\n";

  specdec::ProcessedModel model{MyModel{}, specdec::Processors{MyProcessor{}, specdec::Grammar{MyMatcher{}}}};
  const auto rows = model.forward(prompt, 1);
  std::cout << "token 2 after token 0, processed: " << rows.row(0).probability(2) << "\n";

  MyRanks ranks;
  const Eigen::RowVectorXf columns = Eigen::RowVector4f(0.4f, 0.3f, 0.2f, 0.1f);
  specdec::Shards shards(columns, 0, 4, ranks);
  std::cout << "token 1 on all ranks: " << shards.rows().row(0).probability(1) << "\n";
}
