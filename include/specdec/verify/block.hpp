// Block verification, ready to be called on rows. Without rows and Eigen: specdec/verify/rules/block.hpp.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/verify/rules/block.hpp"
#include "specdec/verify/verify_line.hpp"
