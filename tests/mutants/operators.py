# SPDX-License-Identifier: MIT
"""Small mistakes that a generator can make in any header, each by one operator.

An operator is a function of a Source. It yields (start, end, new): text[start:end] becomes `new`. What the compiler reads but
no test can hold to a promise is left alone: comments, literals of text, preprocessor lines, what only types are asked
(requires, concept, static_assert, noexcept), and the wording of errors.
"""

import re
from dataclasses import dataclass

CLOSING = {"(": ")", "[": "]", "{": "}"}
# What is between the brackets of these is wording, is asked of types, or only costs time.
UNTOUCHED_CALLS = re.compile(r"\b(static_assert|noexcept|decltype|sizeof|alignas|reserve|message|joined|print_error|fail|failed"
                             r"|invalid_argument|invalid_call|external_failure|invalid_distribution|length_error)\s*\(")
TEXT = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'|^[ \t]*\#(?:\\\n|[^\n])*""",
                  re.DOTALL | re.MULTILINE)


def matching(text, start):
    """Where the bracket that opens at `start` is closed."""
    open_ = []
    for at in range(start, len(text)):
        if text[at] in CLOSING:
            open_.append(CLOSING[text[at]])
        elif open_ and text[at] == open_[-1]:
            open_.pop()
            if not open_:
                return at
    return len(text) - 1


def blanked(text, start, end):
    return text[:start] + re.sub(r"[^\n]", "\0", text[start:end]) + text[end:]


def end_of_requirement(text, start):
    """Where the constraint ends that begins after the word `requires` at `start`."""
    at = start + len("requires")
    while True:
        at = re.compile(r"\s*(requires\b|!)?\s*").match(text, at).end()
        if text[at] == "(":
            at = matching(text, at) + 1
            block = re.compile(r"\s*{").match(text, at)
            asks = re.search(r"([=(&|!,]|\breturn|\brequires)\s*$", text[:start])  # an expression, not a clause
            at = matching(text, block.end() - 1) + 1 if block and asks else at
        elif text[at] == "{":
            at = matching(text, at) + 1
        else:
            at = re.compile(r"[^\n{;&|]*").match(text, at).end()
        more = re.compile(r"\s*(&&|\|\|)").match(text, at)
        if not more:
            return at
        at = more.end()


def code_of(text):
    """The text with NUL in place of all that operators leave alone."""
    for found in TEXT.finditer(text):
        text = blanked(text, *found.span())
    for found in list(re.finditer(r"\bconcept\b", text)):
        end = found.end()
        while text[end] != ";":
            end = matching(text, end) + 1 if text[end] in CLOSING else end + 1
        text = blanked(text, found.start(), end)
    for found in list(re.finditer(r"\brequires\b", text)):
        text = blanked(text, found.start(), end_of_requirement(text, found.start()))
    for found in list(UNTOUCHED_CALLS.finditer(text)):
        if text[found.end() - 1] == "(":  # not within what is blank already
            text = blanked(text, found.end(), matching(text, found.end() - 1))
    return text


class Source:
    def __init__(self, text):
        self.text = text
        self.code = code_of(text)

    def find(self, pattern):
        return re.finditer(pattern, self.code)


def comparison(source):
    turned = {"<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="]}
    for found in source.find(r"(?<= )(<|<=|>|>=|==|!=)(?=[ \n])"):
        for new in turned[found[1]]:
            yield *found.span(1), new


def off_by_one(source):
    """One more and one less at an index, and at the last argument of a call that takes a length."""
    lengths = r"\.(?:resize|assign|first|last|subspan|head|tail|segment|keep|truncate|take|drop|top\w+|bottom\w+)"
    for found in source.find(rf"(?:(?<=[\w\])])\[|{lengths}\()(?=\S)"):
        end = matching(source.code, found.end() - 1)
        inside = source.text[found.end():end]
        if inside and "\0" not in source.code[found.end():end] and not source.code[found.end() - 1:].startswith("[["):
            for step in (" + 1", " - 1"):
                yield end, end, step


def min_for_max(source):
    other = {"min": "max", "max": "min", "minCoeff": "maxCoeff", "maxCoeff": "minCoeff"}
    for found in source.find(r"(?:\bstd::|\.)(min|max|minCoeff|maxCoeff)(?=[(<])"):
        yield *found.span(1), other[found[1]]


def negation(source):
    """The condition of an `if` or `while`, without what it declares."""
    for found in source.find(r"\b(?:if|while)(?: constexpr)? \((?:[^;()]*;\s*)?"):
        end = matching(source.code, source.code.index("(", found.start()))
        yield found.end(), end, f"!({source.text[found.end():end]})"


