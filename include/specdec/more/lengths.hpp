// Draft lengths that learn from what was measured.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/more/lengths/batch_costs.hpp"
#include "specdec/more/lengths/cost_optimal_length.hpp"
#include "specdec/more/lengths/early_stopping_length.hpp"
