#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
r"""Shows doxygen a header with its comments in doxygen's words. Every line keeps its number.

- The opening comment of a header describes the file.
- `Source:`, `Throws:` and the other fields become paragraphs with a label.
- Lines that are indented or in columns are a list of names with what they mean, or else code.
- Signs that doxygen would read as commands or as HTML are escaped.
- Concepts, constants and examples that a comment names are links, as classes are.
- The namespace of the version is left out: nobody writes it.
- Of a namespace `detail` only the public functions stay that public classes inherit.
- Requires-clauses that doxygen leaves out become part of the comment; defaults that it garbles are left out.

The alias \field puts a line break where there is none in the header.

    filter.py FILE       writes the header, or pages.dox, as doxygen is to see it
    filter.py --pages    lists the pages that the reference must have: one for each public class and concept
"""

import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FIELD = re.compile(r"(Experimental|Source|Shapes|Units|Pre|Throws|Random|Cost|Memory|Numeric|Ties|State|Example): ")
SIGNS, BACKSLASHED = r"([\\@<>&])", r"\\\1"  # what doxygen would read as its own, and how it is left alone
EXAMPLE = re.compile(r"\bexamples/([\w/]+\.[ch]pp)\b")
COLUMNS = re.compile(r" *\S+(?: \S+)* {2,}(?=\S)")  # a name, and the spaces up to its description


def text_of(header):
    return re.sub(r"^(namespace specdec)::inline \w+", r"\1", header.read_text(encoding="utf-8"), flags=re.MULTILINE)


@functools.cache
def public_names():
    """The kinds and the qualified names of the public classes, concepts and constants, by name."""
    detail = re.compile(r"^namespace (?:\w+::)*detail \{$.*?^\}  // namespace", re.MULTILINE | re.DOTALL)
    head = re.compile(r"^(?:template <.*> )?(class|struct|concept|inline constexpr bool) (\w+)(?= |;|$)", re.MULTILINE)
    return {name: (kind, f"specdec::{'testing::' if header.parent.name in ('testing', 'audits') else ''}{name}")
            for header in (ROOT / "include").rglob("*.hpp")
            # more/c/specdec.h documents the names of c/. Those of device/ have a namespace, and common words, such as Row.
            if header.parent.name not in ("c", "device")
            for kind, name in head.findall(detail.sub("", text_of(header)))}


def prose(text, classes=False):
    """Text outside `code` with its signs escaped, and with links to the examples, concepts and constants that it names.

    Doxygen finds classes by itself, but not in the comments of files and of concepts: there `classes` are links as well.
    """
    def link(match):
        kind, name = public_names().get(match[0], ("", ""))
        begins = re.fullmatch(r"(.*[.:;] )?", match.string[:match.start()])
        if name and begins and re.fullmatch("[A-Z][a-z]+", match[0]):
            return f"%{match[0]}"  # a word that begins a sentence, such as "Options of an audit": no link
        shown = name and (classes or kind not in ("class", "struct"))
        return rf'\ref {name} "{match[0]}"' if shown else match[0]

    parts = re.split(r"(`[^`]*`)", text)
    for k in range(0, len(parts), 2):
        escaped = re.sub(SIGNS, BACKSLASHED, parts[k])
        parts[k] = re.sub(r"(?<![\w:./])[A-Za-z]\w+(?![\w(]|::)", link, escaped)
    return EXAMPLE.sub(r'\\ref \1 "examples/\1"', "".join(parts))


def is_code(line):
    return re.search(r"(^|\s)//|[;{}]$", line)


def description_column(lines):
    """Where the descriptions of a list begin; None if the lines are code, a formula or a table."""
    indent = min(len(line) - len(line.lstrip()) for line in lines)
    heads = [line for line in lines if line[indent] != " "]
    columns = [match.end() for head in heads if (match := COLUMNS.match(head))]
    if not columns or any(is_code(head) for head in heads):
        return None
    column = max(set(columns), key=columns.count)
    if all(" = " in head[:column] for head in heads) or any("   " in line[column:] for line in lines):
        return None
    return column


