"""Import paths that the documentation of earlier versions named."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

DOCUMENTED = {
    "duckanon.evidence": "changes",
    "duckanon.frontier": "picture",
    "duckanon.html_report": "html_report",
    "duckanon.linkage": "linkage",
    "duckanon.portable": "audit_sql",
    "duckanon.registry": "Method",
    "duckanon.unaudited": "Roles",
    "duckanon.workload": "compare",
    "duckanon.dbt": "package",
    "duckanon.measures": "average_emd",
    "duckanon.suggestion": "suggest",
    "duckanon.testing": "assert_private",
}
"""By module: a name that a page of the documentation imported from it, before the modules got their rooms."""


# A path is imported as the first of the package; what others wrote is loaded once for all of them.
PROGRAM = """
import sys
for line in sys.stdin:
    path, name = line.split()
    for module in [one for one in sys.modules if one.partition(".")[0] == "duckanon"]:
        del sys.modules[module]
    exec(f"from {path} import {name} as found; import {path}; assert {path}.{name} is found", {})
    print(path)
"""


@pytest.mark.slow
def test_a_documented_path_can_be_imported() -> None:
    given = "".join(f"{path} {name}\n" for path, name in DOCUMENTED.items())
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, list(DOCUMENTED)), done.stderr


def test_a_class_is_the_same_under_both_paths() -> None:
    former = importlib.import_module("duckanon.registry")
    assert former is importlib.import_module("duckanon.literature.registry")
    assert former.__name__ == "duckanon.literature.registry"


def test_what_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"duckanon\.holdings"):
        importlib.import_module("duckanon.holdings")
