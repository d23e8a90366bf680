// The rules that batches are compared by, chosen while the program runs.
#pragma once

#include <specdec/specdec.hpp>

namespace serve {

/// For one line of tokens a text.
struct LineRule {
  bool by_token = false;  ///< token verification in place of block verification

  specdec::Verdict judge(const auto& drafted, auto& chance) const {
    return by_token ? specdec::TokenVerifier{}.judge(drafted, chance)
                    : specdec::BlockVerifier{}.judge(drafted, chance);
  }
};

/// For several independent lines a text: SpecTr's K-SEQ, or the recursive rejection of SpecInfer.
struct LinesRule {
  bool by_k_seq = false;

  specdec::NodeVerdict judge(const auto& drafted, auto& chance) const {
    return by_k_seq ? specdec::KSeqVerifier{}.judge(drafted, chance)
                    : specdec::RecursiveRejectionVerifier{}.judge(drafted, chance);
  }
};

}  // namespace serve
