// Tokens as bytes: text that arrives piece by piece, tokens that begin a text, texts of other tokenizers.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/more/text/match_tokens.hpp"
#include "specdec/more/text/text_stream.hpp"
