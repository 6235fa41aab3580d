"""The rule of names: a constant says of what it is, and a room has no two classes of one name."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

BARE_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        ABSOLUTE AFTER AGAIN ALIKE ALL ALONE ANEW ANY ANYWHERE APART ASIDE AWAY BARE BEFORE BESIDE BEYOND
        BROAD CLEAR CLOSE COARSE DEAR DEEP DIRECT EACH ENOUGH EXACT FAR FARTHER FARTHEST FAST FEW FEWER
        FEWEST FINE FINEST FIRST FIXED FLAT FREE FULL GONE HALF HELPLESS HIGH HIGHER HIGHEST LARGE LARGER
        LARGEST LAST LEAST LESS LONG LONGER LONGEST LOW LOWER LOWEST MANY MODERATE MORE MOST NARROW NEAR
        NEARER NEAREST NEARLY NONE NOTHING OFTEN ONE ONLY OPEN OTHERS OURS OVER OWN PATIENCE PATIENT PERHAPS
        PLAIN RARE READY RECENT RELATIVE SEVERAL SHORT SHORTEST SINCE SMALL SMALLER SMALLEST SOME SOON SPARE
        SURE TIGHT TOGETHER UNDER UNTIL WHOLE WHY WIDE WIDER WIDEST WITHOUT WORSE WORST
        """,
    )
)
"""Adjectives and quantities, which do not say of what."""

PARTICIPLE = re.compile(r"_?([A-Z]+ED|TOLD|SHOWN|SEEN|KEPT|HELD|SPENT)")
"""What a number is not called: LISTED = 20 does not say what is listed."""

VAGUE_CLASSES = frozenset({"Asked", "Column", "Guard", "Rows", "Table", "Tree", "Written"})
"""Classes that need the noun that tells them apart."""

ROOMS_TO_DO: frozenset[str] = frozenset()
"""Rooms whose names are still to be changed."""


@cache
def modules() -> list[tuple[str, Path, ast.Module]]:
    """Give room, path and tree of each module: a room is a folder of the package, or a module beside them."""
    found = []
    for folder in ("duckanon", "benchmarks", "reproduce"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).parts
            room = folder if folder != "duckanon" else parts[0].removesuffix(".py")
            if room not in ROOMS_TO_DO:
                found.append((room, path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))))
    return found


def constants(tree: ast.Module) -> list[tuple[str, ast.expr | None]]:
    """Give the constants of a module with their values; None for a value that is one of several."""
    found: list[tuple[str, ast.expr | None]] = []
    for statement in tree.body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            continue
        for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
            if isinstance(target, ast.Tuple):
                found += [(part.id, None) for part in target.elts if isinstance(part, ast.Name)]
            elif isinstance(target, ast.Name):
                found.append((target.id, statement.value))
    return [(name, value) for name, value in found if re.fullmatch(r"_?[A-Z][A-Z0-9_]*", name)]


def is_bare(name: str, value: ast.expr | None) -> bool:
    """Whether a constant is a bare adjective or quantity."""
    number = value is not None and not isinstance(value, ast.Name) and all(map(_is_numeric, ast.walk(value)))
    return {*name.strip("_").split("_")} <= BARE_WORDS or (number and PARTICIPLE.fullmatch(name) is not None)


def _is_numeric(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float)
    return isinstance(node, ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop)


def test_constants_say_of_what_they_are() -> None:
    bare = [
        f"{path}: {name}"
        for _, path, tree in modules()
        for name, value in constants(tree)
        if is_bare(name, value)
    ]
    assert not bare, "name of what, and in which unit, as in MONDRIAN_MAX_RECORDS"


def test_a_room_has_no_two_classes_of_one_name() -> None:
    places: dict[tuple[str, str], list[str]] = {}
    for room, path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places.setdefault((room, node.name.lstrip("_")), []).append(f"{path}:{node.lineno}")
    assert not {name: found for name, found in places.items() if len(found) > 1}
    assert not {name: found for name, found in places.items() if name[1] in VAGUE_CLASSES}


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("FEW = 20", True), ("_MOST, PART = 20, 4", True), ("WIDEST: int = 2**4", True), ("_LISTED = 25", True),
        ("MONDRIAN_MAX_RECORDS = 10", False), ("RECORDED = 'x'", False), ("ALL_KINDS = ()", False), ("K = 5", False),
    ],
)  # fmt: skip
def test_the_rule_itself(text: str, bare: bool) -> None:
    assert any(is_bare(*one) for one in constants(ast.parse(text))) == bare
