// Keyed verification, ready to be called on rows. Without rows and Eigen: specdec/verify/rules/keyed.hpp.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/verify/rules/keyed.hpp"
#include "specdec/verify/verifier.hpp"
