// Token verification, ready to be called on rows. Without rows and Eigen: specdec/verify/rules/token.hpp.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/verify/rules/token.hpp"
#include "specdec/verify/verifier.hpp"
