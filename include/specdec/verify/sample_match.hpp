// Sample-and-match, ready to be called on rows. Without rows and Eigen: specdec/verify/rules/sample_match.hpp.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/verify/rules/sample_match.hpp"
#include "specdec/verify/verifier.hpp"
