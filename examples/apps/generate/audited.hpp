// Reads a finished text again with both models, and audits it.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <specdec/more/audits/rescore.hpp>
#include <specdec/more/audits/text_audit.hpp>

#include "generate/pair.hpp"
#include "generate/sampled.hpp"

namespace generate {

/// Both models read the text alone, with other calls than when it was written: so the numbers may differ a little.
inline specdec::testing::TextAuditReport audited(Pair& pair, double temperature,
                                                 std::span<const Token> prompt, std::span<const Token> text) {
  specdec::testing::TextAudit audit({.tolerance = 1e-3});
  auto target = sampled(*pair.target, temperature), draft = sampled(*pair.draft, temperature);
  specdec::testing::rescore(audit, target, draft, prompt, text);
  return audit.report();
}

}  // namespace generate
