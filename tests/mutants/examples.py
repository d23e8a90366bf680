"""Mutants of the examples: of a drafter, and of the transformer."""

from mutants import promise

LOOKAHEAD = "examples/drafters/lookahead.hpp"
mutant = promise("lookahead proposes the target's answers again, each in its place, and pools those that followed one another")
mutant("lookahead-place-before", LOOKAHEAD, "examples/tests/lookahead",
       "begin_ = seen_ + verdict.node + 1;", "begin_ = seen_ + verdict.node;")
mutant("lookahead-guesses-not-passed-by", LOOKAHEAD, "examples/tests/lookahead",
       "else guesses_.erase(guesses_.begin(), guesses_.begin() + grown);", "")
mutant("lookahead-guesses-of-another-text", LOOKAHEAD, "examples/tests/lookahead",
       "seen_ = std::max<Index>(length, 0);\n    guesses_.clear();", "seen_ = std::max<Index>(length, 0);")
mutant("lookahead-trail-lost", LOOKAHEAD, "examples/tests/lookahead",
       "propose(guesses_[i]);", "propose({guesses_[i].back()});")
mutant("lookahead-pool-drops-the-latest", LOOKAHEAD, "examples/tests/lookahead",
       "== most_) at = rests.begin();", "== most_) at = rests.end() - rest_;")
mutant("lookahead-guess-has-no-say", LOOKAHEAD, "examples/tests/lookahead",
       "pool_.rest(trail.back(), guess(tokens_.size()))", "pool_.rest(trail.back(), std::nullopt)")
mutant("lookahead-bad-row-after-the-stop", LOOKAHEAD, "examples/tests/lookahead",
       "catch (const specdec::InvalidDistribution&)", "catch (const std::bad_alloc&)")

mutant = promise("a checkpoint asks for no more memory than its bytes are good for")
mutant("checkpoint-context-of-any-size", "examples/transformer/checkpoint.hpp", "examples/tests/checkpoint",
       "    check_context();\n", "")
mutant("checkpoint-scores-uncounted", "examples/transformer/attention.hpp", "examples/tests/checkpoint",
       "scores = attended_at_once * s.group();", "scores = 0;")
mutant("checkpoint-panels-uncounted", "examples/transformer/attention.hpp", "examples/tests/checkpoint",
       "heads * (s.head_size() + padded(s.head_size()))", "heads * 2 * s.head_size()")

ATTENTION, TRANSFORMER = "examples/transformer/attention.hpp", "examples/transformer/transformer.hpp"
CONTEXT, LAYERS = "examples/transformer/context.hpp", "examples/transformer/layers.hpp"
TREE = "examples/tests/tree"

mutant = promise("the transformer's row of a token of a tree is that of a line of the tokens on its way")
mutant("branch-keys-turned-by-number", ATTENTION, TREE, "rotation_(context + tree.depth(token), keys", "rotation_(context + token, keys")
mutant("branch-queries-turned-by-number", ATTENTION, TREE, "position = context + tree.depth(token + v / group_)", "position = context + token + v / group_")
mutant("branch-scores-not-brought-together", ATTENTION, TREE,
       "for (Index d = moved; d <= depth; ++d) scores[context + d] = scores[slot(d)];", "")
mutant("branch-weights-left-behind", ATTENTION, TREE, "std::exchange(scores[context + d], 0.0f)", "scores[context + d]")
mutant("branch-weights-overwritten", ATTENTION, TREE, "for (Index d = depth; d >= moved; --d)", "for (Index d = moved; d <= depth; ++d)")
mutant("branch-kept-where-it-was", CONTEXT, TREE, "if (token == i) continue;", "if (token >= i) continue;")
mutant("branch-values-not-kept", ATTENTION, TREE,
       "for (Index i = 0; i < values.rows(); ++i) values(i, to) = values(i, from);", "(void)values;")
mutant("branch-taken-for-a-look-ahead", TRANSFORMER, TREE, "while (n > 0 && context_.tree().depth(n - 1) != n - 1) --n;", "")
mutant("branches-beyond-the-context", LAYERS, TREE, "taken = context.length() + context.tree().size();", "taken = context.length();")
mutant("branches-outlive-rollback", CONTEXT, TREE, "tree_.clear();\n    length_ = std::clamp", "length_ = std::clamp")
mutant("branches-joined-by-line", CONTEXT, TREE, "if (!tree_.empty())", "if (false)")
mutant("branch-of-anything-kept", "examples/transformer/tree.hpp", TREE, " || parent(path[i]) != last)", ")")
mutant("branch-after-what-comes", "examples/transformer/tree.hpp", TREE, "parent >= size() + k)", "parent > size() + k)")

BATCH, TOGETHER = "examples/transformer/batch.hpp", "examples/tests/transformer_batch"
CONTEXTS = "examples/transformer/contexts.hpp"

