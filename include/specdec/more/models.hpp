// Models around models: n-gram models, a short context, models that cannot go back, tokens that two vocabularies share.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/more/models/common_tokens.hpp"
#include "specdec/more/models/ngram.hpp"
#include "specdec/more/models/replayed.hpp"
#include "specdec/more/models/reread.hpp"
#include "specdec/more/models/windowed.hpp"
