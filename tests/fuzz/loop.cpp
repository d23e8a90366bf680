// The loop, driven by bytes. The sequences of one decoder take turns in steps and half steps, and are resumed, stopped
// and released, with whole generations in between. Models, drafters, policies and callbacks fail or return nonsense at
// any call. Drafts are lines or trees. What must hold: a text is a prompt and tokens within its budget. A failure
// leaves everything as before the step. Contexts hold what the loop says they hold. Stop strings end a text where a
// search of all of it finds them. Log-probabilities are those of the rows that the tokens came out of. A processed row
// is the row made from scratch. If nothing learns, the final text is that of a run without failures. Under a keyed
// rule the text is always what is drawn from the target token by token, with any drafter.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <specdec/more/text/text_stream.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/bytes.hpp"
#include "fuzz/engine.hpp"
#include "fuzz/jobs.hpp"
#include "fuzz/model.hpp"
#include "fuzz/parties.hpp"
#include "fuzz/target.hpp"
#include "fuzz/tree_parties.hpp"

namespace {

using namespace fuzz;

// How target and drafter process their rows, if at all.
struct Processings {
  Processing target, draft;

  Processings(Bytes& bytes, bool any) {
    if (!any) return;
    target = Processing(bytes);
    if (bytes.flag()) draft = target;
  }
};

struct Setting {
  Index drafter, length;
  std::uint8_t rule_byte;
  Index rule, most, seed, draft_most;
  Processings rows;

  explicit Setting(Bytes& bytes)
      : drafter(bytes.up_to(9)),
        length(bytes.up_to(5)),
        rule_byte(bytes.byte()),
        rule(rule_byte % 4),
        most(context_size(bytes)),
        seed(bytes.byte()),
        draft_most(context_size(bytes)),
        rows(bytes, rule_byte >= 128) {
    // Greedy block verification, in the loop or inside a cascade, needs drafts of the length that it asks for. Their
    // rows must be one-hot, or depend on the context only.
    if (rule == 2 || drafter == 9) draft_most = std::numeric_limits<Index>::max();
    if (rule == 2 && (drafter == 4 || drafter == 5)) rule = 0;
  }

  // Draft lengths by rows do not work under rules that remember their sequence.
  template <class Rule>
  bool learns() const {
    const bool drafter_learns = drafter >= 1 && drafter <= 5;
    return drafter_learns || (std::same_as<Rule, AnyRule> && length >= 1 && length <= 3);
  }
};

// Settings for drafts that are trees.
struct TreeSetting {
  Index drafter, length, rule;
  std::uint8_t paths_byte;
  bool by_paths;
  Index most, seed, draft_most;
  Processings rows;

  explicit TreeSetting(Bytes& bytes)
      : drafter(bytes.up_to(AnyTreeDrafter::Kind::kinds - 1)),
        length(bytes.up_to(AnyNodes::kinds - 1)),
        rule(bytes.up_to(tree_rules - 1)),
        paths_byte(bytes.byte()),
        by_paths(paths_byte % 2 == 1),
        most(context_size(bytes)),
        seed(bytes.byte()),
        draft_most(context_size(bytes)),
        rows(bytes, paths_byte >= 128) {
    // K-SEQ needs independent siblings.
    if (rule == k_seq && drafter != AnyTreeDrafter::Kind::independent) rule = traversal;
  }

  template <class Rule>
  bool learns() const {
    using Kind = AnyTreeDrafter::Kind;
    return drafter == Kind::suffixes || length == AnyNodes::early;
  }
};

// A model, and the wrapper that the loop uses.
template <class Engine>
struct Party {
  Model model;
  Engine engine;

  Party(Index seed, Faults& faults, Index most, const Processing& processing, bool by_paths = false)
      : model(static_cast<std::uint64_t>(seed), faults, most), engine(model, processing, by_paths) {}
};

// A decoder and its models.
template <class D, class R, class Length>
struct World {
  using Setting = ::Setting;
  using Rule = R;
  using Decoder = specdec::SpecDec<Target&, D, Rule, Length>;

  Faults faults;
  Party<Target> target;
  Party<Engine> middle, small;
  Decoder decoder;

  explicit World(const Setting& setting)
      : target(setting.seed, faults, setting.most, setting.rows.target),
        middle(setting.seed + 2000, faults, setting.draft_most, setting.rows.draft),
        small(setting.seed + 1000, faults, setting.draft_most, setting.rows.draft),
        decoder(target.engine, D(setting.drafter, middle.engine, small.engine, faults), rule_of(setting),
                Length(setting.length, faults)) {}

