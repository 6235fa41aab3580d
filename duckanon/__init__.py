"""Anonymization inside DuckDB: k-anonymity, l-diversity and t-closeness, proved by plain SQL."""

from __future__ import annotations

from importlib.metadata import version

from duckanon.api import anonymize, audit
from duckanon.connection import Connection, connect
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
from duckanon.frames import anonymize_table
from duckanon.functions import register, unregister
from duckanon.methods import information_loss, methods, partition
from duckanon.policy import AuditPolicy, Policy
from duckanon.registry import Method
from duckanon.report import Measure, Report, Violation
from duckanon.views import Release

__version__ = version("duckanon")

__all__ = [
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
    "Violation",
    "__version__",
    "anonymize",
    "anonymize_table",
    "audit",
    "connect",
    "information_loss",
    "methods",
    "partition",
    "register",
    "unregister",
]
