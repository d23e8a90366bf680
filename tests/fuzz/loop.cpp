// The loop, driven by bytes: steps and half steps, resumed, stopped and released sequences of one decoder in turns, over
// models, drafters and policies that fail or return nonsense at any call. Whatever happens: a text is a prompt and
// tokens within its budget, a failure leaves all as before the step, and contexts hold what the loop says they hold.
// Where nothing learns, the text is at last that of a run in which nothing had failed.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fuzz/bytes.hpp"
#include "fuzz/rows.hpp"
#include "fuzz/target.hpp"
#include "support/rules.hpp"

namespace {

using namespace fuzz;
using Matrix = RowMajor<double>;
using Tokens = std::vector<Token>;

struct Failure : std::runtime_error {
  Failure() : std::runtime_error("as the bytes say") {}
};

// What goes wrong, as the bytes say; nothing once it is switched off.
struct Faults {
  Bytes* bytes = nullptr;
  bool lied = false;

  void may_fail() {
    if (bytes != nullptr && bytes->byte() >= 248) throw Failure();
  }
  bool may_lie() {
    const bool lie = bytes != nullptr && bytes->byte() >= 248;
    lied = lied || lie;
    return lie;
  }
};

constexpr Index vocabulary = 4;

// Rows that depend on the last two tokens. Each model has a row of its own for them.
class Model {
 public:
  Model(std::uint64_t seed, Faults& faults, Index most) : seed_(seed), faults_(&faults), most_(most) {}

  Index vocab_size() const { return vocabulary; }
  Index context_size() const { return most_; }
  const Tokens& context() const { return context_; }

  const Matrix& forward(std::span<const Token> tokens, Index rows) {
    require(!tokens.empty() && rows >= 1 && rows <= std::ssize(tokens));
    require(std::ssize(context_) + std::ssize(tokens) <= most_);
    faults_->may_fail();
    for (const Token x : tokens) {
      require(x >= 0 && x < vocabulary);
      context_.push_back(x);
    }
    faults_->may_fail();  // with the tokens taken in
    rows_.resize(rows, vocabulary);
    for (Index i = 0; i < rows; ++i) fill(i, context_.size() - static_cast<std::size_t>(rows - i));
    if (faults_->may_lie()) lie();
    return rows_;
  }

  void truncate(Index length) {
    require(length >= 0);
    if (length < std::ssize(context_)) context_.resize(static_cast<std::size_t>(length));
  }

 private:
  void fill(Index i, std::size_t last) {
    const std::uint64_t before = last > 0 ? static_cast<std::uint64_t>(context_[last - 1]) : 9;
    specdec::SplitMix64 source(seed_ + 31 * before + static_cast<std::uint64_t>(context_[last]));
    for (Index x = 0; x < vocabulary; ++x) rows_(i, x) = static_cast<double>(source() % 8);
    if (rows_.row(i).sum() == 0) rows_(i, 0) = 1;
    rows_.row(i) /= rows_.row(i).sum();
  }

  void lie() {
    switch (faults_->bytes->up_to(4)) {
      case 0:
        rows_(0, 0) = std::numeric_limits<double>::quiet_NaN();
        break;
      case 1:
        rows_.setZero();
        break;
      case 2:
        rows_.conservativeResize(rows_.rows() + 1, vocabulary);
        rows_.bottomRows(1).setZero();
        break;
      case 3:
        rows_.conservativeResize(rows_.rows(), vocabulary - 1);
        break;
      default:
        rows_ *= 3;
        break;
    }
  }

  std::uint64_t seed_;
  Faults* faults_;
  Index most_;
  Tokens context_;
  Matrix rows_;
};

// One of all drafters. Its rows are copied, so that those of all have one type.
class AnyDrafter {
 public:
  AnyDrafter(Index which, Model& small, Faults& faults) : faults_(&faults) {
    using namespace specdec;
    switch (which) {
      case 1:
        drafter_.emplace<PromptLookupDrafter>();
        break;
      case 2:
        drafter_.emplace<NgramTableDrafter>();
        break;
      case 3:
        drafter_.emplace<SuffixDrafter>();
        break;
      case 4:
        drafter_.emplace<LookaheadDrafter>();
        break;
      case 5:
        drafter_.emplace<Chain>(SuffixDrafter{}, ModelDrafter<Model&>(small));
        break;
      case 6:
        drafter_.emplace<NoDrafter>();
        break;
      default:
        drafter_.emplace<ModelDrafter<Model&>>(small);
        break;
    }
  }

