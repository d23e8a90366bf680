"""Mutants of the examples' transformer."""

from mutants import promise

mutant = promise("a checkpoint asks for no more memory than its bytes are good for")
mutant("checkpoint-context-of-any-size", "examples/transformer/checkpoint.hpp", "examples/tests/checkpoint",
       "    check_context();\n", "")
mutant("checkpoint-scores-uncounted", "examples/transformer/attention.hpp", "examples/tests/checkpoint",
       "scores = attended_at_once * s.group();", "scores = 0;")
mutant("checkpoint-panels-uncounted", "examples/transformer/attention.hpp", "examples/tests/checkpoint",
       "heads * (s.head_size() + padded(s.head_size()))", "heads * 2 * s.head_size()")
