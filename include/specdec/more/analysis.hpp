// The theory: closed forms, exact expectations and bounds; projections from what was measured; statistics as JSON.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/more/analysis/acceptance.hpp"
#include "specdec/more/analysis/context_free_survival.hpp"
#include "specdec/more/analysis/enumerated_survival.hpp"
#include "specdec/more/analysis/measures.hpp"
#include "specdec/more/analysis/projection.hpp"
#include "specdec/more/analysis/row_acceptance.hpp"
#include "specdec/more/analysis/sequoia_shape.hpp"
#include "specdec/more/analysis/speed_up.hpp"
#include "specdec/more/analysis/stats_json.hpp"
#include "specdec/more/analysis/survival.hpp"
