// Drafters that are built on the loop and on models: from earlier text, forced tokens, other tokenizers, cascades.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/more/drafters/ahead_drafter.hpp"
#include "specdec/more/drafters/cascade_drafter.hpp"
#include "specdec/more/drafters/confident_tree.hpp"
#include "specdec/more/drafters/datastore_drafter.hpp"
#include "specdec/more/drafters/forced_tokens.hpp"
#include "specdec/more/drafters/merged_drafter.hpp"
#include "specdec/more/drafters/prompt_lookup.hpp"
#include "specdec/more/drafters/retokenized_drafter.hpp"
#include "specdec/more/drafters/stored_text.hpp"
#include "specdec/more/drafters/suffix_drafter.hpp"