mutant = promise("the transformer's rows of a batch are those of each sequence alone, and a call that fails changes nothing")
mutant("together-rows-not-moved", LAYERS, TOGETHER, "    move_rows(stretches, first + count);\n", "")
mutant("together-rows-moved-from-the-first", LAYERS, TOGETHER, "for (Index i = 1; i <= stretch->rows; ++i)", "for (Index i = stretch->rows; i >= 1; --i)")
mutant("together-shown-rows-not-moved", BATCH, TOGETHER, "if (!shown_.empty()) layers_.move_rows(stretches, tokens);", "if (!shown_.empty()) ;")
mutant("together-hidden-of-the-first-text", BATCH, TOGETHER, "      column += stretch.tokens;\n    }\n  }", "    }\n  }")
mutant("together-last-layer-not-shown", BATCH, TOGETHER, "    if (!shown_.empty()) layer(last, stretches);\n", "    if (!shown_.empty()) layers_.run(last, stretches, 0);\n")
mutant("together-queries-of-first-tokens", LAYERS, "examples/tests/transformer", "joined_.middleCols(column - stretch.rows,", "joined_.middleCols(column - stretch.tokens,")
mutant("together-read-by-first", LAYERS, TOGETHER, "      row += stretch.rows;\n", "")
mutant("together-context-not-emptied", CONTEXTS, TOGETHER, "      seat->context.truncate(0);\n", "")
mutant("together-context-not-given-back", CONTEXTS, TOGETHER, "      seat->taken = false;\n", "")
mutant("together-line-left-open", CONTEXTS, TOGETHER, "if (feeds[i].parents.empty()) stretches_[i].context->take_line();", "{}")
mutant("together-fed-after-anything", CONTEXTS, TOGETHER, "if (feed.from != length)", "if (false)")
mutant("together-fed-twice", CONTEXTS, TOGETHER, "if (feeds[i].sequence == feed.sequence)", "if (false)")
mutant("together-checked-as-it-goes", BATCH, TOGETHER,
       "contexts_.check(feeds, layers_);\n    const FeedSizes sizes(feeds);\n    contexts_.reserve(feeds);", "const FeedSizes sizes(feeds);\n    contexts_.reserve(feeds);\n    contexts_.check(feeds, layers_);")
mutant("together-tree-unchecked", CONTEXTS, TOGETHER, "context.check_closed(words..., where);", "{}")

SHOWN, LAST = "examples/tests/generate_trees", "examples/generate/last_draft.hpp"

mutant = promise("of a tree the accepted way is shown, and what the eldest children would have gone on with")
mutant("shown-way-backwards", LAST, SHOWN, "    std::ranges::reverse(drafted);\n", "")
mutant("shown-way-without-its-rest", LAST, SHOWN, "drafted.push_back(tokens[static_cast<std::size_t>(node)]);", "")
mutant("shown-way-from-one-too-far", LAST, SHOWN, "specdec::Index node = stop.node - 1;", "specdec::Index node = stop.node;")

mutant = promise("a trunk has all the children of its level, and spares are what stands beside it")
mutant("trunk-of-last-children", "examples/generate/tree_shapes.hpp", SHOWN, "trunk = first;", "trunk = std::ssize(parents) - 1;")
mutant("trunk-counted-as-spare", "examples/generate/tree_shapes.hpp", SHOWN, "shape.children(trunk) - 1", "shape.children(trunk)")

LLAMA, BRANCHES = "examples/llama_cpp/llama_model.hpp", "examples/llama_cpp/llama_tree.hpp"
IN_LITTLE, HELD = "examples/tests/llama_model", "examples/tests/llama_tree"

GRAMMAR, OF_GRAMMAR = "examples/llama_cpp/llama_grammar.hpp", "examples/tests/llama_grammar"
mutant = promise("a grammar of llama.cpp is a processor")
mutant("llama-grammar-accepts-anything", GRAMMAR, OF_GRAMMAR, "if (forbidden(candidates_.front())) return false;", "")
mutant("llama-grammar-of-any-row", GRAMMAR, OF_GRAMMAR, "std::min<specdec::Index>(logits.size(), weights_.vocab_size())", "logits.size()")
mutant("llama-grammar-of-any-token", GRAMMAR, OF_GRAMMAR, "if (x < 0 || x >= weights_.vocab_size()) return false;", "")
mutant("llama-grammar-of-nothing", GRAMMAR, OF_GRAMMAR, "if (logits.minCoeff() == 0)", "if (false)")

mutant = promise("on llama.cpp, too, a row of a tree is that of a line of the tokens on its way")
mutant("llama-branch-one-too-deep", LLAMA, IN_LITTLE, "add(tokens, rows, length_ + tree_.depth(token) - 1,", "add(tokens, rows, length_ + tree_.depth(token),")
mutant("llama-branch-after-the-last-token", LLAMA, IN_LITTLE, "add(tokens, rows, length_ + tree_.depth(token) - 1,", "add(tokens, rows, length_ + token,")
mutant("llama-branch-without-what-lies-before", BRANCHES, HELD, "share(holder(from), sequence, depth(from));", "")
mutant("llama-branch-with-too-little-before", BRANCHES, IN_LITTLE, "share(holder(from), sequence, depth(from));", "share(holder(from), sequence, depth(from) - 1);")
mutant("llama-line-in-one-sequence", LLAMA, IN_LITTLE, "add(tokens, rows, length_ + i, all_sequences_);", "add(tokens, rows, length_ + i, std::span(all_sequences_).first(1));")
mutant("llama-caches-apart", "examples/llama_cpp/llama_context.hpp", IN_LITTLE, "    llama_api::share_one_cache(params);\n", "")
mutant("llama-rows-of-a-batch-before", "examples/llama_cpp/llama_context.hpp", IN_LITTLE, "std::min(batch_size(), left - rows);", "batch_size();")

mutant = promise("on llama.cpp every sequence holds the context when a tree is closed, and nothing else")
mutant("llama-kept-for-one-sequence", LLAMA, IN_LITTLE, "if (sequence != kept) share(kept, sequence, std::ssize(path));", "(void)sequence;")
mutant("llama-kept-with-what-follows", LLAMA, IN_LITTLE, "remove(static_cast<llama_seq_id>(kept), length_ + std::ssize(path));", "")
mutant("llama-kept-with-other-branches", LLAMA, IN_LITTLE, "if (sequence != kept && tree_.end(sequence) >= 0) remove(sequence, length_);", "(void)sequence;")
mutant("llama-branches-outlive-rollback", LLAMA, IN_LITTLE, "if (tree_.empty() && length >= length_) return;", "if (length >= length_) return;")
mutant("llama-anything-kept", BRANCHES, IN_LITTLE, " || parents_[at(token)] != last)", ")")

