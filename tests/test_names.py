"""The names of `import duckanon`, which loads what has them when they are asked for."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import duckanon

TREE = ast.parse(Path(duckanon.__file__).read_text(encoding="utf-8"))


def run(program: str) -> str:
    """Give what a process of its own prints."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout


def typed() -> dict[str, str]:
    """Module of each name that type checkers are told."""
    return {
        name.name: str(found.module)
        for statement in TREE.body
        if isinstance(statement, ast.If)
        for found in statement.body
        if isinstance(found, ast.ImportFrom)
        for name in found.names
    }


def test_names_are_those_that_type_checkers_see() -> None:
    homes = {name: f"duckanon.{home}" for home, names in duckanon._HOMES.items() for name in names}
    assert homes == typed()
    assert {*homes, "__version__"} == set(duckanon.__all__)


@pytest.mark.parametrize("name", sorted(typed()))
def test_a_name_is_what_its_module_has(name: str) -> None:
    found = getattr(duckanon, name)
    assert found is getattr(importlib.import_module(typed()[name]), name)
    assert getattr(duckanon, name) is found


def test_little_is_loaded_for_little() -> None:
    program = "import sys, duckanon; duckanon.PolicyError, duckanon.__version__; print(*sys.modules)"
    loaded = set(run(program).split())
    assert "duckanon.errors" in loaded
    assert not loaded & {"duckdb", "numpy", "pyarrow", "jinja2", "typer", "rich"}


def test_the_package_itself_loads_next_to_nothing() -> None:
    """Where Python has not loaded these before: `importlib.abc` alone took as long as all the rest."""
    program = "import sys; before = {*sys.modules}; import duckanon; print(*{*sys.modules} - before)"
    assert not set(run(program).split()) & {"importlib.abc", "importlib.metadata", "tempfile", "pathlib"}


def test_all_names_are_there_at_once_for_who_wants_them() -> None:
    program = (
        "from duckanon import *; print(connect, Policy, __version__); import duckanon; print(*dir(duckanon))"
    )
    first, names = run(program).splitlines()
    assert "connect" in first
    assert {*duckanon.__all__, "__name__", "__path__"} <= set(names.split())


def test_a_room_is_there_without_a_line_that_imports_it() -> None:
    """As it was when all was loaded at once; the documentation has `duckanon.measures` so."""
    assert run("import duckanon; print(duckanon.measures.average_emd.__name__)") == "average_emd\n"


@pytest.mark.parametrize("name", ["holdings", "_holdings", "__wrapped__"])
def test_what_is_not_there_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'duckanon' has no attribute '{name}'"):
        getattr(duckanon, name)
    assert not hasattr(duckanon, name)
