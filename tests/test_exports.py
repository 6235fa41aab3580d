"""The public names: sorted, complete, documented."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import pytest

import duckanon

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(duckanon.__path__, "duckanon.")
    if not module.name.endswith("__main__")
)


def test_all_is_sorted_and_every_name_is_there_and_documented() -> None:
    assert list(duckanon.__all__) == sorted(duckanon.__all__)
    for name in duckanon.__all__:
        assert inspect.getdoc(getattr(duckanon, name)), name


@pytest.mark.parametrize("name", MODULES)
def test_every_example_in_a_docstring_runs(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except duckanon.MissingExtra as missing:
        pytest.skip(str(missing))
    assert doctest.testmod(module).failed == 0
