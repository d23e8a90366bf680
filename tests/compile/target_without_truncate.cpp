// must say: the model has no truncate(specdec::Index length), which keeps the first tokens of its context: see specdec::Model
// A target that cannot roll its context back.
// SPDX-License-Identifier: MIT
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/specdec.hpp>

struct Target {
  specdec::Index vocab_size() const { return 2; }
  Eigen::MatrixXd forward(std::span<const specdec::Token>, specdec::Index rows) {
    return Eigen::MatrixXd::Constant(rows, 2, 0.5);
  }
#ifdef FIXED
  void truncate(specdec::Index) {}
#endif
};

void use(Target& target, specdec::PromptLookupDrafter& drafter) { specdec::SpecDec decoder{target, drafter}; }
