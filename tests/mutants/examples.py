"""Mutants of the examples' transformer."""

from mutants import promise

mutant = promise("a checkpoint asks for no more memory than its bytes are good for")
mutant("checkpoint-context-of-any-size", "examples/transformer/checkpoint.hpp", "examples/tests/checkpoint",
       "    check_context();\n", "")
mutant("checkpoint-scores-uncounted", "examples/transformer/attention.hpp", "examples/tests/checkpoint",
       "scores = attended_at_once * s.group();", "scores = 0;")
mutant("checkpoint-panels-uncounted", "examples/transformer/attention.hpp", "examples/tests/checkpoint",
       "heads * (s.head_size() + padded(s.head_size()))", "heads * 2 * s.head_size()")

ATTENTION, TRANSFORMER = "examples/transformer/attention.hpp", "examples/transformer/transformer.hpp"
TREE = "examples/tests/tree"

mutant = promise("the transformer's row of a token of a tree is that of a line of the tokens on its way")
mutant("branch-keys-turned-by-number", ATTENTION, TREE, "rotation_(context + tree.depth(token), keys", "rotation_(context + token, keys")
mutant("branch-queries-turned-by-number", ATTENTION, TREE, "rotation_(context + tree.depth(token + v / group_)", "rotation_(context + token + v / group_")
mutant("branch-scores-not-brought-together", ATTENTION, TREE,
       "for (Index d = moved; d <= depth; ++d) scores[context + d] = scores[slot(d)];", "")
mutant("branch-weights-left-behind", ATTENTION, TREE, "std::exchange(scores[context + d], 0.0f)", "scores[context + d]")
mutant("branch-weights-overwritten", ATTENTION, TREE, "for (Index d = depth; d >= moved; --d)", "for (Index d = moved; d <= depth; ++d)")
mutant("branch-kept-where-it-was", TRANSFORMER, TREE, "if (token == i) continue;", "if (token >= i) continue;")
mutant("branch-values-not-kept", ATTENTION, TREE,
       "for (Index i = 0; i < values.rows(); ++i) values(i, to) = values(i, from);", "(void)values;")
mutant("branch-taken-for-a-look-ahead", TRANSFORMER, TREE, "while (n > 0 && tree_.depth(n - 1) != n - 1) --n;", "")
mutant("branches-beyond-the-context", TRANSFORMER, TREE, "if (count > context_size() - length_ - tree_.size())", "if (count > context_size() - length_)")
mutant("branches-outlive-rollback", TRANSFORMER, TREE, "tree_.clear();\n    if (length >= length_) return;", "if (length >= length_) return;")
mutant("branches-joined-by-line", TRANSFORMER, TREE, "if (!tree_.empty()) fail", "if (false) fail")
mutant("branch-of-anything-kept", "examples/transformer/tree.hpp", TREE, " || parent(path[i]) != last)", ")")
mutant("branch-behind-what-comes", "examples/transformer/tree.hpp", TREE, "parent >= size() + k)", "parent > size() + k)")

SHOWN, LAST = "examples/tests/generate_trees", "examples/generate/last_draft.hpp"

mutant = promise("of a tree the accepted way is shown, and what the eldest children would have gone on with")
mutant("shown-way-backwards", LAST, SHOWN, "    std::ranges::reverse(drafted);\n", "")
mutant("shown-way-without-its-rest", LAST, SHOWN, "drafted.push_back(tokens[static_cast<std::size_t>(node)]);", "")
mutant("shown-way-from-one-too-far", LAST, SHOWN, "specdec::Index node = stop.node - 1;", "specdec::Index node = stop.node;")

mutant = promise("a trunk has all the children of its level, and spares are what stands beside it")
mutant("trunk-of-last-children", "examples/generate/tree_shapes.hpp", SHOWN, "trunk = first;", "trunk = std::ssize(parents) - 1;")
mutant("trunk-counted-as-spare", "examples/generate/tree_shapes.hpp", SHOWN, "shape.children(trunk) - 1", "shape.children(trunk)")