  auto draft(std::span<const Token> context, Index gamma, auto& chance) {
    faults_->may_fail();
    std::visit([&](auto& drafter) { keep(drafter.draft(context, gamma, chance)); }, drafter_);
    faults_->may_fail();
    if (faults_->may_lie()) lie();
    return specdec::Draft<Eigen::Ref<const Matrix, 0, Eigen::OuterStride<>>>{tokens_, rows_};
  }

  void truncate(Index length) {
    std::visit([&](auto& drafter) { drafter.truncate(length); }, drafter_);
  }

  template <class Rows>
  void observe(const Rows& rows, std::span<const Token> drafted, const specdec::Verdict& verdict) {
    faults_->may_fail();
    std::visit(
        [&](auto& drafter) {
          if constexpr (requires { drafter.observe(rows, drafted, verdict); })
            drafter.observe(rows, drafted, verdict);
        },
        drafter_);
    faults_->may_fail();
  }

 private:
  using Chain = specdec::ChainDrafter<specdec::SuffixDrafter, specdec::ModelDrafter<Model&>>;

  template <class Proposed>
  void keep(const Proposed& draft) {
    const auto rows = specdec::distributions(draft.rows);
    tokens_.assign(draft.tokens.begin(), draft.tokens.end());
    rows_.resize(std::ssize(tokens_), vocabulary);
    for (Index i = 0; i < rows_.rows(); ++i)
      for (Token x = 0; x < vocabulary; ++x) rows_(i, x) = specdec::probability(rows.row(i), x);
  }

  void lie() {
    switch (faults_->bytes->up_to(3)) {
      case 0:
        tokens_.push_back(0);
        break;
      case 1:
        tokens_.assign(tokens_.size(), static_cast<Token>(faults_->bytes->size()));
        break;
      case 2:
        rows_.setConstant(faults_->bytes->number());
        break;
      default:
        tokens_.clear();
        break;
    }
  }

  Faults* faults_;
  std::variant<specdec::NoDrafter, specdec::PromptLookupDrafter, specdec::NgramTableDrafter,
               specdec::SuffixDrafter, specdec::LookaheadDrafter, Chain, specdec::ModelDrafter<Model&>>
      drafter_;
  Tokens tokens_;
  Matrix rows_;
};

// One of the policies that work under every rule.
class AnyLength {
 public:
  AnyLength(Index which, Faults& faults) : faults_(&faults) {
    using namespace specdec;
    switch (which) {
      case 1:
        length_.emplace<ScheduledLength>(2);
        break;
      case 2:
        length_.emplace<CostOptimalLength>();
        break;
      default:
        break;
    }
  }
  Index next(Index most) {
    faults_->may_fail();
    if (faults_->may_lie()) return faults_->bytes->size();
    return std::visit([&](auto& length) { return length.next(most); }, length_);
  }
  void observe(const specdec::StepRecord& step) {
    std::visit([&](auto& length) { length.observe(step); }, length_);
  }

 private:
  Faults* faults_;
  std::variant<specdec::FixedLength, specdec::ScheduledLength, specdec::CostOptimalLength> length_;
};

using AnyRule = support::AnyOf<true, specdec::BlockVerifier, specdec::TokenVerifier,
                               specdec::GreedyBlockVerifier, specdec::SampleMatchVerifier>;

AnyRule rule_of(Index which) {
  switch (which) {
    case 1:
      return {specdec::TokenVerifier{}};
    case 2:
      return {specdec::GreedyBlockVerifier{}};
    case 3:
      return {specdec::SampleMatchVerifier{}};
    default:
      return {specdec::BlockVerifier{}};
  }
}

struct Setting {
  Index drafter, length, rule, most, seed;
  bool learns() const { return !(drafter == 0 || drafter == 6 || drafter == 7) || length != 0; }

