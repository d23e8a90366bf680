# SPDX-License-Identifier: MIT
"""Mutants of rows of probabilities, of what is read from them, and of rows over ranks."""

from mutants import promise

mutant = promise("a draw is the inverse distribution function of its row, also of one that sums to a little less than 1")
mutant("draw-token-search", "rows/read/prefix_sampler.hpp", "tests/rows/read/prefix_sampler",
       "x < end && sum <= u; ++x)", "x < end && sum < u; ++x)")
mutant("draw-short-row-head", "rows/read/prefix_sampler.hpp", "tests/rows/read/prefix_sampler",
       "const double v = (u - total()) / (1 - total()) * total();", "const double v = 0;")

mutant = promise("a row is read by the strides of its matrix")
mutant("view-strides-swapped", "rows/numbers.hpp", "tests/rows/kinds/dense",
       "down_(M::IsRowMajor ? matrix.outerStride() : matrix.innerStride())",
       "down_(M::IsRowMajor ? matrix.innerStride() : matrix.outerStride())")

mutant = promise("argmax is the lowest id of the largest number, and sees NaN")
mutant("argmax-of-a-piece", "kernels/reductions.hpp", "tests/kernels/reductions", "found.stretch = first + start;", "found.stretch = start;")
mutant("argmax-of-the-last-equals", "kernels/reductions.hpp", "tests/rows/numbers", "(found.number < x);", "(found.number <= x);")
mutant("argmax-forgets-nan", "kernels/reductions.hpp", "tests/rows/numbers tests/kernels/reductions",
       "found.has_nan |= some != 0;", "found.has_nan = some != 0;")

mutant = promise("a cut that no logit reaches is an error")
mutant("cut-above-all-peaks", "rows/kinds/logits_row.hpp", "tests/rows/kinds/logits_row", " && largest_ >= row.cut_", "")

mutant = promise("a list of tokens is read by its ids, not by their places")
mutant("list-row-by-place", "more/rows/list_row.hpp", "tests/more/rows/list_row",
       "if (x < size() && id_at(x) == x) return x;", "if (x < size()) return x;")
mutant("sparse-draws-positions", "rows/list.hpp", "tests/rows/kinds/sparse",
       "const Token x = row_.support(draw_(u));", "const Token x = draw_(u);")

mutant = promise("a residual is the positive part of a·p - b·q over all tokens, and NaN stays in sight")
mutant("residual-absolute", "rows/read/residual.hpp", "tests/rows/read/residual",
       "return difference < 0 ? 0 : difference;", "return difference < 0 ? -difference : difference;")
mutant("residual-of-segments-alone", "rows/read/residual.hpp", "tests/rows/read/residual_rows tests/verify/tree_rules",
       "if (mass < detail::hardly_any_left)", "if (false)")
mutant("residual-of-a-few-rows", "rows/read/rough_residual.hpp", "tests/rows/read/residual_rows tests/verify/tree_rules",
       "sum += b * specdec::probability(q, x);", "sum = b * specdec::probability(q, x);")
mutant("residual-gap-weight-forgotten", "rows/read/residual.hpp", "tests/rows/read/residual",
       "a * static_cast<double>(p.sum(start, end - start))", "static_cast<double>(p.sum(start, end - start))")
mutant("residual-draft-tail-lost", "rows/read/segments.hpp", "tests/rows/read/residual tests/law_rows",
       "return sum_over_segments(f, p, q, start, common) + f.alone(p, common, end);",
       "return sum_over_segments(f, p, q, start, common);")

mutant = promise("overlap and entropy are the sums of their definitions")
mutant("overlap-lenience", "rows/read/overlap.hpp", "tests/rows/read/overlap",
       "OverlapOf{1 / lenience, 1.0}", "OverlapOf{1.0, lenience}")
mutant("entropy-noughts", "more/rows/entropy.hpp", "tests/more/rows/entropy",
       "(p == 0).select(p, p * p.log())", "(p * p.log())")

