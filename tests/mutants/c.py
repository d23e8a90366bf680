"""Mutants of the C interface."""

from mutants import promise

mutant = promise("a call in C gives the verdict of C++, and what fails changes nothing")
C = "tests/c/specdec"
mutant("c-row-stride-forgotten", "c/rows.hpp", C, "first += i * rows_.row_stride;", "first += i * rows_.vocab_size;")
mutant("c-part-from-the-first-row", "c/rows.hpp", C, "some.first_ += first;", "")
mutant("c-list-unchecked", "c/rows.hpp", C, "    check_list(row);\n", "")
mutant("c-list-sum-unchecked", "c/rows.hpp", C, "    check_sum(row, \"renormalise them after a cut\");\n", "")
mutant("c-rows-uncounted", "c/specdec.hpp", C, "if (rows >= 0 && rows != expected)", "if (false)")
mutant("c-offsets-by-difference", "c/specdec.hpp", C, "if (offsets[i + 1] < offsets[i])",
       "if (static_cast<int64_t>(static_cast<uint64_t>(offsets[i + 1]) - static_cast<uint64_t>(offsets[i])) < 0)")
mutant("c-last-failure-told", "c/specdec.hpp", C, "if (first == SPECDEC_OK) first = statuses[i];",
       "if (statuses[i] != SPECDEC_OK) first = statuses[i];")
mutant("c-bad-count-unsaid", "c/specdec.hpp", C, "status_of({errors, drafts == 0 ? 0 : error_size}, [&] {", "status_of({nullptr, 0}, [&] {")
mutant("c-list-drawn-by-places", "c/rows.hpp", C, "if constexpr (listed<decltype(row)>) return row.support(k);", "if constexpr (false) return k;")
mutant("c-greedy-logits-drawn", "c/rows.hpp", C, "LogitsRow<S, Stride>(numbers, 0.0)", "LogitsRow<S, Stride>(numbers, 1.0)")
mutant("c-null-pointer-read", "c/rows.hpp", C, "if (rows_.pointers[i] == nullptr) invalid_argument", "if (false) invalid_argument")
mutant("c-halves-bound-of-floats", "c/rows.hpp", C, "if (std::holds_alternative<DenseRow<Eigen::half, Eigen::Dynamic>>(row.held()))", "if (false)")
mutant("c-generator-stands-still", "c/specdec.hpp", C, "  rng.offset = source.offset();\n", "")
mutant("c-batch-target-rows-shifted", "c/specdec.hpp", C, "target.part(first + i, gamma + 1)", "target.part(first, gamma + 1)")
mutant("c-path-backwards", "c/specdec.hpp", C, "path[--at] =", "path[accepted - at--] =")
mutant("c-no-memory-is-a-bad-argument", "c/specdec.hpp", C, "failed(SPECDEC_OUT_OF_MEMORY,", "failed(SPECDEC_INVALID_ARGUMENT,")
mutant("c-failure-of-all-told-once", "c/specdec.hpp", C, "if (i > 0 && errors != nullptr) texts.of(i).set(errors);", "")
mutant("list-longer-than-its-vocabulary-read", "c/rows.hpp", "tests/c/specdec", "else if (rows_.offsets[i] - rows_.offsets[i - 1] > rows_.vocab_size)", "else if (false)")
mutant("error-buffers-overflow", "c/specdec.hpp", "tests/c/specdec", "if (errors != nullptr && drafts > 0 && size", "if (errors != nullptr && drafts < 0 && size")
mutant("error-buffer-of-more-than-ints", "c/specdec.hpp", "tests/c/specdec", "std::snprintf(text, std::min(size, most)", "std::snprintf(text, size")