CONTROL = re.compile(r"\W*(else )?(if|for|while|switch)( constexpr)? ?\(")


def statements(code):
    """(start, end) of the statements in bodies of functions, without their semicolons, from the inside outward."""
    open_ = [("type", 0)]  # what the brackets around hold, and where the statement there begins
    for at, letter in enumerate(code):
        kind, start = open_[-1]
        if letter == "{":
            before = code[start:at]
            is_type = kind == "type" and re.search(r"\b(class|struct|union|enum|namespace)\b[^()]*$", before)
            open_.append(("type" if is_type else "body", at + 1))
        elif letter in "([":
            open_.append(("brackets", at + 1))
        elif letter in ")]}" and len(open_) > 1:
            open_.pop()
            kind, start = open_[-1]
            goes_on = letter != "}" or re.compile(r"\s*[;,).(&|?:=]").match(code, at + 1)
            if letter == ")" and CONTROL.match(code, start, at):
                goes_on = False
            if not goes_on:
                open_[-1] = (kind, at + 1)
        elif letter == ";" and kind != "brackets":
            if kind == "body":
                yield start, at
            open_[-1] = (kind, at + 1)


DROPPED = re.compile(r"(break|continue)$|\+\+|--|"
                     r"\*?[\w:]+(<[\w:, ]+>)?(\s*(\.|->)\w+|\[[^\]]*\]+)*\s*(=[^=]|[-+*/|&]=|\(|\+\+|--)")
KEPT = re.compile(r"(return|using|goto|throw|co_\w+|delete|static_assert)\b|.*(\.reserve\(.*|= (delete|default))$", re.DOTALL)


def dropped_statement(source):
    """A call, a change of a variable, a `break` or a `continue`; but what is reserved only costs time."""
    for start, end in statements(source.code):
        labels = re.compile(r"(?:[\s\0]|else\b|case [^:]+:|default:)*")
        start = labels.match(source.code, start, end).end()
        code = source.code[start:end]
        if DROPPED.match(code) and not KEPT.match(code):
            yield start, end, ""


def and_or(source):
    for found in source.find(r"(?<= )(&&|\|\|)(?=[ \n])"):
        yield *found.span(1), "||" if found[1] == "&&" else "&&"


def parts_of_list(code, start, end):
    """The spans between the commas that no brackets enclose."""
    at = first = start
    while at < end:
        if code[at] == ",":
            yield first, at
            first = at + 1
        at = matching(code, at) + 1 if code[at] in CLOSING else at + 1
    yield first, end


def swapped_arguments(source):
    """Two neighbours that are plain names."""
    for found in source.find(r"(?<=\w)[({](?=\S)"):
        parts = list(parts_of_list(source.code, found.end(), matching(source.code, found.start())))
        names = [re.compile(r"\s*([A-Za-z_]\w*)\s*").fullmatch(source.code, *part) for part in parts]
        for one, two in zip(names, names[1:]):
            if one and two and one[1] != two[1]:
                between = source.text[one.end(1):two.start(1)]
                yield one.start(1), two.end(1), two[1] + between + one[1]


def constant(source):
    for found in source.find(r"(?<![\w.'])(?<![eEpP]-)(\d+)(\.\d+)?(?![\w.'])|\b(true|false)\b"):
        if found[3]:
            yield *found.span(), "false" if found[3] == "true" else "true"
        else:
            number = int(found[1])
            for new in {0: [1], 1: [0, 2]}.get(number, [number + 1]):
                yield *found.span(1), str(new)


OPERATORS = {operator.__name__.replace("_", "-"): operator for operator in (
    comparison, off_by_one, min_for_max, negation, dropped_statement, and_or, swapped_arguments, constant)}


@dataclass(frozen=True)
class Mutation:
    header: str  # its path in the repository
    operator: str
    start: int
    end: int
    new: str
    text: str  # of the header

    def mutated(self):
        return self.text[:self.start] + self.new + self.text[self.end:]

    def line(self):
        return self.text.count("\n", 0, self.start) + 1

    def last_line(self):
        return self.text.count("\n", 0, self.end) + 1

    def shown(self):
        """The lines before and after, each as one."""
        first = self.text.rfind("\n", 0, self.start) + 1
        last = self.text.find("\n", self.end)
        before = self.text[first:last]
        after = self.text[first:self.start] + self.new + self.text[self.end:last]
        return tuple(" ".join(lines.split()) for lines in (before, after))


def mutations(header, text):
    source = Source(text)
    return [Mutation(header, name, *change, text) for name, operator in OPERATORS.items() for change in operator(source)]
