// Verification rules that are chosen at run time.
// SPDX-License-Identifier: MIT
#pragma once

#include <specdec/specdec.hpp>

namespace serve {

/// For one linear draft of each text.
struct LineRule {
  bool by_token = false;  ///< token verification in place of block verification

  specdec::Verdict judge(const auto& drafted, auto& chance) const {
    return by_token ? specdec::TokenVerifier{}.judge(drafted, chance)
                    : specdec::BlockVerifier{}.judge(drafted, chance);
  }
};

/// For several independent linear drafts of each text: SpecTr's K-SEQ, or SpecInfer's recursive rejection.
struct LinesRule {
  bool by_k_seq = false;

  specdec::NodeVerdict judge(const auto& drafted, auto& chance) const {
    return by_k_seq ? specdec::KSeqVerifier{}.judge(drafted, chance)
                    : specdec::RecursiveRejectionVerifier{}.judge(drafted, chance);
  }
};

}  // namespace serve
