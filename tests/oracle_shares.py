"""The models that bound shares of values, by their definitions: plain Fractions, and 60 digits for logarithms.

p is the share of a value in a class, q its share in the table. Sources: Wong et al., KDD 2006 (alpha);
Brickell and Shmatikov, KDD 2008, definition 2 (delta); Cao and Karras, PVLDB 5(11), 2012, definitions 2 and 3
(beta and enhanced beta).
"""

from __future__ import annotations

from collections import Counter
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tests.oracle import exact, key

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

MODELS = ("alpha", "delta", "beta", "enhanced_beta")


def logarithm(x: Fraction) -> Decimal:
    """Give ln x with 60 digits; no ratio of counts but 1 has a logarithm that is a decimal."""
    with localcontext(Context(prec=60)):
        return (Decimal(x.numerator) / Decimal(x.denominator)).ln()


def keeps(members: Sequence[Hashable], table: Sequence[Hashable], asked: Mapping[str, Any]) -> bool:
    """Tell whether the values of a class keep the models that are asked for, as the definitions say.

    ``asked["alpha"]`` is a number, or numbers by value.
    """
    held, whole = Counter(members), Counter(table)
    for value, count in whole.items():
        p, q = Fraction(held[value], len(members)), Fraction(count, len(table))
        if not all(_keeps(model, value, p, q, asked[model]) for model in MODELS if model in asked):
            return False
    return True


def _keeps(model: str, value: Hashable, p: Fraction, q: Fraction, limit: Any) -> bool:
    if model == "alpha":
        most = limit.get(value, 1) if isinstance(limit, dict) else limit
        return p <= Fraction(most)
    if model == "delta":
        return p > 0 and Fraction(abs(logarithm(p / q))) < Fraction(limit)
    if p <= q:
        return True
    gain = (p - q) / q
    if model == "beta":
        return gain <= Fraction(limit)
    return gain <= Fraction(limit) and gain <= Fraction(-logarithm(q))


def limit_of(asked: Any, name: str) -> Any:
    """Give what a policy asks of a column: a number, numbers by column, or by column and value (as text)."""
    if not isinstance(asked, dict):
        return exact(asked)
    own = asked.get(name, 1)
    return {key(value): exact(share) for value, share in own.items()} if isinstance(own, dict) else exact(own)


def asked_of(policy: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Give the models that a policy asks of a column, with their numbers."""
    asked = {model: policy[model] for model in MODELS if policy.get(model) is not None}
    return {
        model: limit_of(value, name)
        for model, value in asked.items()
        if not isinstance(value, dict) or name in value
    }


def violating(classes: Mapping[Hashable, Sequence[Hashable]], asked: Mapping[str, Any]) -> list[Hashable]:
    """Give the classes, by name with the value of each record, that break a model; they make up the table."""
    table = [value for members in classes.values() for value in members]
    return [name for name, members in classes.items() if not keeps(members, table, asked)]
