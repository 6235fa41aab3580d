"""Evidence with which an audit can be repeated: policy, fingerprint of the rows, and versions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import duckdb

from duckanon.audits.columns import SHARE_MEASURES, label, share_bounds, share_options
from duckanon.database import engine
from duckanon.database.fingerprint import digest, fingerprint
from duckanon.database.relations import columns_of
from duckanon.errors import SourceError
from duckanon.policy import bind
from duckanon.policy.bind import Role
from duckanon.policy.policy import AuditPolicy
from duckanon.policy.subsets import BySubset, key_text, subset_thresholds
from duckanon.policy.toml_text import options_from_toml, options_to_toml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duckanon.policy.bind import Attribute


STAGE = "evidence"

SCHEMA_VERSION = 4
"""Version of the layout of the metadata; metadata of another version are refused."""


@dataclass(frozen=True)
class Evidence:
    """The policy and the rows of an audit, and the time of the audit."""

    audited_at: str  # UTC, ISO 8601
    policy: str  # `canonical` text
    policy_hash: str  # SHA-256 of the text, in hex
    fingerprint: str  # of the rows in any order
    duckanon_version: str
    duckdb_version: str
    schema_version: int = SCHEMA_VERSION  # of the layout of the metadata

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


def evidence_of(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    policy: AuditPolicy,
    trees: Mapping[str, str] | None = None,
) -> Evidence:
    """Evidence of an audit of a relation now. The rows are sorted once, and DuckDB may spill.

    `trees` are SQL text, by column. A hierarchical column without a tree has the name of its hierarchy table.
    """
    columns = columns_of(con, relation, STAGE)
    text = canonical(policy, columns, tree_fingerprints(con, trees or {}))
    return Evidence(
        audited_at=datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="microseconds"),
        policy=text,
        policy_hash=digest(text),
        fingerprint=fingerprint(con, relation),
        duckanon_version=version("duckanon"),
        duckdb_version=duckdb.__version__,
    )


def tree_fingerprints(con: duckdb.DuckDBPyConnection, trees: Mapping[str, str]) -> dict[str, str]:
    """Fingerprints, by column, of trees given as SQL text; an argument of `canonical`."""
    return {column: fingerprint(con, tree) for column, tree in trees.items()}


def canonical(policy: AuditPolicy, columns: Sequence[tuple[str, str]], trees: Mapping[str, str]) -> str:
    """Canonical text of a policy: policies that ask the same of the same columns have the same text.

    TOML with columns spelled and ordered as in the relation, a threshold and a distance for each column, no
    needless digits, and a tree by its fingerprint in `trees`.
    """
    attributes = sorted(bind.bind_audit(policy, columns), key=lambda attribute: attribute.name)
    sensitive = [attribute for attribute in attributes if attribute.role is Role.SENSITIVE]
    thresholds = {
        name: {a.name: _short(value) for a in sensitive if (value := getattr(a, name)) is not None}
        for name in ("t", "l")
    }
    hierarchies = {
        a.name: trees.get(a.name, policy.hierarchies.get(a.name, ""))
        for a in sensitive
        if a.distance == "hierarchical"
    }
    options: dict[str, Any] = {
        "quasi_identifiers": [a.name for a in attributes if a.role is Role.QUASI_IDENTIFIER],
        "sensitive": [a.name for a in sensitive],
        "k": policy.k,
        **thresholds,
        "n": policy.n,
        "l_diversity": policy.l_diversity,
        "c": None if policy.c is None else _short(policy.c),
        "joint_t": _joint(policy, attributes),
        "joint_distance": None if policy.joint_t is None else policy.joint_distance,
        **_shares(sensitive),
        "distance": {a.name: a.distance or "equal" for a in sensitive},
        "order": {a.name: list(a.order) for a in sensitive if a.order},
        "hierarchies": hierarchies,
        "suppressed": policy.suppressed,
        "k_subsets": _subsets(policy, [a.name for a in attributes if a.role is Role.QUASI_IDENTIFIER]),
    }
    return options_to_toml({name: value for name, value in options.items() if value not in (None, {}, [])})


def _joint(policy: AuditPolicy, attributes: Sequence[Attribute]) -> dict[str, Decimal]:
    """Thresholds of several columns by their text, columns and keys in order."""
    bound = bind.joint_thresholds(policy, attributes)
    return {key_text(one.columns): _short(one.t) for one in bound}


def _subsets(policy: AuditPolicy, quasi: Sequence[str]) -> BySubset[int] | int | None:
    """Every subset by name with its k; how many columns the subsets have if k is not judged."""
    found = subset_thresholds(policy.k_subsets, quasi, policy.k)
    if not found or any(one.k is None for one in found):
        return policy.k_subsets
    return BySubset({one.columns: one.k for one in sorted(found, key=lambda one: one.columns) if one.k})


def _shares(sensitive: Sequence[Attribute]) -> dict[str, dict[str, Any]]:
    """Thresholds of the shares of values, by option and column."""
    asked = [(a, bound) for a in sensitive for bound in share_bounds(a)]
    by_label = {
        measure: {label(a.name, b.named): _short(b.threshold) for a, b in asked if b.measure == measure}
        for measure in SHARE_MEASURES.values()
    }
    return share_options(by_label, [a.name for a in sensitive])


def read_canonical(text: str) -> AuditPolicy:
    """Policy of a text from `canonical`; PolicyError for any other text."""
    try:
        return AuditPolicy(**options_from_toml(text))
    except TypeError as wrong:
        raise SourceError(f"the recorded policy cannot be read: {engine.first_line(wrong)}") from wrong


def _short(number: Decimal) -> Decimal:
    return Decimal(format(number.normalize(), "f"))
