// Lenient verification, ready to be called on rows. Without rows and Eigen: specdec/verify/rules/lenient.hpp.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/verify/rules/lenient.hpp"
#include "specdec/verify/verifier.hpp"
