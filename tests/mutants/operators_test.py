#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the operators make of small texts."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from operators import OPERATORS, Source, mutations

BODY = "void f() {{ {} }}"


def made(operator, text):
    return [text[:start] + new + text[end:] for start, end, new in OPERATORS[operator](Source(text))]


def made_in_body(operator, text):
    frame = BODY.split("{}")[0].replace("{{", "{"), BODY.split("{}")[1].replace("}}", "}")
    return [one.removeprefix(frame[0]).removesuffix(frame[1]) for one in made(operator, text.join(frame))]


class Operators(unittest.TestCase):
    def test_comparison(self):
        self.assertEqual(made("comparison", "a < b"), ["a <= b", "a >= b"])
        self.assertEqual(made("comparison", "a == b"), ["a != b"])
        self.assertEqual(made("comparison", "template <class T> std::vector<T> f(); bool operator<(X);"), [])

    def test_off_by_one(self):
        self.assertEqual(made("off-by-one", "x[i]"), ["x[i + 1]", "x[i - 1]"])
        self.assertEqual(made("off-by-one", "x.resize(f(n), 0)"), ["x.resize(f(n), 0 + 1)", "x.resize(f(n), 0 - 1)"])
        self.assertEqual(made("off-by-one", "[[nodiscard]] auto g = [&] { x.reserve(n); };"), [])

    def test_min_for_max(self):
        self.assertEqual(made("min-for-max", "std::min<Index>(a, b)"), ["std::max<Index>(a, b)"])
        self.assertEqual(made("min-for-max", "std::numeric_limits<T>::max()"), [])

    def test_negation(self):
        self.assertEqual(made("negation", "if (f(a) && b) g();"), ["if (!(f(a) && b)) g();"])
        self.assertEqual(made("negation", "if (int n = 2; n > m) g();"), ["if (int n = 2; !(n > m)) g();"])

    def test_dropped_statement(self):
        self.assertEqual(made_in_body("dropped-statement", "if (a) f(b);"), ["if (a) ;"])
        self.assertEqual(made_in_body("dropped-statement", "for (int i = 0; i < n; ++i) { x[i].y += 1; }"),
                         ["for (int i = 0; i < n; ++i) { ; }"])
        self.assertEqual(made_in_body("dropped-statement", "undo(f, [&] { x.clear(); });"), ["undo(f, [&] { ; });", ";"])
        self.assertEqual(made_in_body("dropped-statement", "while (a) { ++n; if (b) break; else continue; }"),
                         ["while (a) { ; if (b) break; else continue; }", "while (a) { ++n; if (b) ; else continue; }",
                          "while (a) { ++n; if (b) break; else ; }"])
        for kept in ("return f();", "int n = 0;", "const auto x = f(a);", "T t{f(a)};", "x.reserve(2);", "throw f();"):
            self.assertEqual(made_in_body("dropped-statement", kept), [])
        self.assertEqual(made("dropped-statement", "struct S { S(int); int n = f(); S() = default; };"), [])

    def test_and_or(self):
        self.assertEqual(made("and-or", "f(T&& t, a && b)"), ["f(T&& t, a || b)"])

    def test_swapped_arguments(self):
        self.assertEqual(made("swapped-arguments", "f(a, b, g(c), a, a)"), ["f(b, a, g(c), a, a)"])
        self.assertEqual(made("swapped-arguments", "void f(int a, int b);"), [])

    def test_constant(self):
        self.assertEqual(made("constant", "f(0, 1, 4, true, x2, 1e-6, 0x1p-3, .5)"),
                         ["f(1, 1, 4, true, x2, 1e-6, 0x1p-3, .5)", "f(0, 0, 4, true, x2, 1e-6, 0x1p-3, .5)",
                          "f(0, 2, 4, true, x2, 1e-6, 0x1p-3, .5)", "f(0, 1, 5, true, x2, 1e-6, 0x1p-3, .5)",
                          "f(0, 1, 4, false, x2, 1e-6, 0x1p-3, .5)"])

    def test_left_alone(self):
        for text in ("// a < 1\n", "/* x[0] */",
                     'x = "f(a, b) && 1"', "#if A < 1 && \\\n  B == 2\n", "static_assert(a < b);",
                     "noexcept(f(a, b))", "x.reserve(n + 1);", 'invalid_argument("n = ", n[1], g(a, b))', "concept C = requires(T t) { t.f(1); };",
                     "template <class T> requires A<T> && (T::n < 1)\n", "if constexpr (requires { t.f(1); })"):
            self.assertEqual([m for m in mutations("x.hpp", text) if m.operator != "negation"], [], text)
        # The body after a clause is code again.
        self.assertEqual(made("constant", "void f() requires(T::n < 1) { return 2; }"),
                         ["void f() requires(T::n < 1) { return 3; }"])

    def test_shown_as_lines(self):
        text = "void f() {\n  g(a,\n    b);\n}\n"
        made_of = [m for m in mutations("x.hpp", text) if m.operator != "dropped-statement"]
        self.assertEqual([(m.line(), m.last_line(), m.shown()) for m in made_of], [(2, 3, ("g(a, b);", "g(b, a);"))])


if __name__ == "__main__":
    unittest.main()
