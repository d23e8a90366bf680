// Proofs and tests: the enumerator, exact laws, checks of rules and of models. Includes all of testing/. Audits of drafters and
// of running texts are in specdec/more/audits.hpp.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/testing/check_lossless.hpp"
#include "specdec/testing/check_model.hpp"
#include "specdec/testing/chi_square.hpp"
#include "specdec/testing/enumerator.hpp"
#include "specdec/testing/form_drafter.hpp"
#include "specdec/testing/law.hpp"
#include "specdec/testing/table_model.hpp"