 private:
  static Rule rule_of([[maybe_unused]] const Setting& setting) {
    if constexpr (specdec::draws_keyed<Rule>) return {};
    else return Rule{fuzz::rule_of(setting.rule)};
  }
};

struct TreeWorld {
  using Setting = TreeSetting;
  using Rule = support::AnyTreeRule;
  using Decoder = specdec::SpecDec<Target&, AnyTreeDrafter, Rule, AnyNodes>;

  Faults faults;
  Party<Target> target;
  Party<Engine> small;
  Decoder decoder;

  explicit TreeWorld(const Setting& setting)
      : target(setting.seed, faults, setting.most, setting.rows.target, setting.by_paths),
        small(setting.seed + 1000, faults, setting.draft_most, setting.rows.draft),
        decoder(target.engine, AnyTreeDrafter(setting.drafter, small.engine, faults),
                tree_rule_of(setting.rule), AnyNodes(setting.length, faults)) {}
};

// Random numbers for a text of this length, or the numbers of its places under a keyed rule.
template <class World>
auto source_at(std::uint64_t seed, std::size_t length) {
  if constexpr (specdec::draws_keyed<typename World::Rule>) return specdec::Keyed(seed);
  else return specdec::SplitMix64(977 * seed + length);
}

Tokens copy(std::span<const Token> tokens) { return {tokens.begin(), tokens.end()}; }

// A sequence, and what must be true of it.
template <class World>
class Watched {
  using Rule = typename World::Rule;
  using Setting = typename World::Setting;

 public:
  Watched(World& world, const Setting& setting, const Tokens& prompt, const specdec::Options& options)
      : world_(&world),
        setting_(&setting),
        prompt_(prompt),
        options_(options),
        sequence_(world.decoder.start(prompt, options)) {}

  // Random numbers that depend only on the length of the text, so a step that is tried again is the same step.
  auto source() const {
    return source_at<World>(static_cast<std::uint64_t>(setting_->seed), sequence_.context().size());
  }

  // Runs an action that may fail. A failure leaves the sequence as before. An action may be refused only after a lie,
  // or if the context has no room.
  template <class Action>
  bool attempt(const Action& action, bool refusable = false) {
    const Tokens before = copy(sequence_.context());
    const Index calls = sequence_.stats().target_calls, emitted = sequence_.stats().emitted;
    const Rule rule = sequence_.verifier();
    try {
      action();
    } catch (const Failure&) {
      unchanged(before, calls, emitted, rule);
      return false;
    } catch (const std::invalid_argument&) {
      require(refusable || world_->faults.lied);
      unchanged(before, calls, emitted, rule);
      return false;
    }
    check();
    return true;
  }

  // A failing step takes the target back to where it was.
  void step() {
    const bool done = sequence_.done();
    const bool taken = attempt([&] {
      auto chance = source();
      const std::size_t size = sequence_.context().size();
      const auto emitted = sequence_.step(chance);
      require(done ? emitted.empty() : !emitted.empty());
      require(sequence_.context().size() == size + emitted.size());
    });
    require(done ? taken : held());
  }

  void propose() {
    feed_.reset();
    attempt([&] {
      auto chance = source();
      const specdec::Feed feed = sequence_.propose(chance);
      if (feed.rows == 0) return;
      feed_.emplace(copy(feed.tokens), std::vector<Index>(feed.parents.begin(), feed.parents.end()),
                    feed.from, feed.rows);
      after_ = chance;
    });
  }

  // Accepts with the rows of a separate target. If another sequence has drafted in between, accept() refuses. After a
  // failing call the proposal can still be judged.
  void accept(bool expected) {
    bool judged = false;
    attempt([&] {
      Party<Target> outside(setting_->seed, world_->faults, setting_->most, setting_->rows.target);
      Target& engine = outside.engine;
      const Matrix nothing = Matrix::Constant(1, vocabulary, 1.0 / vocabulary);
      ShownRows rows(nothing, nothing);
      if (feed_) {
        const auto& [tokens, parents, from, count] = *feed_;
        const auto context = sequence_.context();
        if (from > 0) {
          const Faults armed = std::exchange(world_->faults, Faults());
          engine.forward(context.first(static_cast<std::size_t>(from)), 1);
          world_->faults = armed;
        }
        rows = parents.empty() ? engine.forward(tokens, count) : engine.forward(tokens, parents, count);
      }
      judged = true;
      try {
        const auto emitted = sequence_.accept(rows, after_);
        require(sequence_.done() || feed_.has_value());
        if (!emitted.empty()) require(kept_by(engine));
      } catch (const std::logic_error& error) {
        if (dynamic_cast<const std::invalid_argument*>(&error) != nullptr) throw;
        require(!expected || !feed_);
      }
    });
    if (judged) feed_.reset();
  }