mutant = promise("on llama.cpp a call that fails or is refused leaves context and tree as they were")
mutant("llama-part-of-a-line-left", LLAMA, IN_LITTLE, "remove(-1, length_);  // llama.cpp may hold a part of the call", "")
mutant("llama-part-of-a-tree-left", LLAMA, IN_LITTLE, "        remove(sequence, length_ + tree_.depth(tree_.end(sequence)));", "        (void)sequence;")
mutant("llama-tree-grown-all-the-same", LLAMA, IN_LITTLE, "      tree_.shrink();\n", "")
mutant("llama-leaves-uncounted", BRANCHES, HELD, "      shrink();\n", "")
mutant("llama-children-not-taken-back", BRANCHES, HELD, "--children_[at(parents_[at(token)])];", "(void)token;")
mutant("llama-room-without-the-tree", LLAMA, IN_LITTLE, "context_.check(length_ + tree_.size(), count, rows);", "context_.check(length_, count, rows);")
mutant("llama-line-after-open-tree", LLAMA, IN_LITTLE, "if (!tree_.empty())\n      throw std::logic_error", "if (false)\n      throw std::logic_error")
mutant("llama-keep-drafting-with-what-stayed", LLAMA, IN_LITTLE, "if (!context_.remove(sequence, from)) broken_ = true;", "if (!context_.remove(sequence, from)) broken_ = false;")

RECURRENT, TAKEN_BACK = "examples/llama_cpp/llama_recurrent.hpp", "examples/tests/llama_recurrent"

mutant = promise("on llama.cpp a recurrent model goes back to a state that was saved")
mutant("llama-state-after-another", RECURRENT, TAKEN_BACK, "if (!context_.remove(0, 0)) throw", "if (false) throw")
mutant("llama-state-of-nothing", RECURRENT, TAKEN_BACK, "if (snapshot.length > 0 &&", "if (false &&")
mutant("llama-state-at-no-place", RECURRENT, TAKEN_BACK, "length_ = snapshot.length;", "")
mutant("llama-state-not-loaded-unnoticed", RECURRENT, TAKEN_BACK, "!context_.load(0, snapshot.state))", "context_.load(0, snapshot.state) && false)")

ABREAST, SERVED = "examples/llama_cpp/llama_batch.hpp", "examples/tests/llama_batch"

mutant = promise("on llama.cpp a batch is one call, and its rows are those after each sequence's text")
mutant("llama-together-last-rows-only", ABREAST, SERVED, "k >= count - feed.rows);", "k == count - 1 && feed.rows > 0);")
mutant("llama-together-rows-unasked", ABREAST, SERVED, "k >= count - feed.rows);", "true);")
mutant("llama-together-rows-side-by-side", ABREAST, SERVED, "      end += std::ssize(feed.tokens);\n", "      end += feed.rows;\n")
mutant("llama-together-from-the-beginning", ABREAST, SERVED, "feed.from + k,", "k,")
mutant("llama-together-in-one-sequence", ABREAST, SERVED, "std::span(&seat.id, 1)", "std::span(&seats_.front().id, 1)")
mutant("llama-together-as-much-as-at-once", ABREAST, SERVED, ".batch = std::max(cells_, checked(options.sequences)),", ".batch = options.batch,")
mutant("llama-together-nothing-cut", ABREAST, SERVED, "    cut(*seat, std::clamp<Index>(length, 0, seat->length));\n", "")
mutant("llama-together-cut-below-nothing", ABREAST, SERVED, "std::clamp<Index>(length, 0, seat->length)", "std::min(length, seat->length)")
mutant("llama-together-not-emptied", ABREAST, SERVED, "    cut(*seat, 0);\n", "")
mutant("llama-together-id-not-given-back", ABREAST, SERVED, "    seat->taken = false;\n", "")
mutant("llama-together-one-id-for-two", ABREAST, SERVED, "seat = &*next++;", "seat = &*next;")
mutant("llama-together-cells-uncounted", ABREAST, SERVED, "    held_ += call_.size();\n", "")
mutant("llama-together-cells-not-given-back", ABREAST, SERVED, "    held_ -= seat.length - length;\n", "")

mutant = promise("on llama.cpp a call of a batch that fails or is refused leaves every sequence as it was")
mutant("llama-together-part-left", ABREAST, SERVED, "      undo();\n      throw;", "      throw;")
mutant("llama-together-taken-at-once", ABREAST, SERVED, "seat = &*next++;", "seat = &*next++;\n        seat->sequence = feeds[i].sequence, seat->taken = true;")
mutant("llama-together-unknown-token", ABREAST, SERVED, "x < 0 || x >= vocab_size())", "x < 0)")
mutant("llama-together-negative-token", ABREAST, SERVED, "x < 0 || x >= vocab_size())", "x >= vocab_size())")
mutant("llama-together-fed-twice", ABREAST, SERVED, "if (feeds[i].sequence == feed.sequence)", "if (false)")
mutant("llama-together-tree-as-line", ABREAST, SERVED, "if (!feed.parents.empty())", "if (false)")
mutant("llama-together-more-rows-than-tokens", ABREAST, SERVED, "feed.rows < 0 || feed.rows > count)", "feed.rows < 0)")
mutant("llama-together-fewer-rows-than-none", ABREAST, SERVED, "feed.rows < 0 || feed.rows > count)", "feed.rows > count)")
mutant("llama-together-fed-after-anything", ABREAST, SERVED, "if (feed.from != held)", "if (false)")
mutant("llama-together-beyond-the-context", ABREAST, SERVED, "if (count > context_size() - held)", "if (false)")
mutant("llama-together-beyond-the-cells", ABREAST, SERVED, "if (tokens > cells() - held())", "if (false)")
mutant("llama-together-context-unsaid", ABREAST, SERVED, "Index context_size() const { return context_size_; }", "Index context_size() const { return cells_; }")

