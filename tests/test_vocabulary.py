"""One language: names and prose use the field's words; metaphors and private coinages are found in each folder."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))
CHECKED = [
    "src/slipstream",
    "benchmarks",
    "examples",
    *PAGES,
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "Makefile",
    "mkdocs.yml",
]
"""Folders and files that must be clean; a folder covers everything below it."""

MODULES = {
    "ahead",
    "bounded",
    "bracket",
    "built",
    "cage",
    "calling",
    "canvas",
    "cast",
    "copies",
    "courses",
    "early",
    "explore",
    "farm",
    "farmed",
    "hosting",
    "in_order",
    "inner",
    "intake",
    "knobs",
    "laws",
    "look",
    "nursery",
    "orders",
    "originals",
    "outlook",
    "pages",
    "parts",
    "places",
    "prospect",
    "ray_farm",
    "rehearsal",
    "rehearsed",
    "sheets",
    "situation",
    "situations",
    "wire",
}
NAMES = re.compile(
    r"\w*slopes?\w*|\w*lessons?\w*|unbend|turn_\w+|turned|climb\w*|_?told|\w*_chance|Descent|Cast|Sheet|Part|_School|"
    r"Lookout|Look|\w*nursery\w*|desk|\w*crew\w*|\w*farm\w*|\w*knobs?\w*|namespace|rooms?|houses?|doors?|cages?",
)
PROSE = {
    "metaphor": re.compile(
        r"\b(?:house|room|door|sheet|lesson|slope|nursery|nurserie|cage|farm|knob|crew|desk)s?\b", re.IGNORECASE
    ),
    "'told'": re.compile(r"\btold\b"),
    "'so many/so long'": re.compile(r"\bso (?:many|long|much|far)\b", re.IGNORECASE),
    "'whoever/nobody'": re.compile(r"\b(?:whoever|whom|nobody|somebody)\b", re.IGNORECASE),
    "'one behind the other'": re.compile(r"\b(?:one behind the other|behind that of|behind each other)\b"),
}
LET = re.compile(r"\s*Let\b")
ALLOWED = (
    (r"--knobs?\b", "option names of `slipstream sweep`, which scripts of users rely on"),
    (r"\"knobs?\"", "keys of sweep.json, which scripts of users rely on"),
    (r"slope, intercept = np\.polyfit|round\(slope", "the slope of a fitted line"),
    (r"from what a policy is told\.", "text of scenarios of the frozen suite"),
    (r"with room for (?:8 of 36|two) tiles", "texts of built-in scenarios, which the tables of scenarios show"),
)
"""What is taken out of a text before it is searched, and why."""


def searched(text: str) -> str:
    """Return `text` without what is allowed."""
    for pattern, _ in ALLOWED:
        text = re.sub(pattern, "", text, flags=re.IGNORECASE)
    return text


def in_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line within `text`, counted from 0, and the finding, of every word that is not the field's."""
    shown = searched(text)
    for what, pattern in PROSE.items():
        for match in pattern.finditer(shown):
            yield shown[: match.start()].count("\n"), f"{what}: {match[0]}"


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of everything that a module names: variables, parameters, keywords, attributes, functions."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 1)
        for field in ("id", "arg", "attr", "name", "asname"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield line, name


def in_python(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and finding of each name, docstring, comment and text of a module."""
    tree = ast.parse(text)
    for line, name in identifiers(tree):
        if NAMES.fullmatch(name):
            yield line, f"name: {name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            docstring = ast.get_docstring(node)
            if docstring is not None and LET.match(docstring):
                yield node.body[0].lineno, "docstring begins with 'Let'"
        # A string of one word is a key or a name of something outside, and no prose.
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for offset, finding in in_prose(node.value):
                yield node.lineno + offset, finding
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            for _, finding in in_prose(token.string):
                yield token.start[0], finding


def files_of(place: str) -> list[Path]:
    """Return the files of a checked folder, or the file itself."""
    path = ROOT / place
    if path.is_file():
        return [path]
    kinds = {".py", ".md", ".js", ".css", ".html"}
    return sorted(one for one in path.rglob("*") if one.suffix in kinds and "__pycache__" not in one.parts)


def findings(place: str) -> list[str]:
    """Return what is wrong in a folder, a line each."""
    found = []
    for path in files_of(place):
        text = path.read_text()
        shown = path.relative_to(ROOT)
        if path.suffix == ".py" and path.stem in MODULES:
            found.append(f"{shown}: module name")
        lines = in_python(text) if path.suffix == ".py" else ((line + 1, what) for line, what in in_prose(text))
        found += [f"{shown}:{line}: {what}" for line, what in sorted(set(lines))]
    return found


@pytest.mark.parametrize("place", CHECKED)
def test_names_and_prose_use_the_words_of_the_field(place):
    assert files_of(place)
    found = findings(place)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "told = 1",
        "def climb_up(): pass",
        "def f(*, farm): pass",
        "f(farm=1)",
        "import a.farm as farm",
        '"""Let a thing be."""',
        'def f():\n    """Let it."""',
        "# the room of a thing",
        'x = "no room left"',
        'x = f"{y} doors left"',
        'X = 1\n"""So many of them."""',
        "def f():\n    knobs: int = 1",
    ],
)
def test_each_kind_of_coinage_is_found_in_python(text):
    assert list(in_python(text))


@pytest.mark.parametrize(
    "text", ["window = 1", 'x = {"knobs": 1}', 'x = "--knobs a --knob b=1"', "# a window of 3 letters", "letter = 1"]
)
def test_ordinary_words_are_not_found(text):
    assert not list(in_python(text))


@pytest.mark.parametrize("text", ["a\nb nobody", "One Door", "so far", "one behind the other"])
def test_prose_is_searched_in_documents(text):
    assert list(in_prose(text))
