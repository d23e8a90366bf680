"""Mutants of the loops that run at the width of the machine."""

from mutants import promise

mutant = promise("a kernel gives the same result to the last bit at every width, and the right one")
# Noticed on a machine with AVX-512, which can multiply and add at once.
mutant("kernel-rounds-once-at-some-widths", "kernels/machine_width.hpp", "tests/kernels/machine_width",
       '#define SPECDEC_UNFUSED _Pragma("clang fp contract(off) reassociate(off)")', "#define SPECDEC_UNFUSED")
mutant("pair-sum-of-first-numbers", "kernels/reductions.hpp", "tests/rows/read/overlap tests/rows/read/residual",
       "static_cast<double>(q[start + i])", "static_cast<double>(q[i])")
mutant("lot-half-summed", "kernels/reductions.hpp", "tests/kernels/reductions", "numbers[i] += numbers[i + 32];", "numbers[i] += numbers[i];")
mutant("largest-of-one-half", "kernels/reductions.hpp", "tests/kernels/reductions", "a[i] < b[i] ? b[i] : a[i];", "a[i];")
mutant("nan-of-one-half", "kernels/reductions.hpp", "tests/kernels/reductions", "std::isunordered(a[i], b[i])", "std::isnan(a[i])")
mutant("exponential-of-a-worse-polynomial", "kernels/exponentials.hpp", "tests/kernels/exponentials", "0x1.3ceab6p-7F", "0x1.4p-7F")
mutant("exponential-of-a-worse-polynomial-in-double", "kernels/exponentials.hpp", "tests/kernels/exponentials",
       "0x1.3b2ab6fba00fap-7", "0x1.3b2ab7p-7")
mutant("exponential-not-infinite", "kernels/exponentials.hpp", "tests/kernels/exponentials",
       "max_exponent;", "max_exponent - 1;")
mutant("exponential-wraps-round", "kernels/exponentials.hpp", "tests/kernels/exponentials", "if (!at_most_one)", "if (false)")
mutant("exponential-of-cold-rows-nan", "kernels/exponentials.hpp", "tests/kernels/exponentials",
       "factor < std::numeric_limits<Scalar>::max() ? factor", "true ? factor")
mutant("exponential-at-the-cut", "kernels/exponentials.hpp", "tests/kernels/exponentials",
       "logits[i] < cut ? least_power", "logits[i] <= cut ? least_power")
mutant("exponential-nan-below-the-cut", "kernels/exponentials.hpp", "tests/kernels/exponentials",
       "logits[i] < cut ? least_power : out[i]", "logits[i] >= cut ? out[i] : least_power")
mutant("lot-above-the-cut-skipped", "kernels/exponentials.hpp", "tests/kernels/exponentials", "return left == 0;", "return left <= 1;")
mutant("exponential-of-nothing-is-something", "kernels/exponentials.hpp", "tests/kernels/exponentials",
       "sum < static_cast<double>(count)", "sum < 0 * static_cast<double>(count)")
mutant("half-subnormal", "kernels/widen.hpp", "tests/kernels/widen", "magnitude < exponent_1", "magnitude < 0")
mutant("half-infinite", "kernels/widen.hpp", "tests/kernels/widen", "magnitude >= infinite", "magnitude > infinite")
mutant("half-sign", "kernels/widen.hpp", "tests/kernels/widen", "return sign | ", "return ")
mutant("count-without-ends", "kernels/keyed_weights.hpp", "tests/kernels/machine_width", "(keys[start + i] >= low) &", "(keys[start + i] > low) &")

mutant = promise("exponential numbers have all their bits, and the first to arrive is found at every width")
mutant("arrival-of-few-bits", "kernels/arrivals.hpp", "tests/kernels/arrivals",
       "const double u = (number_of(bits) + 0.5) * 0x1p-64;",
       "const double u = 1 - (number_of(~bits) + 0.5) * 0x1p-64;")
mutant("arrival-at-zero", "kernels/arrivals.hpp", "tests/kernels/arrivals", "(number_of(bits) + 0.5)", "(number_of(bits))")
mutant("arrival-halvings-of-none", "kernels/arrivals.hpp", "tests/kernels/arrivals", "& 0xfffu;", "& 0x1fffu;")
mutant("arrival-series-wrong", "kernels/arrivals.hpp", "tests/kernels/arrivals", "2.0 / 13", "2.0 / 14")
mutant("arrival-passed-over", "kernels/arrivals.hpp", "tests/kernels/arrivals",
       "most * static_cast<double>(p[i])", "0.5 * most * static_cast<double>(p[i])")
mutant("arrival-last-of-equals", "kernels/arrivals.hpp", "tests/kernels/arrivals",
       "!(times[i] < first.time)", "times[i] > first.time")
mutant("arrival-of-the-impossible", "kernels/arrivals.hpp", "tests/kernels/arrivals",
       "if (!(p[start + i] > 0) || (first.token", "if ((first.token")
mutant("arrival-of-nan", "kernels/arrivals.hpp", "tests/kernels/arrivals", "!(p[i] <= most)", "p[i] > most")
mutant("arrival-beyond-all-numbers", "kernels/arrivals.hpp", "tests/kernels/arrivals", "(first.token >= 0 && !", "(!")
