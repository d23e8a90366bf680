// Proofs and tests: the enumerator, exact laws, checks of rules and of drafters. Includes all of testing/.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/testing/address_enumerator.hpp"
#include "specdec/testing/audited_drafter.hpp"
#include "specdec/testing/audited_text.hpp"
#include "specdec/testing/check_lossless.hpp"
#include "specdec/testing/check_model.hpp"
#include "specdec/testing/chi_square.hpp"
#include "specdec/testing/divergence.hpp"
#include "specdec/testing/draft_audit.hpp"
#include "specdec/testing/enumerator.hpp"
#include "specdec/testing/form_drafter.hpp"
#include "specdec/testing/law.hpp"
#include "specdec/testing/rescore.hpp"
#include "specdec/testing/table_model.hpp"
#include "specdec/testing/text_audit.hpp"
