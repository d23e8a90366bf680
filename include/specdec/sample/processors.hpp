// Several processors, one after another.
#pragma once

#include <cstddef>
#include <tuple>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/sample/text_processor.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Makes one processor of several. They are applied in the order written: each sees the logits that the one before it left.
///
///   Processors{RepetitionPenalty{1.1}, PresencePenalty{0.5}, LogitBias{{7, -2.0}}}
///
/// A token is refused if one of them refuses it. Satisfies TextProcessor if all of them do.
/// Throws: what they throw; then all are as before.
template <class... P>
class Processors {
  static_assert((detail::follows_text<P>() && ...));

 public:
  explicit Processors(P... processors) : processors_(std::move(processors)...) {}

  template <class Logits>
    requires(TextProcessor<P, Logits> && ...)
  void apply(Logits&& logits) {
    std::apply([&](auto&... processor) { (processor.apply(logits), ...); }, processors_);
  }

  bool push(Token x) { return push_from<0>(x); }

  void pop(Index n) {
    std::apply([n](auto&... processor) { (processor.pop(n), ...); }, processors_);
  }

 private:
  // Pushes the token into all processors from the k-th on, or into none.
  template <std::size_t k>
  bool push_from(Token x) {
    if constexpr (k < sizeof...(P)) {
      auto& processor = std::get<k>(processors_);
      if (!push_token(processor, x)) return false;
      const auto undo = [&processor] { processor.pop(1); };
      const bool pushed = detail::undo_on_error([&] { return push_from<k + 1>(x); }, undo);
      if (!pushed) undo();
      return pushed;
    } else {
      return true;
    }
  }

  std::tuple<P...> processors_;
};

}  // namespace specdec
