// Traversal verification, ready to be called on rows. Without rows and Eigen: specdec/verify/rules/traversal.hpp.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/verify/rules/traversal.hpp"
#include "specdec/verify/verifier.hpp"
