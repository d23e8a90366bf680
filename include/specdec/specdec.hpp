// specdec: lossless draft verifiers and the speculative decoding loop. This header is the lower storey: verifiers, rows, models,
// drafters over models, the loop for one text and for many, chains of sampling steps. Proofs are in specdec/testing.hpp.
//
// What is built on it is the upper storey. Each part is included by its own name:
//
//   specdec/more/drafters.hpp    drafts from earlier text, forced tokens, other tokenizers, cascades, trees by confidence
//   specdec/more/lengths.hpp     draft lengths that learn from what is measured
//   specdec/more/rows.hpp        rows over other ids, lists of structs, rows with a token drawn already, entropy
//   specdec/more/models.hpp      n-gram models, short contexts, models that cannot go back, tokens that two vocabularies share
//   specdec/more/heads.hpp       heads and EAGLE layers on a target's hidden states
//   specdec/more/samplers.hpp    penalties, grammars, budgets, and the samplers of engines
//   specdec/more/text.hpp        text that arrives piece by piece
//   specdec/more/search.hpp      beam search
//   specdec/more/audits.hpp      does a drafter report its q, has a running text its law, where do two texts differ
//   specdec/more/analysis.hpp    closed forms, projections, statistics as JSON
//   specdec/more/ranks.hpp       vocabularies over ranks (over MPI: specdec/more/ranks/mpi.hpp)
//   specdec/more/device.hpp      the pieces of kernels for GPUs
//   specdec/more/c/specdec.h     the interface in C
//
// Some names are short: Tree, Line, Chain, Options, Result. They are the field's words, and programs write them often, with
// `specdec::` before them. A program's own types of these names stay its own, also after `using namespace specdec;`, if they are
// in a namespace. In the global namespace they would be ambiguous: there, write `using specdec::BlockVerifier;` for each name.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/platform.hpp"

#include "specdec/chance/any_generator.hpp"
#include "specdec/chance/keyed.hpp"
#include "specdec/chance/philox.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/fallback_drafter.hpp"
#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/length/each.hpp"
#include "specdec/draft/length/keep_drafting.hpp"
#include "specdec/draft/lifted_drafter.hpp"
#include "specdec/draft/model_drafter.hpp"
#include "specdec/draft/one_text_drafter.hpp"
#include "specdec/draft/strategies/line.hpp"
#include "specdec/draft/strategies/siblings.hpp"
#include "specdec/draft/strategies/spares.hpp"
#include "specdec/draft/strategies/tree.hpp"
#include "specdec/draft/strategies/tree_shape.hpp"
#include "specdec/executor.hpp"
#include "specdec/loop/batch.hpp"
#include "specdec/loop/spec_dec.hpp"
#include "specdec/measure/print_stats.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/model_per_sequence.hpp"
#include "specdec/model/path_by_path.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/rows/kinds/logits.hpp"
#include "specdec/rows/kinds/part_of_row.hpp"
#include "specdec/rows/kinds/row_range.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/row_vectors.hpp"
#include "specdec/rows/kinds/sparse.hpp"
#include "specdec/rows/kinds/variant_rows.hpp"
#include "specdec/rows/read/overlap.hpp"
#include "specdec/rows/read/top_tokens.hpp"
#include "specdec/rows/read/validate.hpp"
#include "specdec/sample/chain.hpp"
#include "specdec/sample/processed_model.hpp"
#include "specdec/sample/processed_rows.hpp"
#include "specdec/sample/processed_target.hpp"
#include "specdec/sample/steps/min_p.hpp"
#include "specdec/sample/steps/temperature.hpp"
#include "specdec/sample/steps/top_k.hpp"
#include "specdec/sample/steps/top_p.hpp"
#include "specdec/sample/text_processor.hpp"
#include "specdec/text/stop_strings.hpp"
#include "specdec/verify/block.hpp"
#include "specdec/verify/k_seq.hpp"
#include "specdec/verify/rules/argmax.hpp"
#include "specdec/verify/rules/greedy_block.hpp"
#include "specdec/verify/rules/keyed.hpp"
#include "specdec/verify/rules/lenient.hpp"
#include "specdec/verify/rules/recursive_rejection.hpp"
#include "specdec/verify/rules/sample_match.hpp"
#include "specdec/verify/rules/token.hpp"
#include "specdec/verify/rules/traversal.hpp"
#include "specdec/verify/rules/trunk_and_spares.hpp"
#include "specdec/verify/verify_batch.hpp"
#include "specdec/version.hpp"
