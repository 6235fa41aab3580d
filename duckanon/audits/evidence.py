"""What an audit looked at, so that it can be done again: policy, fingerprint of the rows, versions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import duckdb

from duckanon.database import engine
from duckanon.database.fingerprint import digest, fingerprint
from duckanon.database.relations import columns_of
from duckanon.errors import SourceError
from duckanon.policy import bind
from duckanon.policy.bind import Role
from duckanon.policy.policy import AuditPolicy
from duckanon.policy.toml import options_from_toml, options_to_toml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


STAGE = "evidence"

SCHEMA_VERSION = 4
"""Version of the layout of the metadata; metadata of another version are refused."""


@dataclass(frozen=True)
class Evidence:
    """What an audit looked at, and when.

    The time is UTC in ISO 8601; the policy its `canonical` text, its hash the SHA-256 of that, in hex; the
    fingerprint that of the rows in any order; the schema version that of the layout of the metadata.
    """

    audited_at: str
    policy: str
    policy_hash: str
    fingerprint: str
    duckanon_version: str
    duckdb_version: str
    schema_version: int = SCHEMA_VERSION

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


def evidence_of(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    policy: AuditPolicy,
    trees: Mapping[str, str] | None = None,
) -> Evidence:
    """What an audit of a relation looks at, with the time of now.

    One sort of the rows, which DuckDB spills. Without its tree, as SQL text, a hierarchical column is
    known by the name of its hierarchy table.
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
    """Fingerprints of trees, relations as SQL text, by column, as `canonical` takes them."""
    return {column: fingerprint(con, tree) for column, tree in trees.items()}


def canonical(policy: AuditPolicy, columns: Sequence[tuple[str, str]], trees: Mapping[str, str]) -> str:
    """Text of a policy that is the same for every policy that asks the same of the same columns.

    TOML: columns as the relation spells them, in order; a threshold and a distance for each column; no
    needless digits; a tree by its fingerprint, which `trees` gives by column.
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
        "l_diversity": policy.l_diversity,
        "c": None if policy.c is None else _short(policy.c),
        "distance": {a.name: a.distance or "equal" for a in sensitive},
        "hierarchies": hierarchies,
        "suppressed": policy.suppressed,
    }
    return options_to_toml({name: value for name, value in options.items() if value not in (None, {}, [])})


def read_canonical(text: str) -> AuditPolicy:
    """Policy that a text of `canonical` states; PolicyError if it is not such a text."""
    try:
        return AuditPolicy(**options_from_toml(text))
    except TypeError as wrong:
        raise SourceError(f"the recorded policy cannot be read: {engine.first_line(wrong)}") from wrong


def _short(number: Decimal) -> Decimal:
    return Decimal(format(number.normalize(), "f"))
