// specdec for proofs: the enumerator, exact laws, the checks of rules and of drafters. Everything of testing/.
#pragma once

#include "specdec/testing/audited_drafter.hpp"
#include "specdec/testing/check_lossless.hpp"
#include "specdec/testing/chi_square.hpp"
#include "specdec/testing/divergence.hpp"
#include "specdec/testing/draft_audit.hpp"
#include "specdec/testing/enumerator.hpp"
#include "specdec/testing/form_drafter.hpp"
#include "specdec/testing/law.hpp"
#include "specdec/testing/table_model.hpp"