  void resume(Bytes& bytes) {
    Tokens context = copy(sequence_.context());
    if (bytes.flag())
      context.resize(
          std::max<std::size_t>(1, context.size() - std::min(context.size() - 1, std::size_t{bytes.byte()})));
    for (Index more = bytes.up_to(3); more > 0; --more)
      context.push_back(static_cast<Token>(bytes.up_to(vocabulary - 1)));
    setting_->rows.target.fit(context);
    const specdec::Options options = options_of(bytes, &world_->faults);
    attempt(
        [&] {
          sequence_.resume(context, options);
          feed_.reset();
          prompt_ = context;
          options_ = options;
          checked_ = 0;
          plain_ = false;
        },
        std::ssize(context) > setting_->most);
  }

  void cancel() {
    sequence_.cancel();
    feed_.reset();
    plain_ = plain_ && sequence_.result().stop_reason != specdec::StopReason::callback;
    check();
  }
  void pause() {
    sequence_.pause();
    feed_.reset();
    check();
  }

  // Generates to the end without failures. The text must be that of a run without failures, unless a lie was told that
  // could have been the truth.
  void finish() {
    while (!sequence_.done()) {
      const std::size_t size = sequence_.context().size();
      step();
      if (sequence_.context().size() > size) continue;
      // A rule may remember a lie, and ask for longer drafts than an honest drafter can make.
      require(world_->faults.lied && specdec::min_draft_length(sequence_.verifier()) > 0);
      return;
    }
    if (!plain_ || world_->faults.lied || setting_->template learns<Rule>()) return;
    World other(*setting_);
    Watched twin(other, *setting_, prompt_, without_faults(options_));
    while (!twin.sequence_.done()) twin.step();
    require(copy(twin.sequence_.context()) == copy(sequence_.context()));
  }

  bool proposed() const { return feed_.has_value(); }

 private:
  struct Fed {
    Tokens tokens;
    std::vector<Index> parents;
    Index from, rows;
    Fed(Tokens t, std::vector<Index> p, Index f, Index r)
        : tokens(std::move(t)), parents(std::move(p)), from(f), rows(r) {}
  };

  void unchanged(const Tokens& before, Index calls, Index emitted, const Rule& rule) const {
    require(copy(sequence_.context()) == before && sequence_.stats().target_calls == calls);
    require(sequence_.stats().emitted == emitted && sequence_.verifier() == rule);
  }

  void check() {
    const auto context = sequence_.context(), tokens = sequence_.tokens();
    require(context.size() == prompt_.size() + tokens.size());
    require(std::equal(prompt_.begin(), prompt_.end(), context.begin()));
    check_text(tokens, options_);
    require(sequence_.kept() >= 0 && sequence_.kept() <= std::ssize(context));
    if (sequence_.done()) check_result(sequence_.result(), options_);
    if (!world_->faults.lied) check_new_tokens();
    checked_ = std::ssize(tokens);
  }

  // Checks the records of the new tokens. Under a keyed rule they must be what the target draws.
  void check_new_tokens() const {
    const Model& model = world_->target.model;
    const Processing& processing = setting_->rows.target;
    const auto context = sequence_.context();
    check_told(sequence_.log_probabilities(), sequence_.raw_log_probabilities(), options_, processing, model,
               context, std::ssize(prompt_), checked_);
    if constexpr (specdec::draws_keyed<Rule>)
      for (auto size = prompt_.size() + static_cast<std::size_t>(checked_); size < context.size(); ++size) {
        const auto before = context.first(size);
        require(context[size] == drawn_behind(before, processing.row(model, before).value(), setting_->seed));
      }
  }

  // Whether the target's context is the beginning of the text, as long as the sequence says.
  bool held() const {
    return world_->target.engine.holds(sequence_.context().first(static_cast<std::size_t>(sequence_.kept())));
  }

  // Whether a target that the engine calls holds the beginning of the text once it keeps what the sequence says.
  bool kept_by(Target& engine) const {
    if (feed_->parents.empty()) engine.truncate(sequence_.kept());
    else engine.keep(sequence_.kept_path());
    return engine.holds(sequence_.context().first(static_cast<std::size_t>(sequence_.kept())));
  }

