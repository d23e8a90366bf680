// Trunk and spares, ready to be called on rows. Without rows and Eigen: specdec/verify/rules/trunk_and_spares.hpp.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/verify/rules/trunk_and_spares.hpp"
#include "specdec/verify/verifier.hpp"
