// Recursive rejection, ready to be called on rows. Without rows and Eigen: specdec/verify/rules/recursive_rejection.hpp.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/verify/rules/recursive_rejection.hpp"
#include "specdec/verify/verifier.hpp"