def listed(lines, column, classes):
    """Names and descriptions as a list. A name that is too long for its column has its description in the next line."""
    result = []
    for line in lines:
        name, text = line[:column].strip(), line[column:].strip()
        if name and (not line[:column].endswith(" ") or name.count("(") > name.count(")")):
            name, text = line.strip(), ""
        start = f"</dd><dt><code>{prose(name)}</code></dt><dd>" if name else ""
        result.append(start + prose(text, classes))
    result[0] = "<dl>" + result[0].removeprefix("</dd>")
    result[-1] += "</dd></dl>"
    return result


def code(lines, line_follows):
    """Lines of code. They take the empty line that follows, where one does."""
    indent = min(len(line) - len(line.lstrip()) for line in lines)
    command = rf"\code{{{'.cpp' if any(is_code(line) for line in lines) else '.unparsed'}}}"
    lines = [line[indent:] for line in lines]
    result = [command, *lines] if line_follows else [f"{command} {lines[0]}", *(f"  {line}" for line in lines[1:])]
    result[-1] += r" \endcode"
    return result


def comment(texts, classes):
    """The lines of one comment, without their slashes."""
    result = []
    k = 0
    while k < len(texts):
        end = k
        while end < len(texts) and texts[end] and (texts[end].startswith("  ") or COLUMNS.match(texts[end])):
            end += 1
        if end == k:
            field = FIELD.match(texts[k])
            text = prose(texts[k][field.end() if field else 0:], classes)
            result.append(rf"\field{{{field[1]}}} {text}" if field else text)
            k += 1
            continue
        column = description_column(texts[k:end])
        if column is not None:
            result += listed(texts[k:end], column, classes)
        else:
            result += code(texts[k:end], end < len(texts))
            end += end < len(texts)
        k = end
    return result


@functools.cache
def inherited_details():
    """The classes of namespace detail that public classes inherit from."""
    heads = re.compile(r"^(?:class|struct) .*: (?:public )?detail::(\w+)", re.MULTILINE)
    headers = (ROOT / "include").rglob("*.hpp")
    return {name for header in headers for name in heads.findall(text_of(header))}


def public_lines(lines, number):
    """The numbers of the lines of a class up to its end, but not those of what is protected or private."""
    result = set()
    section = "public"
    while lines[number] != "};":
        label = re.match(r" (public|protected|private):", lines[number])
        section = label[1] if label else section
        if section == "public":
            result.add(number)
        number += 1
    return result | {number}


def without_details(lines):
    """The lines of the header; what a namespace detail hides is blank."""
    result = list(lines)
    begin = None
    for number, line in enumerate(lines):
        if re.match(r"namespace (\w+::)*detail \{", line):
            begin, shown = number, set()
        elif begin is not None and (match := re.match(r"(?:class|struct) (\w+)", line)):
            if match[1] in inherited_details():
                while lines[number - 1]:
                    number -= 1
                shown.update(public_lines(lines, number))
        elif re.match(r"\}  // namespace (\w+::)*detail", line):
            if shown:
                shown.update({begin, number})
            for hidden in set(range(begin, number + 1)) - shown:
                result[hidden] = ""
            begin = None
    return result


def clause_at(lines, number):
    """The requires-clause that begins in a line, without the function's body."""
    clause = lines[number].strip().removeprefix("requires").strip()
    while clause.count("(") > clause.count(")"):
        number += 1
        clause += " " + lines[number].strip()
    clause = re.sub(r"( \{\}?| = \w+;|;)$", "", clause)
    if not clause.startswith("requires"):
        clause = re.sub(r"^\((.*)\)$", r"\1", clause.partition(" {")[0])
    return f"<code>{re.sub(SIGNS, BACKSLASHED, clause).replace('::', chr(92) + '::')}</code>"


def with_conditions(lines):
    """The lines, with a comment on each function that has a requires-clause, where doxygen would leave it out.

    It leaves it out after the arguments of functions that are no templates, and of all functions that are inherited.
    """
    result = list(lines)
    inherited = False
    for number, line in enumerate(lines):
        inherited = line.endswith("detail {") if line.startswith("namespace") else inherited and line[:1] != "}"
        ends = re.search(r"\)( const)?( &{1,2})?$|^ +template <.*>$", lines[number - 1])
        if not ends or not re.match(r" +requires\b", line):
            continue
        first = number - 1
        while not re.search(r"(^|[;{}:]|^ *//.*)$", lines[first - 1]):
            first -= 1
        if inherited or not lines[first].startswith("  template <"):
            alone = not lines[first - 1].lstrip().startswith("///")  # then lists show it, too
            label = "Requires" if alone else r"\field{Requires}"
            result[first] = f"/** {label} {clause_at(lines, number)} */ {lines[first].lstrip()}"
    return result