mutant = promise("on llama.cpp what could not be taken back costs its own sequence, until it can")
mutant("llama-together-cut-believed", ABREAST, SERVED, "seat.broken = !context_.remove(seat.id, length);", "seat.broken = false, void(context_.remove(seat.id, length));")
mutant("llama-together-undo-believed", ABREAST, SERVED, "fed_[i]->broken = !context_.remove(fed_[i]->id, feeds[i].from);", "context_.remove(fed_[i]->id, feeds[i].from);")
mutant("llama-together-fed-on-what-stayed", ABREAST, SERVED, "seat && seat->broken)", "false)")
mutant("llama-together-never-mended", ABREAST, SERVED, " && !seat->broken)) return;", ")) return;")
mutant("llama-together-id-with-what-stayed", ABREAST, SERVED, "return !seat.taken && !seat.broken;", "return !seat.taken;")
mutant("llama-together-id-lost", ABREAST, SERVED, "    if (!seat.taken && seat.broken) cut(seat, 0);\n", "")

SPECULATOR, SPECULATOR_TEST = "examples/transformer/speculator.hpp", "examples/tests/speculator"

mutant = promise("the transformer shows what its layers returned for the last token of the context")
mutant("hidden-of-the-wanted-rows-alone", TRANSFORMER, SPECULATOR_TEST, "l < last || start > 0 || !shown_.empty();", "l < last || start > 0;")
mutant("hidden-of-the-layer-before", LAYERS, SPECULATOR_TEST, "if (shown[i] == l + 1)", "if (shown[i] == l)")
mutant("hidden-of-another-branch", CONTEXT, SPECULATOR_TEST,
       "      if (states_.size() > 0) states_.col(length_ + i) = states_.col(length_ + token);\n", "")
mutant("hidden-of-the-first-tokens", CONTEXT, SPECULATOR_TEST, "states_.middleCols(length_ + tree_.size() - count, count)", "states_.middleCols(length_, count)")
mutant("hidden-of-the-last-call", CONTEXT, SPECULATOR_TEST, "return state(length_ - 1);", "return state(std::max<Index>(length_ - 2, 0));")
mutant("hidden-of-the-token-before", CONTEXT, "examples/tests/speculator", "return states_.col(token);", "return states_.col(std::max<Index>(token - 1, 0));")
mutant("hidden-from-the-middle-of-a-text", TRANSFORMER, SPECULATOR_TEST, "if (length() > 0 || !context_.tree().empty())", "if (false)")

mutant = promise("a product is W x, for any number of vectors, and for weights in halves")
PRODUCT, PRODUCT_TEST = "examples/transformer/product.hpp", "examples/tests/product"
mutant("product-without-the-last-panels", PRODUCT, PRODUCT_TEST, "for (; p < w.panels; ++p) Tile<1, Count>", "for (; p + 1 < w.panels; ++p) Tile<1, Count>")
mutant("product-of-the-first-panel-again", PRODUCT, PRODUCT_TEST, "load(column + offset(R, stride))", "load(column + offset(R, 0))")
mutant("product-tiles-that-overlap", PRODUCT, PRODUCT_TEST, "last - first, x.stride}", "last - first + 1, x.stride}")
mutant("half-without-its-exponent", PRODUCT, PRODUCT_TEST, "* 0x1p112f", "* 0x1p111f")
mutant("half-without-its-sign", PRODUCT, PRODUCT_TEST, "& ~0x70000000", "& 0x0fffffff")

mutant = promise("a speculator computes its formulae")
mutant("speculator-gate-and-up-change-places", SPECULATOR, SPECULATOR_TEST,
       "gate_up.set_rows(0, gate);\n    gate_up.set_rows(padded(hidden), file.matrix(hidden, dim));", "gate_up.set_rows(padded(hidden), gate);\n    gate_up.set_rows(0, file.matrix(hidden, dim));")
mutant("speculator-next-state-not-normed", SPECULATOR, SPECULATOR_TEST, "    normalise(weights_->state_norm, 0, count);\n", "")
mutant("speculator-rows-of-the-first-tokens", SPECULATOR, SPECULATOR_TEST, "normalise(weights_->norm, count - rows, rows);", "normalise(weights_->norm, 0, rows);")
mutant("speculator-features-of-any-size", SPECULATOR, SPECULATOR_TEST, "if (hidden.size() != features_size())", "if (false)")
mutant("norm-without-its-floor", "examples/transformer/feed_forward.hpp", "examples/tests/speculator examples/tests/transformer", "+ 1e-5f", "+ 1e-2f")
mutant("swiglu-of-the-wrong-half", "examples/transformer/feed_forward.hpp", "examples/tests/speculator examples/tests/transformer", "gate *= up / (1 + (-gate).exp());", "gate = up * up / (1 + (-gate).exp());")

WEIGHT_FILE, WEIGHT_FILE_TEST = "examples/transformer/weight_file.hpp", "examples/tests/weight_file"

