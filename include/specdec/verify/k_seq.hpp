// K-SEQ, ready to be called on rows, with the sum that it needs of them. Without rows and Eigen: specdec/verify/rules/k_seq.hpp.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/rows/read/overlap.hpp"
#include "specdec/verify/rules/k_seq.hpp"
#include "specdec/verify/verifier.hpp"
