// Vocabularies that are spread over ranks. A communicator over MPI is in specdec/ranks/mpi.hpp.
#pragma once

#include "specdec/ranks/chain_over_ranks.hpp"
#include "specdec/ranks/communicator.hpp"
#include "specdec/ranks/cut_logits.hpp"
#include "specdec/ranks/sharded.hpp"
#include "specdec/ranks/sharded_model.hpp"