mutant = promise("a file of weights holds the numbers that it should, and no broken one is read")
mutant("weights-of-more-than-is-read", WEIGHT_FILE, WEIGHT_FILE_TEST, "if (bytes_.size() != at_)", "if (false)")
mutant("weights-beyond-the-file", WEIGHT_FILE, WEIGHT_FILE_TEST, "    need(2 * size);\n", "")
mutant("weights-of-a-header-cut-short", WEIGHT_FILE, "examples/tests/speculator examples/tests/medusa", "bytes_.size() < header || ", "")
mutant("weights-of-another-kind", WEIGHT_FILE, "examples/tests/speculator examples/tests/medusa", "static_cast<std::uint32_t>(at(0)) != magic || ", "")
mutant("weights-of-another-version", WEIGHT_FILE, WEIGHT_FILE_TEST, " || at(1) > 2", "")
mutant("weights-of-infinity", WEIGHT_FILE, WEIGHT_FILE_TEST, "if (!numbers.allFinite())", "if (false)")
mutant("weights-of-any-sizes", WEIGHT_FILE, "examples/tests/speculator examples/tests/medusa", "at(i) < least || ", "")
mutant("weights-without-their-scale", WEIGHT_FILE, WEIGHT_FILE_TEST, "const float scale = scaled ? half() : 1;", "const float scale = scaled ? half() * 0 + 1 : 1;")
mutant("weights-without-a-sign", WEIGHT_FILE, WEIGHT_FILE_TEST, "static_cast<signed char>", "static_cast<unsigned char>")

EAGLE_LAYER, EAGLE_LAYER_TEST = "examples/transformer/eagle.hpp", "examples/tests/eagle"

mutant = promise("an EAGLE layer computes its formulae, in trees too")
mutant("eagle-layer-halves-change-places", EAGLE_LAYER, EAGLE_LAYER_TEST, "of_token.set_rows(0, halves.leftCols(dim));\n    of_state.set_rows(0, halves.rightCols(dim));", "of_token.set_rows(0, halves.rightCols(dim));\n    of_state.set_rows(0, halves.leftCols(dim));")
mutant("eagle-layer-state-not-normed", EAGLE_LAYER, EAGLE_LAYER_TEST, "    normalise(weights_->state_norm, count);\n", "    normed_.topLeftCorner(dim, count) = x_.topLeftCorner(dim, count);\n")
mutant("eagle-layer-token-replaced-by-its-state", EAGLE_LAYER, EAGLE_LAYER_TEST, "    add_product(weights_->of_state", "    product(weights_->of_state")
mutant("eagle-layer-rows-of-the-first-tokens", EAGLE_LAYER, EAGLE_LAYER_TEST, "layers_.classify(count - rows, rows)", "layers_.classify(0, rows)")
mutant("eagle-layer-line-stays-a-tree", EAGLE_LAYER, EAGLE_LAYER_TEST, "    context_.take_line();\n", "")
mutant("eagle-layer-norms-as-matrices", EAGLE_LAYER, EAGLE_LAYER_TEST, "own.set(part, 0, file.row(dim));", "own.set(part, 0, file.matrix(1, dim));")
mutant("eagle-layer-line-in-an-open-tree", EAGLE_LAYER, EAGLE_LAYER_TEST, "    context_.check_closed();\n", "")
mutant("eagle-layer-any-parents", EAGLE_LAYER, EAGLE_LAYER_TEST, '    layers_.check_parents(context_, tokens, parents, "EAGLE layer: ");\n', "")
mutant("eagle-layer-features-of-any-size", EAGLE_LAYER, EAGLE_LAYER_TEST, "if (hidden.size() != features_size())", "if (false)")
mutant("eagle-layer-of-any-heads", EAGLE_LAYER, EAGLE_LAYER_TEST, "shape.dim % (2 * heads) == 0 && ", "")
mutant("eagle-layer-beyond-its-context", EAGLE_LAYER, EAGLE_LAYER_TEST, '    layers_.check(context_, tokens, rows, 0, "EAGLE layer: ");\n', "")

EAGLE_BATCH = "examples/transformer/eagle_batch.hpp"

mutant = promise("an EAGLE layer for many texts gives each text the rows and states that it has alone")
mutant("eagle-batch-tokens-in-one-column", EAGLE_BATCH, EAGLE_LAYER_TEST, "      column += std::ssize(feed.tokens);\n", "")
mutant("eagle-batch-rows-not-moved", EAGLE_BATCH, EAGLE_LAYER_TEST, "    layers_.move_rows(stretches, sizes.tokens);\n", "")
mutant("eagle-batch-rows-of-every-token", EAGLE_BATCH, EAGLE_LAYER_TEST, "stretches[i].rows = feeds[i].rows;", "stretches[i].rows = stretches[i].tokens;")
mutant("eagle-batch-states-of-moved-rows", EAGLE_BATCH, EAGLE_LAYER_TEST, "    contexts_.take_lines(feeds);\n", "    contexts_.take_lines(feeds);\n    next = layers_.features(0, sizes.tokens);\n")
mutant("eagle-batch-line-left-open", EAGLE_BATCH, EAGLE_LAYER_TEST, "    contexts_.take_lines(feeds);\n", "")
mutant("eagle-batch-unchecked", EAGLE_BATCH, EAGLE_LAYER_TEST, '    contexts_.check(feeds, layers_, "EAGLE layer: ");\n', "")
mutant("eagle-batch-cut-one-too-late", EAGLE_BATCH, EAGLE_LAYER_TEST, "contexts_.keep(sequence, length);", "contexts_.keep(sequence, length + 1);")
mutant("eagle-batch-never-released", EAGLE_BATCH, EAGLE_LAYER_TEST, "contexts_.release(sequence);", "contexts_.keep(sequence, contexts_.of(sequence).length());")

MEDUSA, MEDUSA_TEST = "examples/transformer/medusa.hpp", "examples/tests/medusa"

