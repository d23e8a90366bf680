// Processors of logits that follow the text, and sampling steps beyond temperature, top-k, top-p and min-p.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/more/samplers/after_prompt.hpp"
#include "specdec/more/samplers/bad_words.hpp"
#include "specdec/more/samplers/dry.hpp"
#include "specdec/more/samplers/dynamic_temperature.hpp"
#include "specdec/more/samplers/feed_masks.hpp"
#include "specdec/more/samplers/grammar.hpp"
#include "specdec/more/samplers/logit_bias.hpp"
#include "specdec/more/samplers/min_keep.hpp"
#include "specdec/more/samplers/min_length.hpp"
#include "specdec/more/samplers/no_repeat_ngrams.hpp"
#include "specdec/more/samplers/partial_logits.hpp"
#include "specdec/more/samplers/penalties.hpp"
#include "specdec/more/samplers/processors.hpp"
#include "specdec/more/samplers/reasoning_budget.hpp"
#include "specdec/more/samplers/snapshots.hpp"
#include "specdec/more/samplers/top_n_sigma.hpp"
#include "specdec/more/samplers/typical_p.hpp"
#include "specdec/more/samplers/xtc.hpp"
