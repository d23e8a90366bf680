#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds vectors.json to schema.json, and to what no schema can say: sums, shapes, and ids that name one another.

The part of JSON Schema that schema.json uses is checked here in a few lines, so that no package is needed. An unknown keyword of the
schema is an error, not a check that is left out.
"""

import copy
import fractions
import json
import pathlib
import re
import unittest

HERE = pathlib.Path(__file__).resolve().parents[1]
SCHEMA = json.loads((HERE / "schema.json").read_text(encoding="utf-8"))
VECTORS = json.loads((HERE / "vectors.json").read_text(encoding="utf-8"))
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "null": type(None), "number": (int, float)}
NOTES = {"$schema", "title", "$defs"}


def is_type(value, name):
    return isinstance(value, TYPES[name]) and not isinstance(value, bool)


def complaints(value, schema, at="vectors"):
    """What is wrong with a value, as a list of texts."""
    if schema is True:
        return []
    if schema is False:
        return [f"{at} must not be there"]
    out = []
    for keyword, rule in schema.items():
        if keyword in NOTES:
            continue
        found = globals()["check_" + keyword.lstrip("$")](value, rule, schema, at)
        out += [found] if isinstance(found, str) else found or []
    return out


def check_ref(value, rule, _, at):
    return complaints(value, SCHEMA["$defs"][rule.removeprefix("#/$defs/")], at)


def check_type(value, rule, _, at):
    return None if is_type(value, rule) else f"{at} is no {rule}"


def check_const(value, rule, _, at):
    return None if value == rule else f"{at} is not {rule}"


def check_enum(value, rule, _, at):
    return None if value in rule else f"{at} is none of {rule}"


def check_pattern(value, rule, _, at):
    return None if not isinstance(value, str) or re.search(rule, value) else f"{at} does not match {rule}"


def check_minimum(value, rule, _, at):
    return f"{at} is below {rule}" if is_type(value, "number") and value < rule else None


def check_exclusiveMinimum(value, rule, _, at):
    return f"{at} is not above {rule}" if is_type(value, "number") and value <= rule else None


def check_maximum(value, rule, _, at):
    return f"{at} is above {rule}" if is_type(value, "number") and value > rule else None


def check_minLength(value, rule, _, at):
    return f"{at} is too short" if isinstance(value, str) and len(value) < rule else None


def check_minItems(value, rule, _, at):
    return f"{at} has too few items" if isinstance(value, list) and len(value) < rule else None


def check_maxItems(value, rule, _, at):
    return f"{at} has too many items" if isinstance(value, list) and len(value) > rule else None


def check_uniqueItems(value, rule, _, at):
    texts = [json.dumps(item) for item in value] if rule and isinstance(value, list) else []
    return f"{at} has an item twice" if len(set(texts)) < len(texts) else None


def check_minProperties(value, rule, _, at):
    return f"{at} has too few members" if isinstance(value, dict) and len(value) < rule else None


def check_required(value, rule, _, at):
    return [f"{at} has no {name}" for name in rule if isinstance(value, dict) and name not in value]


def check_properties(value, rule, _, at):
    members = value.items() if isinstance(value, dict) else ()
    return [text for name, member in members if name in rule for text in complaints(member, rule[name], f"{at}.{name}")]


def check_additionalProperties(value, rule, schema, at):
    members = value.items() if isinstance(value, dict) else ()
    known = schema.get("properties", {})
    return [text for name, member in members if name not in known for text in complaints(member, rule, f"{at}.{name}")]


def check_prefixItems(value, rule, _, at):
    items = value if isinstance(value, list) else ()
    return [text for k, (item, one) in enumerate(zip(items, rule)) for text in complaints(item, one, f"{at}[{k}]")]


def check_items(value, rule, schema, at):
    first = len(schema.get("prefixItems", ()))
    items = value[first:] if isinstance(value, list) else ()
    return [text for k, item in enumerate(items) for text in complaints(item, rule, f"{at}[{first + k}]")]


def check_oneOf(value, rule, _, at):
    wrong = [complaints(value, one, at) for one in rule]
    if wrong.count([]) == 1:
        return []
    # The kind that fits best tells what is wrong.
    return min(wrong, key=len) or [f"{at} is of more than one kind"]


def weights(row, size):
    """A row as a list of weights."""
    if isinstance(row, list):
        return row
    out = [0] * size
    for x, weight in zip(row["ids"], row["weights"]):
        out[x] = weight
    return out


def parts_of(case):
    """What is judged at once: the case, or each of its steps."""
    return case.get("steps", [case])


class Form(unittest.TestCase):
    def for_each_case(self, check):
        for case in VECTORS["cases"]:
            with self.subTest(case=case["id"]):
                check(case)

    def test_vectors_have_the_form_that_the_schema_says(self):
        self.assertEqual(complaints(VECTORS, SCHEMA), [])

    def test_other_forms_are_refused(self):
        def complaints_after(change):
            vectors = copy.deepcopy({**VECTORS, **{part: VECTORS[part][:1] for part in ("cases", "batches", "mistakes")}})
            change(vectors, vectors["cases"][0])
            return complaints(vectors, SCHEMA)

        self.assertEqual(complaints_after(lambda vectors, case: None), [])
        changes = [
            lambda vectors, case: vectors.update(version=2),
            lambda vectors, case: vectors.pop("batches"),
            lambda vectors, case: case.pop("law"),
            lambda vectors, case: case.pop("tokens"),
            lambda vectors, case: case.update(rule="tokens"),
            lambda vectors, case: case.update(rule="text"),
            lambda vectors, case: case.update(parents=[]),
            lambda vectors, case: case.update(id="no rule"),
            lambda vectors, case: case.update(more=1),
            lambda vectors, case: case["target"].append([0.5, 0.5]),
            lambda vectors, case: case["target"].append(None),
            lambda vectors, case: case["law"].append([[0, 1], 0.5]),
            lambda vectors, case: case["law"].append([[0, 1], "0/2"]),
            lambda vectors, case: case["law"].append([[0], "1/2"]),
            lambda vectors, case: case["law"].append([[0, -1], "1/2"]),
            lambda vectors, case: case["law"].append([[0, 1], "1/2", 3]),
            lambda vectors, case: vectors["batches"][0]["cases"].extend(["token/by-hand"] * 2),
        ]
        for k, change in enumerate(changes):
            with self.subTest(change=k):
                self.assertNotEqual(complaints_after(change), [])

    def test_ids_begin_with_their_rule_and_are_unique(self):
        ids = [case["id"] for case in VECTORS["cases"]]
        self.assertEqual(len(ids), len(set(ids)))
        self.for_each_case(lambda case: self.assertEqual(case["id"].split("/")[0], case["rule"]))
        self.assertEqual({case["rule"] for case in VECTORS["cases"]}, set(VECTORS["rules"]))

    def test_laws_sum_to_one_in_lowest_terms_and_in_order(self):
        def check(case):
            outcomes, texts = [outcome for outcome, _ in case["law"]], [text for _, text in case["law"]]
            parts = [fractions.Fraction(text) for text in texts]
            self.assertEqual(sum(parts), 1)
            self.assertEqual([f"{part.numerator}/{part.denominator}" for part in parts], texts)
            self.assertEqual(outcomes, sorted(outcomes))
            self.assertEqual(len({json.dumps(outcome) for outcome in outcomes}), len(outcomes))

        self.for_each_case(check)

    def test_rows_sum_to_powers_of_two_and_have_one_width(self):
        def check_rows(case, rows, width):
            for row in rows:
                if row is None:
                    continue
                if isinstance(row, dict):
                    self.assertEqual(len(row["ids"]), len(row["weights"]))
                total = sum(weights(row, width))
                self.assertEqual(len(weights(row, width)), width)
                self.assertTrue(total & (total - 1) == 0 and 0 <= total <= 1 << 20, total)
                self.assertTrue(total > 0 or "dead-end" in case["id"])

        def check(case):
            width = case["vocab_size"]
            for part in parts_of(case):
                target, draft = part["target"], part["draft"]
                check_rows(case, target["rows"] if case["rule"] == "text" else target, width)
                check_rows(case, draft["rows"] if case["rule"] == "text" else draft, case.get("draft_vocab_size", width))

        self.for_each_case(check)

    def test_tables_have_a_row_for_each_context_and_prompts_are_long_enough(self):
        def check(case):
            for table in (case["target"], case["draft"]) if case["rule"] == "text" else ():
                self.assertEqual(len(table["rows"]), case["vocab_size"] ** table["order"])
                self.assertGreaterEqual(len(case["prompt"]), table["order"])

        self.for_each_case(check)

    def test_drafts_have_a_row_for_each_token_and_tokens_can_have_been_drawn(self):
        def check(case):
            if case["rule"] == "text":
                return
            for part in parts_of(case):
                gamma = len(part["target"]) - 1
                tokens = part.get("tokens", [0] * gamma)  # the runner draws them
                self.assertEqual((len(part["draft"]), len(tokens)), (gamma, gamma))
                for x, row in zip(tokens, part["draft"]):
                    self.assertLess(x, case["vocab_size"])
                    if row is not None and "tokens" in part:
                        self.assertGreater(weights(row, case["vocab_size"])[x], 0)
            self.assertEqual(len(case.get("parents", case.get("tokens", []))), len(case.get("tokens", [])))
            self.assertTrue(all(parent < k for k, parent in enumerate(case.get("parents", []))))

        self.for_each_case(check)

    def test_batches_and_mistakes_name_cases(self):
        cases = {case["id"]: case for case in VECTORS["cases"]}
        for batch in VECTORS["batches"]:
            self.assertEqual(len({cases[name]["rule"] for name in batch["cases"]}), 1)
        self.assertEqual(len({mistake["name"] for mistake in VECTORS["mistakes"]}), len(VECTORS["mistakes"]))
        for mistake in VECTORS["mistakes"]:
            for name, law in mistake["laws"].items():
                with self.subTest(mistake=mistake["name"], case=name):
                    right = {json.dumps(outcome): float(fractions.Fraction(text)) for outcome, text in cases[name]["law"]}
                    wrong = {json.dumps(outcome): probability for outcome, probability in law}
                    self.assertAlmostEqual(sum(wrong.values()), 1, delta=1e-8)
                    self.assertGreater(max(abs(right.get(o, 0) - wrong.get(o, 0)) for o in {*right, *wrong}), 1e-9)


if __name__ == "__main__":
    unittest.main()