mutant = promise("Medusa computes its formulae: a row follows from the hidden state, the depth and the token before")
mutant("medusa-stands-still", MEDUSA, MEDUSA_TEST, "    next.row(weights_->dim).array() += 1;\n", "")
mutant("medusa-goes-round", MEDUSA, MEDUSA_TEST, "std::min(static_cast<Index>(states(dim, i)), heads() - 1)", "static_cast<Index>(states(dim, i)) % heads()")
mutant("medusa-begins-one-too-deep", MEDUSA, MEDUSA_TEST, "state << hidden, 0;", "state << hidden, 1;")
mutant("medusa-rows-of-a-state-before", MEDUSA, MEDUSA_TEST, "if (states.col(0).head(dim) != hidden_.col(0).head(dim).matrix())", "if ((hidden_.col(0) == 0).all())")
mutant("medusa-blocks-without-their-input", MEDUSA, MEDUSA_TEST, "states_.col(i) = hidden.col(c);", "states_.col(i).setZero();")
mutant("medusa-one-block-for-all", MEDUSA, MEDUSA_TEST, "&inner_(k * padded(weights_->hidden), c)", "&inner_(0, c)")
mutant("medusa-terms-of-the-first-tokens", MEDUSA, MEDUSA_TEST, "tokens.last(", "tokens.first(")
mutant("medusa-rows-of-the-first-states", MEDUSA, MEDUSA_TEST, "put_marginals(states.rightCols(rows));", "put_marginals(states.leftCols(rows));")
mutant("medusa-all-of-the-first-state", MEDUSA, MEDUSA_TEST, "if (!of_one_state(states)) {", "if (false) {")
mutant("medusa-one-block-for-all-texts", MEDUSA, MEDUSA_TEST, "const Index c = columns == 1 ? 0 : i,", "const Index c = 0,")
mutant("medusa-matrices-change-places", MEDUSA, MEDUSA_TEST,
       "before = file.panels<Scalar>(vocab_size, rank);\n    after = file", "after = file.panels<Scalar>(vocab_size, rank);\n    before = file")
mutant("medusa-for-any-target", MEDUSA, MEDUSA_TEST, "vocab_size() != vocab || weights_->dim != dim)", "weights_->dim != dim)")
mutant("medusa-of-any-hidden-state", MEDUSA, MEDUSA_TEST, "if (hidden.size() != weights_->dim)", "if (false)")
mutant("silu-without-its-input", "examples/transformer/feed_forward.hpp", MEDUSA_TEST, "x /= 1 + (-x).exp();", "x = 1 / (1 + (-x).exp());")

ONLINE, ONLINE_TEST = "examples/transformer/online_model.hpp", "examples/tests/online"
ONLINE_DRAFTER = "examples/drafters/online.hpp"

mutant = promise("an online model learns along the gradient of what is accepted, from the rows of the text")
mutant("online-learns-to-be-rejected", ONLINE, ONLINE_TEST, "q *= more - share;", "q *= share - more;")
mutant("online-step-that-moves-the-mass", ONLINE, ONLINE_TEST, "q *= more - share;", "q *= more;")
mutant("online-step-of-any-size", ONLINE, ONLINE_TEST, "rate_ * temperature_ / size", "rate_ * temperature_")
mutant("online-learns-without-a-row", ONLINE, ONLINE_TEST, "if (!(size > 0))", "if (false)")
mutant("online-step-at-temperature-1", ONLINE, ONLINE_TEST, "rate_ * temperature_ / size", "rate_ / size")
mutant("online-drafts-without-what-was-learnt", ONLINE, ONLINE_TEST, "    add_product(learnt_.view(), {&states_(0, first), rows, states_.rows()}, logits, logits_.rows());\n", "")
mutant("online-states-of-other-places", ONLINE, ONLINE_TEST, "&states_(0, first + i)", "&states_(0, i)")
mutant("online-learns-at-the-place-after", ONLINE, ONLINE_TEST, "states_.col(length - 1)", "states_.col(length % context_size())")
mutant("online-learns-from-the-row-after", ONLINE, ONLINE_TEST, "logits_.col(length - 1)", "logits_.col(length % context_size())")
mutant("online-never-forgets", ONLINE, ONLINE_TEST, "void forget() { learnt_ = Panels<float>(vocab_size(), dim()); }", "void forget() {}")
mutant("online-greedy-step-without-need", ONLINE, ONLINE_TEST, "if (greedy_ && drafted == wanted)", "if (false)")
mutant("online-greedy-step-away", ONLINE, ONLINE_TEST, "q = p - q;", "q = q - p;")
mutant("online-other-default-at-temperature-0", ONLINE, ONLINE_TEST, "greedy_ ? 0.1F : 1.0F", "1.0F")
mutant("online-other-default", ONLINE, ONLINE_TEST, "greedy_ ? 0.1F : 1.0F", "0.1F")
mutant("online-any-temperature", ONLINE, ONLINE_TEST, "temperature_ > 0 && temperature_ <", "temperature_ <")
mutant("online-any-rate", ONLINE, ONLINE_TEST, "if (!(rate_ >= 0 && rate_ <= 100))", "if (false)")
mutant("online-row-of-another-vocabulary", ONLINE, ONLINE_TEST, "if (target.size() != vocab_size())", "if (false)")
mutant("online-place-outside", ONLINE, ONLINE_TEST, "length < 1 || length > context_size()", "length < 1")
mutant("online-drafter-leaves-out-the-correction", ONLINE_DRAFTER, ONLINE_TEST, "verdict.node + 1", "verdict.node")
mutant("online-drafter-shows-rows-after-the-text", ONLINE_DRAFTER, ONLINE_TEST, "std::min(verdict.node + 1, std::ssize(drafted))", "std::ssize(drafted)")
mutant("online-drafter-shows-the-bonus-row", ONLINE_DRAFTER, ONLINE_TEST, "std::min(verdict.node + 1, std::ssize(drafted))", "verdict.node + 1")
mutant("online-drafter-copies-one-stretch", ONLINE_DRAFTER, ONLINE_TEST, "row.segment(first, count)", "row.segment(0, count)")
mutant("online-drafter-forgets-the-place", ONLINE_DRAFTER, ONLINE_TEST, "context_ + i", "context_")
mutant("online-drafter-never-cuts", ONLINE_DRAFTER, ONLINE_TEST, "drafter_.truncate(length);", "")
mutant("online-drafter-uses-nothing", ONLINE_DRAFTER, ONLINE_TEST, "return drafter_.identities();", "return {};")

