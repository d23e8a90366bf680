// Rows that are split over ranks: each rank holds a part of the vocabulary. The communicator over MPI is in
// specdec/ranks/mpi.hpp.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/ranks/chain_over_ranks.hpp"
#include "specdec/ranks/communicator.hpp"
#include "specdec/ranks/cut_logits.hpp"
#include "specdec/ranks/sharded.hpp"
#include "specdec/ranks/sharded_model.hpp"