  explicit Setting(Bytes& bytes)
      : drafter(bytes.up_to(7)),
        length(bytes.up_to(5)),
        rule(bytes.up_to(3)),
        most(bytes.flag() ? std::numeric_limits<Index>::max() : 1 + bytes.up_to(30)),
        seed(bytes.byte()) {
    // Drafters that propose from the text have one-hot rows; those with rows that change from step to step are no
    // drafters for greedy block verification.
    if (rule == 2 && (drafter == 5 || drafter == 4)) rule = 0;
  }
};

using Decoder = specdec::SpecDec<Model&, AnyDrafter, AnyRule, AnyLength>;

struct World {
  Faults faults;
  Model target, small;
  Decoder decoder;

  explicit World(const Setting& setting)
      : target(static_cast<std::uint64_t>(setting.seed), faults, setting.most),
        small(static_cast<std::uint64_t>(setting.seed) + 1000, faults, std::numeric_limits<Index>::max()),
        decoder(target, AnyDrafter(setting.drafter, small, faults), rule_of(setting.rule),
                AnyLength(setting.length, faults)) {}
};

Tokens copy(std::span<const Token> tokens) { return {tokens.begin(), tokens.end()}; }

specdec::Options options_of(Bytes& bytes) {
  specdec::Options options{.max_new_tokens = bytes.up_to(40), .gamma = bytes.up_to(6)};
  if (bytes.up_to(3) == 0) options.stop_tokens = {bytes.up_to(vocabulary - 1)};
  return options;
}

Tokens prompt_of(Bytes& bytes) {
  Tokens prompt(1 + static_cast<std::size_t>(bytes.up_to(4)));
  for (Token& x : prompt) x = static_cast<Token>(bytes.up_to(vocabulary - 1));
  return prompt;
}

// A sequence, and what has to be true of it.
class Watched {
 public:
  Watched(World& world, const Setting& setting, const Tokens& prompt, const specdec::Options& options)
      : world_(&world),
        setting_(&setting),
        prompt_(prompt),
        options_(options),
        sequence_(world.decoder.start(prompt, options)) {}

  // Random numbers that depend on the length of the text alone: a step that is tried again is the same step.
  specdec::SplitMix64 source() const {
    return specdec::SplitMix64(977 * static_cast<std::uint64_t>(setting_->seed) + sequence_.context().size());
  }

  // Runs what may fail; a failure leaves the sequence as before.
  template <class Action>
  bool attempt(const Action& action) {
    const Tokens before = copy(sequence_.context());
    const Index calls = sequence_.stats().target_calls, emitted = sequence_.stats().emitted;
    const AnyRule rule = sequence_.verifier();
    try {
      action();
    } catch (const Failure&) {
      unchanged(before, calls, emitted, rule);
      return false;
    } catch (const std::invalid_argument&) {  // of what had lied
      unchanged(before, calls, emitted, rule);
      return false;
    }
    check();
    return true;
  }

  void step() {
    attempt([&] {
      auto chance = source();
      const std::size_t size = sequence_.context().size();
      const bool done = sequence_.done();
      const auto emitted = sequence_.step(chance);
      require(done ? emitted.empty() : !emitted.empty());
      require(sequence_.context().size() == size + emitted.size());
      if (!done) require(held());
    });
  }

  void propose() {
    feed_.reset();
    attempt([&] {
      auto chance = source();
      const specdec::Feed feed = sequence_.propose(chance);
      if (feed.rows == 0) return;
      feed_.emplace(copy(feed.tokens), feed.from, feed.rows);
      after_ = chance;
    });
  }