SELF, SUBLAYERS, SELF_TEST = "examples/transformer/self_draft.hpp", "examples/transformer/sublayers.hpp", "examples/tests/self_draft"

mutant = promise("a target's own drafts are what the chosen sublayers say after its context, and leave its rows as they are")
mutant("own-draft-that-any-call-goes-on-from", TRANSFORMER, SELF_TEST, "begun = whole > 0 ? this->begun(tokens) : 0;", "begun = this->begun(tokens);")
mutant("own-draft-of-other-sublayers", TRANSFORMER, SELF_TEST, "      ahead_.clear();\n      ahead_by_ = sublayers;", "      ahead_by_ = sublayers;")
mutant("own-draft-attends-where-networks-run", TRANSFORMER, SELF_TEST, "if (ahead_by_.attention(l))", "if (ahead_by_.feed_forward(l))")
mutant("own-draft-networks-run-where-it-attends", TRANSFORMER, SELF_TEST, "if (ahead_by_.feed_forward(l))", "if (ahead_by_.attention(l))")
mutant("own-draft-goes-on-one-layer-too-late", TRANSFORMER, SELF_TEST, "l < whole ? begun : 0;", "l <= whole ? begun : 0;")
mutant("own-draft-of-all-layers-cut-to-its-rows", TRANSFORMER, SELF_TEST, "l < last || start > 0 || !shown_.empty();", "l < last || !shown_.empty();")
mutant("own-draft-hides-its-states", TRANSFORMER, SPECULATOR_TEST, "      layers_.remember_hidden(l, shown_, begun, count, context_);\n", "")
mutant("own-draft-of-layers-that-are-not-there", TRANSFORMER, SELF_TEST, "if (sublayers.layers() > shape().n_layers)", "if (false)")
mutant("own-drafter-of-layers-that-are-not-there", SELF, SELF_TEST, "if (sublayers_.layers() > target.shape().n_layers)", "if (false)")
mutant("own-draft-of-what-the-target-has", SELF, SELF_TEST, "if (behind < rows)", "if (behind < 0)")
mutant("own-draft-keeps-what-was-refused", SELF, SELF_TEST, "      tokens_.resize(before);\n", "")
mutant("own-draft-cut-below-nothing", SELF, SELF_TEST, "std::max<Index>(length, 0)", "length")
mutant("exit-before-the-first-layer", SELF, SELF_TEST, "if (layers < 1 || layers > all)", "if (layers > all)")
mutant("exit-after-the-last-layer", SELF, SELF_TEST, "if (layers < 1 || layers > all)", "if (layers < 1)")
mutant("network-of-the-first-tokens", LAYERS, "examples/tests/transformer", "add_feed_forward(l, first + count - rows, rows);", "add_feed_forward(l, first, rows);")
mutant("whole-layers-with-others-after", SUBLAYERS, SELF_TEST, " && std::find(end, runs_.end(), true) == runs_.end()", "")
mutant("whole-layers-and-a-half", SUBLAYERS, SELF_TEST, "whole % 2 == 0 && ", "")
mutant("sublayers-named-from-nought", SUBLAYERS, SELF_TEST, "std::to_string(sublayer / 2 + 1)", "std::to_string(sublayer / 2)")
mutant("sublayers-change-places", SUBLAYERS, SELF_TEST, "return runs(2 * layer + 1);", "return runs(2 * layer);")

SPARSE, LONG, LONG_TEST = "examples/transformer/sparse_cache.hpp", "examples/transformer/long_context.hpp", "examples/tests/long_context"
ROTATION, WEIGHTS = "examples/transformer/rotation.hpp", "examples/transformer/weights.hpp"

mutant = promise("with a sparse cache, attention reads the first and the latest tokens of the context, and all after it")
mutant("sparse-cache-of-too-few-first-tokens", SPARSE, LONG_TEST, "padded(first), ", "first / lanes * lanes, ")
mutant("sparse-cache-of-too-few-latest-tokens", SPARSE, LONG_TEST, "(context - latest) / lanes * lanes", "padded(context - latest)")
mutant("sparse-cache-of-part-panels", SPARSE, LONG_TEST, "(context - latest) / lanes * lanes", "context - latest")
mutant("sparse-cache-that-overflows", SPARSE, LONG_TEST, "    if (first >= context) return {};\n", "")
mutant("sparse-cache-with-a-gap-of-less-than-nothing", SPARSE, LONG_TEST, "panels.begin < panels.end ? panels : Gap{}", "panels")
mutant("sparse-cache-scored-without-first-tokens", ATTENTION, LONG_TEST, "if (gap.begin > 0) product(cache.keys(head, 0, gap.begin)", "if (gap.begin > 1000) product(cache.keys(head, 0, gap.begin)")
mutant("sparse-cache-read-without-first-tokens", ATTENTION, LONG_TEST, "    if (gap.begin > 0)\n      add_product(", "    if (gap.begin > 1000)\n      add_product(")
mutant("sparse-cache-scores-apart", ATTENTION, LONG_TEST, "turned, weights_.data() + gap.begin, weights_.rows()", "turned, weights_.data() + gap.end, weights_.rows()")
mutant("sparse-cache-weighed-as-a-whole", ATTENTION, LONG_TEST, "weigh(context - gap.size(), tree, token + v / group_, length - gap.size(),", "weigh(context, tree, token + v / group_, length,")
mutant("sparse-cache-keys-of-the-gap", ATTENTION, LONG_TEST, "keys.block(begin, end - begin, 0, keys.cols())", "keys.block(0, end - begin, 0, keys.cols())")
mutant("sparse-cache-values-of-the-gap", ATTENTION, LONG_TEST, "values.block(0, values.rows(), begin, end - begin)", "values.block(0, values.rows(), 0, end - begin)")
mutant("sparse-cache-not-handed-on", LAYERS, LONG_TEST, "stretch.context->length(), stretch.seen,", "stretch.context->length(), SparseCache{},")
mutant("sparse-cache-not-asked-for", TRANSFORMER, LONG_TEST, "count, count, ahead_by_.seen()", "count, count, {}")
mutant("sparse-cache-of-less-than-nothing-first", SUBLAYERS, LONG_TEST, "if (seen.first < 0 || seen.latest < 0)", "if (seen.latest < 0)")
mutant("sparse-cache-of-less-than-nothing-last", SUBLAYERS, LONG_TEST, "if (seen.first < 0 || seen.latest < 0)", "if (seen.first < 0)")
mutant("sparse-cache-gone-on-from", SUBLAYERS, SELF_TEST, "    if (seen_ != SparseCache{}) return 0;\n", "")