def with_plain_concepts(lines):
    """The lines, with the parameters of concepts without their defaults, which doxygen shows wrongly."""
    text = "\n".join(lines)
    for head in re.finditer(r"^template <([^;{]*?)>\nconcept ", text, re.MULTILINE):
        plain, depth, shown = "", 0, True
        for sign in head[1]:
            depth += (sign == "<") - (sign == ">")
            if depth == 0 and sign in "=,":
                shown = sign == ","
            plain += sign if shown or sign == "\n" else ""
        plain = re.sub(r" +(?=,|$)", "", plain)
        text = text.replace(head[0], f"template <{plain}>\nconcept ")
    return text.split("\n")


def header(lines):
    lines = with_plain_concepts(with_conditions(without_details(lines)))
    result = []
    k = 0
    while k < len(lines) and lines[k].startswith("//"):
        k += 1
    if k > 0:
        texts = ["" if line.startswith("// SPDX-") else line[3:] for line in lines[:k]]
        result = [r"/// \file", *("/// " + line for line in comment(texts, classes=True))]
        k = len(result)  # the text takes the line of #pragma once as well
    while k < len(lines):
        match = re.match(r"( *)///( |$)", lines[k])
        end = k
        while match and end < len(lines) and re.match(match[1] + r"///( |$)", lines[end]):
            end += 1
        if end > k:
            skip = len(match[1]) + 4
            of_concept = any(line.startswith("concept ") for line in lines[end:end + 4])
            texts = comment([line[skip:] for line in lines[k:end]], classes=of_concept)
            result += [f"{match[1]}/// {text}" for text in texts]
            k = end
            continue
        line, sign, text = lines[k].partition("///<")
        result.append(line + sign + prose(text))
        k += 1
    return result


def pages(text):
    """The pages, with the table of rooms, a description of each folder from it, and a page for each example."""
    def link(match):
        kind, name = public_names().get(match[1], ("", ""))
        return rf'\ref {name} "{match[1]}"' if name else match[0]

    rooms = (ROOT / ".github/CONTRIBUTING.md").read_text(encoding="utf-8")
    sentences = {folder: re.sub(r"`(\w+)`", link, sentence)
                 for folder, sentence in re.findall(r"^\| `([\w/]+)/` \| (.*) \|$", rooms, re.MULTILINE)}
    rows = [rf'| \ref include/specdec/{folder} "{folder}" | {sentence} |' for folder, sentence in sentences.items()]
    text = text.replace("\\rooms", "\n".join(["| room | what it has |", "| --- | --- |", *rows]))
    for folder in sorted(path for path in (ROOT / "include/specdec").rglob("*") if path.is_dir()):
        name = folder.relative_to(ROOT / "include/specdec").as_posix()
        sentence = sentences.get(name, rf"\ref no_sentence_on_{name}_in_the_table_of_rooms")
        text += f"\n/** \\dir include/specdec/{name}\n{sentence[0].upper()}{sentence[1:]}. */\n"
    text = re.sub(r"\\name\{(.*?)\}", r'\\ref specdec::\1 "\1"', text)
    examples = {str(path.relative_to(ROOT / "examples")) for path in (ROOT / "examples").glob("*/*.cpp")}
    for header in (ROOT / "include").rglob("*.hpp"):
        examples.update(EXAMPLE.findall(header.read_text(encoding="utf-8")))
    for name in sorted(examples):
        text += f"\n/** \\example {name} */\n"
    return text


def page_names():
    return [f"{kind}{name.replace('::', '_1_1')}.html" for kind, name in public_names().values() if " " not in kind]


sys.stdout.reconfigure(encoding="utf-8", newline="\n")
if sys.argv[1] == "--pages":
    print("\n".join(page_names()))
else:
    path = pathlib.Path(sys.argv[1])
    text = text_of(path)
    sys.stdout.write(pages(text) if path.suffix == ".dox" else "\n".join(header(text.split("\n"))))
