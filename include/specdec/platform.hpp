// What the library needs of a compiler and its flags. Where something is missing, the compiler says so in one sentence and stops.
// SPDX-License-Identifier: MIT
#pragma once

#include <cfloat>

#if defined(_MSVC_LANG) ? _MSVC_LANG < 202002L : __cplusplus < 202002L
#error "specdec needs C++20: compile with -std=c++20 (Visual C++: /std:c++20)"
#define SPECDEC_REFUSES

// Xcode's compiler, too, is a __clang__ with such a number.
#elif defined(__clang__) ? __clang_major__ < 15 : defined(__GNUC__) && __GNUC__ < 12
#error "specdec needs GCC 12, Clang 15, Xcode 15 or newer"
#define SPECDEC_REFUSES

// Logits of -inf are common, and no number may be lost to a NaN. With -ffinite-math-only a compiler takes tests for both
// away. With -fassociative-math it cancels (x + c) - c, from which exponentials are made: then probabilities sum to 0.9.
// Clang does not tell of -fassociative-math: SPECDEC_UNFUSED keeps it away from the kernels.
#elif defined(__FAST_MATH__) || defined(_M_FP_FAST) || defined(__ASSOCIATIVE_MATH__) || \
    (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error \
    "specdec: fast math (-ffast-math, -Ofast, -fassociative-math, -ffinite-math-only, /fp:fast) makes wrong laws: compile the files that include specdec without it, or with -fno-fast-math after it"
#define SPECDEC_REFUSES

// Registers of the x87 hold more digits than a float has: then (x + c) - c does not round to an integer, and loops wait for
// digits that are lost when a number is stored. (16 and more: only halves are computed in another width.)
#elif FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD < 16
#error \
    "specdec needs floats and doubles that are computed in their own width: on 32-bit x86, compile with -msse2 -mfpmath=sse"
#define SPECDEC_REFUSES

#elif defined(min) || defined(max)
#error "specdec: min or max is a macro here: define NOMINMAX before <windows.h>, or undefine it"
#define SPECDEC_REFUSES
#elif defined(verify)
#error \
    "specdec: verify is a macro here, but also a function of specdec: undefine it (AssertMacros.h: define __ASSERT_MACROS_DEFINE_VERSIONS_WITHOUT_UNDERSCORES as 0)"
#define SPECDEC_REFUSES
#endif

#ifdef SPECDEC_REFUSES
// There is no such file: a compiler stops here, before a thousand errors hide the one above.
#include <specdec-stops-here>
#endif
