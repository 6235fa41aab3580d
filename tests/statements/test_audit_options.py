"""Options of AUDIT, by hand."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from duckanon.errors import PolicyError
from duckanon.policy.policy import AuditPolicy, Policy
from duckanon.statements.grammar import Audit
from duckanon.statements.options import options_to_audit
from duckanon.statements.parse import parse

if TYPE_CHECKING:
    from duckanon.statements.options import Options


def audit_options(text: str) -> Options:
    """Return the options of an AUDIT."""
    statement = parse(f"AUDIT VIEW v {text}")
    assert isinstance(statement, Audit)
    return statement.options


RELEASED = Policy(
    quasi_identifiers="age", sensitive=["a", "b"], k=5, t={"a": 0.1}, l=2, l_diversity="recursive", c=3
).audited()


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("", {}),
        ("WITH (k = 9)", {"k": 9}),
        ("WITH (t = 0.2)", {"t": Decimal("0.2")}),
        ("WITH (t = {b: 0.2}, c = 4)", {"t": {"b": Decimal("0.2")}, "c": Decimal(4)}),
        (
            "WITH (l = 1.5, l_diversity = 'entropy')",
            {"l": Decimal("1.5"), "l_diversity": "entropy", "c": None},
        ),
    ],
)
def test_audit_of_a_view_replaces_thresholds(text: str, changed: dict[str, Any]) -> None:
    """By hand: what is not named stays as the release has it."""
    wanted = options_to_audit(audit_options(text), RELEASED)
    for name in (
        "quasi_identifiers",
        "sensitive",
        "k",
        "t",
        "l",
        "l_diversity",
        "c",
        "distance",
        "hierarchies",
    ):
        assert getattr(wanted, name) == changed.get(name, getattr(RELEASED, name))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("WITH (sensitive = a)", "option 'sensitive' is not one of AUDIT, the view keeps its own"),
        ("WITH (distance = {a: 'equal'})", "option 'distance' is not one of AUDIT, the view keeps its own"),
        ("WITH (kk = 5)", "unknown option 'kk', did you mean 'k'?"),
        ("WITH (t = {age: 0.5})", "t names 'age', which is not in sensitive"),
        ("WITH (l = 2.5)", "recursive l-diversity counts values, use an integer"),
    ],
)
def test_audit_of_a_view_keeps_roles(text: str, message: str) -> None:
    """Roles and distances were fixed by the release."""
    with pytest.raises(PolicyError) as wrong:
        options_to_audit(audit_options(text), RELEASED)
    assert message in str(wrong.value)


def test_audit_of_a_table_needs_quasi_identifiers_only() -> None:
    """A measure without threshold is reported; without quasi-identifiers there are no classes."""
    assert options_to_audit(audit_options("WITH (quasi_identifiers = (a, b))")) == AuditPolicy(
        quasi_identifiers=["a", "b"]
    )
    for text in ("", "WITH (k = 5)"):
        with pytest.raises(PolicyError, match="'quasi_identifiers' is missing"):
            options_to_audit(audit_options(text))
    with pytest.raises(PolicyError, match="option 'method' is not one of AUDIT, an audit has none"):
        options_to_audit(audit_options("WITH (quasi_identifiers = a, method = 'mdav')"))
