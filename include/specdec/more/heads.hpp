// Draft models on the hidden states of a target: heads of many tokens, EAGLE layers.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/more/heads/eagle_model.hpp"
#include "specdec/more/heads/head_model.hpp"
