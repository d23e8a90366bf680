// specdec: lossless draft verifiers and the speculative decoding loop. Everything, in one include.
#pragma once

#include "specdec/core/validate.hpp"
#include "specdec/draft/model_drafter.hpp"
#include "specdec/draft/prompt_lookup.hpp"
#include "specdec/model/ngram.hpp"
#include "specdec/spec_dec.hpp"
#include "specdec/testing/check_lossless.hpp"
#include "specdec/testing/chi_square.hpp"
#include "specdec/verify/argmax.hpp"
#include "specdec/verify/block.hpp"
#include "specdec/verify/greedy_block.hpp"
#include "specdec/verify/lenient.hpp"
#include "specdec/verify/sample_match.hpp"
#include "specdec/verify/token.hpp"