mutant = promise("a stretched model is what its adapter makes of it, at positions that were stretched")
mutant("stretched-without-slower-pairs", ROTATION, LONG_TEST, "if (shape.context_size <= trained_) return plain;", "return plain;")
mutant("stretched-with-all-pairs-slower", ROTATION, LONG_TEST, "std::clamp((turns - 0.25) / (4 - 0.25), 0.0, 1.0)", "0.0")
mutant("stretched-without-a-floor", ROTATION, LONG_TEST, "std::clamp((turns - 0.25) / (4 - 0.25), 0.0, 1.0)", "std::min((turns - 0.25) / (4 - 0.25), 1.0)")
mutant("stretched-without-sharper-queries", ROTATION, LONG_TEST, "if (position < trained_) return 1;", "return 1;")
mutant("stretched-with-queries-one-too-early", ROTATION, LONG_TEST, "static_cast<double>(position + 1)", "static_cast<double>(position + 2)")
mutant("sharpness-not-multiplied", ATTENTION, LONG_TEST, "scale * rotation_.sharpness(position)", "scale")
mutant("adapter-without-norms", LONG, LONG_TEST, "if (part == Part::attention_norm) return at(index).attention_norm;", "")
mutant("adapter-without-queries", LONG, LONG_TEST, "return matrix + at(index).query.product();", "return matrix;")
mutant("adapter-that-replaces-keys", LONG, LONG_TEST, "return matrix + at(index).key.product();", "return at(index).key.product();")
mutant("adapter-of-another-dim", LONG, LONG_TEST, 'expect("a dim of ", dim_, shape.dim);', "")
mutant("adapter-of-other-keys", LONG, LONG_TEST, 'expect("a kv_dim of ", kv_dim_, shape.kv_dim());', "")
mutant("adapter-of-other-layers", LONG, LONG_TEST, 'expect("", std::ssize(layers_), shape.n_layers, " layers");', "")
mutant("adapter-of-another-context", LONG, LONG_TEST, 'expect("a context of ", trained_context_, shape.context_size);', "")
mutant("adapter-to-a-shorter-context", LONG, LONG_TEST, '"the context", adapter.trained_context_, longest', '"the context", 1, longest')
mutant("adapter-that-stretches-nothing", LONG, LONG_TEST, "    shape.trained_context = trained_context_;\n", "")
mutant("adapter-forgotten", WEIGHTS, LONG_TEST, "if (adapter) changed = adapter->changed(part, layer, of_file);", "if (adapter) changed = of_file;")

CHOOSE, CHOOSE_TEST = "examples/transformer/choose_sublayers.hpp", "examples/tests/choose_sublayers"

mutant = promise("the search measures the first token of a draft after the target's own context, and leaves out what costs least")
mutant("search-after-too-much", CHOOSE, CHOOSE_TEST, "target.truncate(first + i);", "target.truncate(first + i + 1);")
mutant("search-over-the-prompt", CHOOSE, CHOOSE_TEST, "places += count;", "places += std::ssize(before);")
mutant("search-of-written-tokens-but-one", CHOOSE, CHOOSE_TEST, "const Index first = text.prompt - 1,", "const Index first = text.prompt,")
mutant("search-for-the-worst", CHOOSE, CHOOSE_TEST, "std::ranges::max_element(prospects", "std::ranges::min_element(prospects")
mutant("search-takes-nothing-away", CHOOSE, CHOOSE_TEST, "    rest = path.back().sublayers;\n", "")
mutant("search-with-a-free-classifier", CHOOSE, CHOOSE_TEST, "Index read = shape.classifier_parameters(), all = read;", "Index read = 0, all = shape.classifier_parameters();")
mutant("search-with-networks-for-attentions", CHOOSE, CHOOSE_TEST, "if (sublayers.attention(l)) read", "if (sublayers.feed_forward(l)) read")
mutant("search-with-no-draft", CHOOSE, CHOOSE_TEST, "std::max<Index>(1, specdec::best_gamma(acceptance, share, most))", "specdec::best_gamma(acceptance, share, most)")
mutant("search-at-temperature-one", CHOOSE, CHOOSE_TEST, "((row - largest) / temperature).exp()", "(row - largest).exp()")
mutant("search-greedily-for-anything", CHOOSE, CHOOSE_TEST, "else p[likeliest] = 1;", "else p[0] = 1;")
mutant("search-leaves-its-context", CHOOSE, CHOOSE_TEST, "~Emptied() { target.truncate(0); }", "~Emptied() {}")
mutant("search-of-a-text-without-tokens", CHOOSE, CHOOSE_TEST, "texts[i].prompt >= size", "texts[i].prompt > size")
mutant("search-of-a-text-without-prompt", CHOOSE, CHOOSE_TEST, "texts[i].prompt < 1 || ", "")
