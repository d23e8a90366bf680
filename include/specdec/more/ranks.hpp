// Rows that are split over ranks: each rank holds a part of the vocabulary. The communicator over MPI is in
// specdec/more/ranks/mpi.hpp.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/more/ranks/chain_over_ranks.hpp"
#include "specdec/more/ranks/communicator.hpp"
#include "specdec/more/ranks/logit_columns.hpp"
#include "specdec/more/ranks/sharded.hpp"
#include "specdec/more/ranks/sharded_model.hpp"
