"""Break every audit in every way of `benchmarks.mutants`, and see that the tests notice.

Run from the repository: ``python -m benchmarks.mutate_audits [AUDIT ...]``. A broken text of an audit goes
the way of the real one (templates, macros), then the ``.test`` files that call its macros run on it, and the
rows of ``tests/trust/direct.py``. A mutant that no test catches and that ``equivalent_mutants.toml`` does not
explain makes the exit code 1; so does an audit with fewer than ten mutants, an explanation that no survivor
needs, an audit that no test reaches. SQL that DuckDB cannot even bind is no mutant.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

import duckdb
import jinja2
import pytest
import sqlglot

from benchmarks.mutants import Mutant, mutants
from duckanon.audits import headers, macros
from duckanon.database import templates
from tests import slt
from tests.trust import direct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

TESTS = Path(__file__).resolve().parents[1] / "tests" / "sql" / "audit"
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
MIN_MUTANTS = 10
UNBOUND = (
    duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, sqlglot.ParseError, ValueError,
)  # fmt: skip


class Outcome(NamedTuple):
    """Fate of a mutant, caught, survived or unbound, with the test or the reason."""

    mutant: Mutant
    fate: str
    by: str


class Templates(jinja2.BaseLoader):
    """Loader of the templates in ``sql/`` with other texts for some audits; it records the audits read."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self.read: Counter[str] = Counter()

    def get_source(self, _: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        """Return the text of a template, which is never cached."""
        return self.text(template), template, lambda: False

    def text(self, name: str) -> str:
        """Return the text of a file in ``sql/``."""
        if name.startswith("audit/"):
            self.read[Path(name).stem] += 1
        text = self.texts.get(name)
        return (templates.folder() / name).read_text(encoding="utf-8") if text is None else text


@contextmanager
def replaced(texts: Mapping[str, str]) -> Iterator[Templates]:
    """Make `sqlfiles` return other texts for some of its files during a block."""
    loader = Templates(texts)
    environment = templates._environment().overlay(loader=loader)
    with (
        patch.object(templates, "_environment", lambda: environment),
        patch.object(templates, "read", loader.text),
    ):
        yield loader


def macro(name: str) -> str:
    """Return the statement that makes a macro, from the current files."""
    return macros.macro_statement(name, temporary=False)


def body(audit: str) -> str:
    """Return the SELECT that runs for an audit."""
    return headers.split(templates.read(headers.audit_file(audit)))[1]


@cache
def readers() -> dict[str, tuple[str, ...]]:
    """Return by audit the macros that read it."""
    found: dict[str, tuple[str, ...]] = {}
    with replaced({}) as headers_alone:
        names = macros.bindings()
    for name in names:
        with replaced({}) as loader:
            macro(name)
        for audit in loader.read - headers_alone.read:
            found[audit] = (*found.get(audit, ()), name)
    return found


@cache
def sound() -> dict[str, str]:
    """Return the unbroken statements of all macros."""
    return {name: macro(name) for name in macros.bindings()}


@cache
def tests_of(audit: str) -> tuple[tuple[str, tuple[slt.Block, ...]], ...]:
    """Return the tests that call a macro of an audit or name it, its own first, without expected errors."""
    calls = re.compile(rf"\b({'|'.join(readers().get(audit, ('$',)))})\(|\{{{audit}\.sql\}}")
    paths = [path for path in TESTS.glob("*.test") if calls.search(path.read_text(encoding="utf-8"))]
    paths.sort(key=lambda path: (path.stem != audit, path.stem != f"mutant_{audit}", path.stem))
    return tuple(
        (path.name, tuple(block for block in slt.read_blocks(path) if block.kind != "statement error"))
        for path in paths
    )


def tried(mutant: Mutant) -> Outcome:
    """Run the tests on a mutant until one fails."""
    if mutant.audit in direct.CASES:
        outcome = _judged(mutant, "tests/trust/direct.py", partial(direct.check, mutant.audit, mutant.sql))
        if outcome.fate != "survived":
            return outcome
    file = headers.audit_file(mutant.audit)
    # The header stays, since it names the macros.
    head, _ = headers.split(templates.read(file))
    tests, unbroken = tests_of(mutant.audit), sound()
    with replaced({file: f"{head}\n{mutant.sql}"}):
        try:
            broken = {name: macro(name) for name in readers().get(mutant.audit, ())}
        except UNBOUND as error:
            return Outcome(mutant, "unbound", str(error))
        for name, blocks in tests:
            text = " ".join(block.sql for block in blocks)
            made = [sql for macro_name, sql in (unbroken | broken).items() if f"{macro_name}(" in text]
            with patch.object(slt, "macro_statements", lambda made=made, **_: made):
                outcome = _judged(mutant, name, partial(slt.run_in_python, blocks))
            if outcome.fate != "survived":
                return outcome
    return Outcome(mutant, "survived", "")


def _judged(mutant: Mutant, name: str, test: Callable[[], None]) -> Outcome:
    try:
        test()
    except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException) as error:
        return Outcome(mutant, "unbound", str(error))
    except (AssertionError, duckdb.Error, pytest.fail.Exception):
        return Outcome(mutant, "caught", name)
    return Outcome(mutant, "survived", "")