  // With the rows of a target of its own; where somebody has drafted in between that is refused. A call that fails leaves
  // the proposal to be judged later.
  void accept(bool expected) {
    bool judged = false;
    attempt([&] {
      Model engine(static_cast<std::uint64_t>(setting_->seed), world_->faults, setting_->most);
      Matrix rows = Matrix::Constant(1, vocabulary, 1.0 / vocabulary);
      if (feed_) {
        const auto [tokens, from, count] = *feed_;
        const auto context = sequence_.context();
        if (from > 0) {
          const Faults armed = std::exchange(world_->faults, Faults());
          engine.forward(context.first(static_cast<std::size_t>(from)), 1);
          world_->faults = armed;
        }
        rows = engine.forward(tokens, count);
      }
      judged = true;
      try {
        sequence_.accept(rows, after_);
        require(sequence_.done() || feed_.has_value());
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
    const specdec::Options options = options_of(bytes);
    attempt([&] {
      sequence_.resume(context, options);
      feed_.reset();
      prompt_ = context;
      options_ = options;
      plain_ = false;
    });
  }

  void stop() {
    sequence_.stop();
    feed_.reset();
    plain_ = plain_ && sequence_.result().stop_reason != specdec::StopReason::callback;
    check();
  }
  void release() {
    sequence_.release();
    feed_.reset();
    check();
  }

  // To the end, with nothing that fails. The text is that of a run in which nothing had; not where something had been
  // told that could be true.
  void finish() {
    while (!sequence_.done()) {
      const std::size_t size = sequence_.context().size();
      step();
      if (sequence_.context().size() > size) continue;
      // A rule may remember a lie, and ask for longer drafts than an honest drafter has.
      require(world_->faults.lied && sequence_.verifier().min_draft_length() > 0);
      return;
    }
    if (!plain_ || world_->faults.lied || setting_->learns()) return;
    World other(*setting_);
    Watched twin(other, *setting_, prompt_, options_);
    while (!twin.sequence_.done()) twin.step();
    require(copy(twin.sequence_.context()) == copy(sequence_.context()));
  }

  bool proposed() const { return feed_.has_value(); }

 private:
  struct Fed {
    Tokens tokens;
    Index from, rows;
    Fed(Tokens t, Index f, Index r) : tokens(std::move(t)), from(f), rows(r) {}
  };

  void unchanged(const Tokens& before, Index calls, Index emitted, const AnyRule& rule) const {
    require(copy(sequence_.context()) == before && sequence_.stats().target_calls == calls);
    require(sequence_.stats().emitted == emitted && sequence_.verifier() == rule);
  }

  void check() const {
    const auto context = sequence_.context(), tokens = sequence_.tokens();
    require(context.size() == prompt_.size() + tokens.size());
    require(std::equal(prompt_.begin(), prompt_.end(), context.begin()));
    require(std::ssize(tokens) <= options_.max_new_tokens);
    for (const Token x : tokens) require(x >= 0 && x < vocabulary);
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) require(!options_.stops_at(tokens[i]));
    require(sequence_.kept() >= 0 && sequence_.kept() <= std::ssize(context));
  }

  // Whether the target's context is the beginning of the text that the sequence says it is.
  bool held() const {
    const Tokens& context = world_->target.context();
    return std::ssize(context) == sequence_.kept() &&
           std::equal(context.begin(), context.end(), sequence_.context().begin());
  }

  World* world_;
  const Setting* setting_;
  Tokens prompt_;
  specdec::Options options_;
  Decoder::Sequence sequence_;
  std::optional<Fed> feed_;
  specdec::SplitMix64 after_{0};
  bool plain_ = true;  // neither resumed nor stopped
};

}  // namespace

void fuzz::loop(std::span<const std::uint8_t> data) {
  Bytes bytes(data);
  const Setting setting(bytes);
  World world(setting);
  std::vector<Watched> sequences;
  for (Index n = 1 + bytes.up_to(1); n > 0; --n) {
    const Tokens prompt = prompt_of(bytes);
    if (std::ssize(prompt) > setting.most) return;
    sequences.emplace_back(world, setting, prompt, options_of(bytes));
  }
  world.faults.bytes = &bytes;
  const Watched* last_to_draft = nullptr;
  while (!bytes.empty()) {
    const std::uint8_t b = bytes.byte();
    Watched& sequence = sequences[b % sequences.size()];
    switch (b / 2 % 8) {
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
        sequence.stop();
        break;
      case 6:
        sequence.release();
        break;
      default:
        sequence.propose();
        sequence.accept(true);
        last_to_draft = nullptr;
        break;
    }
  }
  world.faults.bytes = nullptr;
  for (Watched& sequence : sequences) sequence.finish();
}