mutant = promise("a part of a row is the row given that the token is one of some")
mutant("part-unnormalised", "rows/kinds/part_of_row.hpp", "tests/rows/kinds/part_of_row", "mass_ > 0 ? p / mass_ : p", "p")
mutant("part-argmax-of-the-row", "rows/kinds/part_of_row.hpp", "tests/rows/kinds/part_of_row",
       "if (const Token x = row_.argmax(); tokens_.has(x)) return x;", "return row_.argmax();")

mutant = promise("a mapped row has the draft's probabilities under the target's ids")
mutant("mapped-look-up-unmapped", "more/rows/mapped.hpp", "tests/more/rows/mapped",
       "d == TokenMap::none ? 0.0 : specdec::probability(row_, d)",
       "d == TokenMap::none ? 0.0 : specdec::probability(row_, x)")
mutant("mapped-argmax-in-draft-order", "more/rows/mapped.hpp", "tests/more/rows/mapped",
       "while (first < x && probability(first) != most) ++first;", "first = x;")

mutant = promise("a row that is made of another offers what it keeps of that row, and nothing else")
mutant("adaptor-loses-argmax", "rows/row_adaptor.hpp", "tests/rows/row_adaptor",
       "requires(all && (ArgmaxRow<R> && ...))", "requires(all && sizeof...(R) == 0)")
mutant("adaptor-sums-what-it-changes", "rows/row_adaptor.hpp", "tests/rows/row_adaptor",
       "requires(all && (SummableRow<R> && ...))", "requires(SummableRow<R> && ...)")

mutant = promise("a row is a dead end if all of it is 0, and not if it is NaN")
mutant("dead-end-of-nan", "rows/read/dead_end.hpp", "tests/rows/read/dead_end",
       "zeros = zeros && (p.array() == 0).all();", "zeros = zeros && !(p.array() > 0).any();")

mutant = promise("rows spread over ranks have the whole rows' law, on every rank")
mutant("shard-draws-unshifted", "more/ranks/rank_columns.hpp", "tests/more/ranks/sharded",
       "for (Index r = 0; r < owner; ++r) u -= of(i, r);", "")
mutant("shard-logits-normalised-alone", "more/ranks/rank_columns.hpp", "tests/more/ranks/sharded",
       "return normalised_alone(i) ? of(i, rank) : 1.0;", "return 1.0;")
mutant("shard-argmax-by-probability", "more/ranks/rank_columns.hpp", "tests/more/ranks/sharded",
       "static_cast<double>(rows_[i].logits()[x]);", "static_cast<double>(rows_[i].probability(x));")

mutant = promise("what fails on one rank is an error on all of them, and none waits")
mutant("failed-rank-gives-zero", "more/ranks/exchange.hpp", "tests/more/ranks/sharded",
       "double number = no_number;", "double number = 0;")
mutant("mpi-ranks-backwards", "more/ranks/mpi.hpp", "tests/mpi/mpi",
       "std::ranges::copy(frame(r).subspan(1, first), out)",
       "std::ranges::copy(frame(size_ - 1 - r).subspan(1, first), out)")

mutant = promise("all rows take turns where sums are checked")
mutant("sum-check-of-the-first-row", "rows/read/sum_check.hpp", "tests/rows/read/sum_check",
       "const Index i = number % rows.rows();", "const Index i = 0;")
mutant("sum-check-of-unused-rows", "rows/read/sum_check.hpp", "tests/rows/read/sum_check",
       "else if (needs_draft) check_sum_of", "else check_sum_of")
mutant("sum-check-of-known-kinds", "rows/read/sum_check.hpp", "tests/rows/read/sum_check",
       "CheckedRow<RowOf<Matrix>> || RowOfSomeKind<RowOf<Matrix>>;", "CheckedRow<RowOf<Matrix>>;")