  World* world_;
  const Setting* setting_;
  Tokens prompt_;
  specdec::Options options_;
  typename World::Decoder::Sequence sequence_;
  std::optional<Fed> feed_;
  decltype(source_at<World>(0, 0)) after_{0};
  Index checked_ = 0;  // how many tokens
  bool plain_ = true;  // neither resumed nor stopped
};

// A whole generation while another sequence is under way. The callback may fail, end the generation, or step the other
// sequence.
template <class World>
void generate(World& world, const typename World::Setting& setting, Bytes& bytes, Watched<World>& other) {
  Tokens prompt = prompt_of(bytes);
  setting.rows.target.fit(prompt);
  specdec::Options options = options_of(bytes, &world.faults);
  const bool spoilt = spoil(bytes, prompt, options) || std::ssize(prompt) > setting.most;
  const std::uint64_t seed = bytes.byte();
  Tokens seen;
  std::string shown;
  specdec::TextStream stream(Pieces{}, options);
  bool ended = false;
  const auto look_on = [&](std::span<const Token> emitted) {
    require(!emitted.empty() && !ended);
    seen.insert(seen.end(), emitted.begin(), emitted.end());
    shown += stream.push(emitted);
    world.faults.may_fail();
    if (bytes.byte() >= 240) other.step();
    ended = bytes.byte() >= 240;
    return !ended;
  };
  try {
    auto source = source_at<World>(seed, 0);
    const specdec::Result result = world.decoder.generate(prompt, options, source, look_on);
    require(!spoilt && result.tokens == seen);
    require(ended || result.stop_reason != specdec::StopReason::callback);
    check_result(result, options);
    shown += stream.finish();
    require(shown == result.text(Pieces{}));
    if (world.faults.lied || setting.template learns<typename World::Rule>()) return;
    World undisturbed(setting);
    auto same = source_at<World>(seed, 0);
    const Tokens expected = undisturbed.decoder.generate(prompt, without_faults(options), same).tokens;
    require(ended ? seen.size() <= expected.size() : seen.size() == expected.size());
    require(std::equal(seen.begin(), seen.end(), expected.begin()));
  } catch (const Failure&) {
  } catch (const std::invalid_argument&) {
    require(spoilt || world.faults.lied);
  }
}

template <class World>
void run(const typename World::Setting& setting, Bytes& bytes) {
  World world(setting);
  std::vector<Watched<World>> sequences;
  for (Index n = 1 + bytes.up_to(1); n > 0; --n) {
    Tokens prompt = prompt_of(bytes);
    if (std::ssize(prompt) > setting.most) return;
    setting.rows.target.fit(prompt);
    sequences.emplace_back(world, setting, prompt, options_of(bytes, &world.faults));
  }
  world.faults.bytes = &bytes;
  const Watched<World>* last_to_draft = nullptr;
  while (!bytes.empty()) {
    const std::uint8_t b = bytes.byte();
    Watched<World>& sequence = sequences[b % sequences.size()];
    switch (b / 2 % 9) {
      case 0:
      case 1:
        sequence.step();
        last_to_draft = nullptr;
        break;
      case 2:
        sequence.propose();
        last_to_draft = &sequence;
        break;
      case 3:
        sequence.accept(last_to_draft == &sequence);
        break;
      case 4:
        sequence.resume(bytes);
        break;
      case 5:
        sequence.cancel();
        break;
      case 6:
        sequence.pause();
        break;
      case 7:
        generate(world, setting, bytes, sequence);
        last_to_draft = nullptr;
        break;
      default:
        sequence.propose();
        sequence.accept(true);
        last_to_draft = nullptr;
        break;
    }
  }
  world.faults.bytes = nullptr;
  for (Watched<World>& sequence : sequences) sequence.finish();
}

}  // namespace

void fuzz::loop(std::span<const std::uint8_t> data) {
  Bytes bytes(data);
  const std::uint8_t first = bytes.byte();
  if (first >= 200 && first < 255) return run<TreeWorld>(TreeSetting(bytes), bytes);
  const bool by_rows = first % 4 == 3;
  const Setting setting(bytes);
  if (first < 200 && first % 8 == 5)
    return run<World<KeyedDrafter, specdec::KeyedVerifier, AnyLength>>(setting, bytes);
  if (by_rows && setting.rule != 2)
    return run<World<AnyDrafter, ForgetfulRule, AnyLengthByRows>>(setting, bytes);
  return run<World<AnyDrafter, AnyRule, AnyLength>>(setting, bytes);
}
