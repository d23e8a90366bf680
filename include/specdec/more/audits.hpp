// Audits: whether a drafter reports the q that it draws from, whether a running text has its law, where two texts differ.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/more/audits/audited_drafter.hpp"
#include "specdec/more/audits/audited_text.hpp"
#include "specdec/more/audits/divergence.hpp"
#include "specdec/more/audits/draft_audit.hpp"
#include "specdec/more/audits/rescore.hpp"
#include "specdec/more/audits/text_audit.hpp"
