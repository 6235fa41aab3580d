"""Anonymization inside DuckDB: k-anonymity, l-diversity and t-closeness, proved by plain SQL."""

from __future__ import annotations

from importlib.metadata import version

from duckanon.api.connection import Connection, connect
from duckanon.api.python import anonymize, anonymize_stream, anonymize_table, audit, register, unregister
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
from duckanon.moved import keep_paths
from duckanon.policy.policy import AuditPolicy, Policy
from duckanon.release.views import Release
from duckanon.streams.report import StreamReport
from duckanon.streams.stream import AnonymizedStream

keep_paths()

__version__ = version("duckanon")

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
    "Policy",
    "PolicyError",
    "Release",
    "ReleaseError",
    "Report",
    "SourceError",
    "StatementError",
    "StreamReport",
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
    "unregister",
]
