// Draft lengths: those that learn from what was measured, and those that engines have.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/more/lengths/acceptance_monitor.hpp"
#include "specdec/more/lengths/batch_costs.hpp"
#include "specdec/more/lengths/confident_length.hpp"
#include "specdec/more/lengths/cost_curve.hpp"
#include "specdec/more/lengths/cost_optimal_length.hpp"
#include "specdec/more/lengths/early_stopping_length.hpp"
#include "specdec/more/lengths/scheduled_length.hpp"
#include "specdec/more/lengths/watched_length.hpp"
