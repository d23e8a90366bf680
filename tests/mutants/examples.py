"""Mutants of the examples' transformer."""

from mutants import promise

mutant = promise("a checkpoint asks for no more memory than its bytes are good for")
mutant("checkpoint-cache-of-any-size", "examples/transformer/checkpoint.hpp", "examples/tests/checkpoint",
       "    check_cache();\n", "")
