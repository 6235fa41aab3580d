"""Import paths that the documentation of earlier versions named: each gives the module that it is today."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader, MetaPathFinder
    from types import ModuleType
else:
    # To load these takes as long as all the rest of the package does; what they define is not needed.
    Loader = MetaPathFinder = object

MOVED = {
    "duckanon.evidence": "duckanon.audits.changes",
    "duckanon.frontier": "duckanon.release.frontier",
    "duckanon.html_report": "duckanon.audits.html.report",
    "duckanon.linkage": "duckanon.evaluation.attack.linkage",
    "duckanon.portable": "duckanon.audits.portable",
    "duckanon.registry": "duckanon.literature.registry",
    "duckanon.unaudited": "duckanon.audits.unaudited",
    "duckanon.workload": "duckanon.evaluation.workload.compare",
}
"""Module of today by its former path."""


def keep_paths() -> None:
    """Let the former paths be imported; nothing of them is loaded before somebody asks for it."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


class _Finder(MetaPathFinder):
    """Finds the former paths, where nothing else has found a module."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        return ModuleSpec(fullname, _Today()) if fullname in MOVED else None


class _Today(Loader):
    """Gives the module of today itself, so that its classes are the same under both paths."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to Python to make a module, which is replaced."""

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = import_module(MOVED[module.__name__])
