// Argmax verification, ready to be called on rows. Without rows and Eigen: specdec/verify/rules/argmax.hpp.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/verify/rules/argmax.hpp"
#include "specdec/verify/verifier.hpp"
