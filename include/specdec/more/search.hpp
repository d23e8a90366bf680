// Beam search whose steps are verified drafts.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/more/search/beam_search.hpp"