def reasons(audit: str) -> dict[str, str]:
    """Return the mutants of an audit that are equivalent to it, each with the reason."""
    listed = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get(audit, [])
    return {change: group["reason"] for group in listed for change in group["changes"]}


def judged(audit: str, outcomes: Sequence[Outcome]) -> list[str]:
    """Return the faults of the tests of an audit, one line each."""
    explained = reasons(audit)
    survivors = [outcome.mutant.change for outcome in outcomes if outcome.fate == "survived"]
    bound = [outcome for outcome in outcomes if outcome.fate != "unbound"]
    faults = [f"{audit}: SURVIVED {change}" for change in survivors if change not in explained]
    faults += [
        f"{audit}: explained, but no survivor: {change}" for change in explained if change not in survivors
    ]
    if len(bound) - len(explained) < MIN_MUTANTS:
        faults.append(f"{audit}: only {len(bound) - len(explained)} mutants, {MIN_MUTANTS} are wanted")
    return faults


def check(audit: str, run: Callable[..., Iterator[Outcome]] = map) -> tuple[Counter[str], list[str]]:
    """Try all mutants of an audit; return their number by fate, and the faults of the tests."""
    # `run` is `map`, or the `map` of a pool of processes.
    if audit not in direct.CASES and not tests_of(audit):
        return Counter(), [f"{audit}: no test reaches it"]
    original = tried(Mutant(audit, "nothing", sqlglot.parse_one(body(audit), read="duckdb").sql("duckdb")))
    if original.fate != "survived":
        return Counter(), [f"{audit}: its tests fail without any change ({original.by.splitlines()[0]})"]
    outcomes = list(run(tried, mutants(audit, body(audit))))
    return Counter(outcome.fate for outcome in outcomes), judged(audit, outcomes)


def main(arguments: Sequence[str]) -> int:
    """Print a line an audit, and every fault; return 1 if there is a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("audits", nargs="*", metavar="AUDIT", help="names in sql/audit (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    chosen = parser.parse_args(arguments)
    unknown = sorted(set(chosen.audits) - set(headers.audit_names()))
    if unknown:
        parser.error(f"no such audit: {', '.join(unknown)}")
    faults = []
    with ProcessPoolExecutor(chosen.jobs) as pool:
        for audit in chosen.audits or headers.audit_names():
            fates, found = check(audit, partial(pool.map, chunksize=4))
            tally = f"{fates['caught'] + fates['survived']:>5} mutants, {fates['caught']:>4} caught"
            equal = f"{len(reasons(audit)):>3} equivalent, {len(found):>3} faults"
            print("\n  ".join([f"{audit:<32}{tally}, {equal}", *found]), flush=True)
            faults += found
    print(f"{len(faults)} faults" if faults else "every mutant is caught")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
