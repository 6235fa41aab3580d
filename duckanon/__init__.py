"""Anonymization inside DuckDB: k-anonymity, l-diversity and t-closeness, proved by plain SQL."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckanon.api.connection import Connection, connect
    from duckanon.api.python import (
        anonymize,
        anonymize_stream,
        anonymize_table,
        audit,
        register,
        report,
        unregister,
    )
    from duckanon.audits.html.report import Page
    from duckanon.audits.report import Measure, Report, Violation
    from duckanon.errors import (
        AuditFailure,
        DuckanonError,
        DuckanonWarning,
        InfeasibleError,
        MissingExtra,
        PolicyError,
        ReleaseError,
        SourceError,
        StatementError,
    )
    from duckanon.literature.partitions import information_loss, methods, partition
    from duckanon.literature.registry import Method
    from duckanon.policy.policy import AuditPolicy, Policy
    from duckanon.release.views import Release
    from duckanon.streams.report import StreamReport
    from duckanon.streams.stream import AnonymizedStream
    from duckanon.suggestion import suggest
    from duckanon.suggestion.model import Suggestion

    __version__: str

__all__ = [
    "AnonymizedStream",
    "AuditFailure",
    "AuditPolicy",
    "Connection",
    "DuckanonError",
    "DuckanonWarning",
    "InfeasibleError",
    "Measure",
    "Method",
    "MissingExtra",
    "Page",
    "Policy",
    "PolicyError",
    "Release",
    "ReleaseError",
    "Report",
    "SourceError",
    "StatementError",
    "StreamReport",
    "Suggestion",
    "Violation",
    "__version__",
    "anonymize",
    "anonymize_stream",
    "anonymize_table",
    "audit",
    "connect",
    "information_loss",
    "methods",
    "partition",
    "register",
    "report",
    "suggest",
    "unregister",
]

_HOMES = {
    "api.connection": ("Connection", "connect"),
    "api.python": (
        "anonymize", "anonymize_stream", "anonymize_table", "audit", "register", "report", "unregister",
    ),
    "audits.html.report": ("Page",),
    "audits.report": ("Measure", "Report", "Violation"),
    "errors": (
        "AuditFailure", "DuckanonError", "DuckanonWarning", "InfeasibleError", "MissingExtra", "PolicyError",
        "ReleaseError", "SourceError", "StatementError",
    ),
    "literature.partitions": ("information_loss", "methods", "partition"),
    "literature.registry": ("Method",),
    "policy.policy": ("AuditPolicy", "Policy"),
    "release.views": ("Release",),
    "streams.report": ("StreamReport",),
    "streams.stream": ("AnonymizedStream",),
    "suggestion": ("suggest",),
    "suggestion.model": ("Suggestion",),
}  # fmt: skip
"""Names by the module that has them."""

if not TYPE_CHECKING:

    def __getattr__(name):
        """Load what is asked for: a program that asks for little, as for `--help`, need not wait for all."""
        if name == "__version__":
            found = import_module("importlib.metadata").version("duckanon")
        elif homes := [home for home, names in _HOMES.items() if name in names]:
            found = getattr(import_module(f"duckanon.{homes[0]}"), name)
        elif not name.startswith("_") and find_spec(f"duckanon.{name}"):
            return import_module(f"duckanon.{name}")
        else:
            raise AttributeError(f"module 'duckanon' has no attribute {name!r}")
        globals()[name] = found
        return found

    def __dir__():
        """Names that are there, and those that are loaded when they are asked for."""
        return sorted({*globals(), *__all__})
