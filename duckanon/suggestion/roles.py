"""Which role a column may have, and why: rules over name, type and values, of which the first that fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duckanon.errors import PolicyError
from duckanon.policy import Policy
from duckanon.schema import Role, bind
from duckanon.suggestion.names import code_named, key_named, named, title_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from duckanon.suggestion.names import Named
    from duckanon.suggestion.profile import Facts

KEY_RATIO = 0.05
"""Different values for each record from which a column with the name of a key is taken for one."""

OWN_TEXT = 0.5
"""Share of records alone with their text from which its mode would be somebody's own text."""

FEW = 20
"""Up to so many different values a column of texts or whole numbers looks like a code."""

MANY = 0.5
"""Share of values of a pattern from which a column is taken to be made of it."""

SOME = 0.01
"""Share of values with an e-mail address from which a text is not released."""

LEAST = 10
"""Records from which the values alone can show that a column is a key."""

NUMBERS = frozenset({"integer", "decimal", "float", "date", "timestamp"})
"""Kinds with a mean."""

_DIRECT = {
    "email": "e-mail addresses",
    "ssn": "social security numbers",
    "iban": "IBANs",
    "phone": "telephone numbers",
    "card": "card numbers",
    "network": "addresses of devices",
    "url": "addresses of pages",
    "uuid": "UUIDs",
}
_LOOKS = {"date": "dates as text", "zip": "postal codes", "coordinates": "coordinates"}


class Proposal(NamedTuple):
    """A role, the reason in words, and what to do about the column, if anything."""

    role: Role
    reason: str
    warning: str | None = None


def propose(facts: Facts) -> Proposal:
    """Role proposed for a column; where nothing speaks for another one, quasi-identifier.

    Parameters
    ----------
    facts : Facts
        What was counted in the column.

    Returns
    -------
    Proposal
        Role, reason, warning.
    """
    meaning = named(facts.column.name)
    for rule in _RULES:
        found = rule(facts, meaning)
        if found is not None:
            return found
    about = f"{described(facts)}{_guess(facts)}"
    return Proposal(Role.QUASI_IDENTIFIER, f"nothing says that outsiders cannot know it: {about}")


def described(facts: Facts) -> str:
    """What the values of a column are, in a few words without any of the values.

    Parameters
    ----------
    facts : Facts
        What was counted in the column.

    Returns
    -------
    str
        For example ``a code of 7 values``.
    """
    looks = [what for pattern, what in _LOOKS.items() if facts.share(pattern) >= MANY]
    if looks and facts.column.kind == "text":
        return f"looks like {looks[0]}"
    if facts.column.kind in {"date", "timestamp"}:
        return f"{facts.values} times within {_years(facts)}"
    if facts.column.kind == "text" or is_code(facts):
        return f"a code of {facts.values} values" if facts.values <= FEW else f"{facts.values} texts or codes"
    return f"{facts.values} values" if facts.column.kind == "boolean" else f"{facts.values} numbers"


def _guess(facts: Facts) -> str:
    """Return what numbers without a telling name may be."""
    if facts.column.kind not in {"integer", "decimal", "float"} or is_code(facts):
        return ""
    if facts.whole and _within(facts, 0, 120) and facts.values > FEW:
        return " within 0 and 120, as ages are"
    if facts.share("fine_decimal") >= MANY and _within(facts, -180, 180):
        return " within -180 and 180, with four digits or more, as coordinates are"
    return ""


def is_code(facts: Facts) -> bool:
    """Whether the numbers of a column are codes rather than quantities.

    Parameters
    ----------
    facts : Facts
        What was counted in the column.

    Returns
    -------
    bool
        True for whole numbers named as codes, and for two values.
    """
    kinds = {"integer", "decimal", "float"}
    if facts.column.kind not in kinds or not facts.whole:
        return False
    return facts.values <= 2 or code_named(facts.column.name)


def _unusable_type(facts: Facts, meaning: Named | None) -> Proposal | None:
    del meaning
    name, type_text = facts.column.name, facts.column.type
    if type_text == "JSON":
        use = "use the fields that are needed as columns of their own"
        return _dropped(facts, "JSON holds many facts in one value", use)
    try:
        bind(Policy(quasi_identifiers=[name], k=2), [(name, type_text)])
    except PolicyError as refused:
        # The text after the colon says what to write instead; the one before it names the type.
        return _dropped(
            facts, f"{facts.column.type[:24]} cannot be recoded", str(refused).rpartition(": ")[2]
        )
    return None


def _dropped(facts: Facts, reason: str, use: str) -> Proposal:
    warning = f"column {facts.column.name!r} is dropped, {reason}: to keep it, {use} in the query"
    return Proposal(Role.IDENTIFIER, f"{reason}; dropped", warning)


def _named_identifier(facts: Facts, meaning: Named | None) -> Proposal | None:
    if facts.column.type == "UUID":
        return Proposal(Role.IDENTIFIER, "a UUID points at one thing")
    if meaning is None or meaning.role != "identifier":
        return None
    return Proposal(Role.IDENTIFIER, f"named like {meaning.what}")


def _subject_key(facts: Facts, meaning: Named | None) -> Proposal | None:
    del meaning
    if _countable(facts) and key_named(facts.column.name) == "subject":
        return Proposal(Role.IDENTIFIER, "named like the key of a record or person")
    return None


def _other_key(facts: Facts, meaning: Named | None) -> Proposal | None:
    key = key_named(facts.column.name) == "key"
    if meaning is not None or not _countable(facts) or facts.distinct_ratio < KEY_RATIO:
        return None
    if key or title_named(facts.column.name):
        counts = f"{facts.values} values in {facts.records} records"
        return Proposal(Role.IDENTIFIER, f"named like a {'key' if key else 'name'}, {counts}")
    return None


def _direct_values(facts: Facts, meaning: Named | None) -> Proposal | None:
    if facts.share("date") >= MANY:
        return None
    for pattern, what in _DIRECT.items():
        # A plain number of 13 to 16 digits may be a quantity, if its name says so.
        if facts.share(pattern) >= MANY and (facts.column.kind == "text" or meaning is None):
            return Proposal(Role.IDENTIFIER, f"the values look like {what}")
    for pattern in ("email", "ssn", "iban", "uuid", "phone"):
        if facts.column.kind == "text" and facts.share(pattern) >= SOME:
            share = f"{100 * facts.share(pattern):.0f} %"
            return Proposal(Role.IDENTIFIER, f"{share} of the values look like or hold {_DIRECT[pattern]}")
    return None


def _text(facts: Facts, meaning: Named | None) -> Proposal | None:
    if facts.column.kind != "text" or facts.share("date") >= MANY or facts.share("zip") >= MANY:
        return None
    varied = facts.values > FEW or facts.distinct_ratio >= 0.1
    if varied and (facts.words >= 5 or facts.length >= 50 or facts.longest > 200):
        return Proposal(Role.IDENTIFIER, "free text, which may hold names or anything else")
    place = meaning is not None and meaning.role == "quasi_identifier"
    if facts.unique_share >= OWN_TEXT and facts.present > 1 and not place and facts.share("number") < MANY:
        reason = f"{100 * facts.unique_share:.0f} % of the records have a text of their own"
        return Proposal(Role.IDENTIFIER, f"{reason}, and a recoded text would be somebody's")
    return None


def _sensitive(facts: Facts, meaning: Named | None) -> Proposal | None:
    if meaning is None or meaning.role != "sensitive" or facts.column.kind in {"date", "timestamp"}:
        return None
    warning = None
    if facts.unique_share >= 0.1:
        warning = (
            f"sensitive column {facts.column.name!r} is released as it is, and "
            f"{100 * facts.unique_share:.0f} % of the records are alone with their value: who knows it finds "
            "the record; round or group it in the query, or make it a quasi-identifier"
        )
    return Proposal(Role.SENSITIVE, f"named like {meaning.what}", warning)


def _known(facts: Facts, meaning: Named | None) -> Proposal | None:
    if facts.values < 2 or meaning is None or meaning.role != "quasi_identifier":
        return None
    return Proposal(
        Role.QUASI_IDENTIFIER, f"named like {meaning.what}: {described(facts)}", _advice(facts, meaning)
    )


def _advice(facts: Facts, meaning: Named) -> str | None:
    name = repr(facts.column.name)
    if meaning.what == "a coordinate" and facts.unique_share >= 0.1:
        return f"{name} is nearly an address: round coordinates in the query, two decimals are about 1 km"
    if facts.column.kind == "text" and facts.share("date") >= MANY:
        return f"{name} holds dates as text, recoded by their mode: CAST it to DATE to have their mean"
    return None


def _key_values(facts: Facts, meaning: Named | None) -> Proposal | None:
    """Take whole numbers, all different and in a dense or fixed form, for a key."""
    del meaning
    numbers = facts.column.kind in {"integer", "decimal", "float"}
    if not (numbers and facts.whole) or facts.present < LEAST or facts.values < facts.present:
        return None
    low, high = facts.low or 0.0, facts.high or 0.0
    if high - low + 1 <= 2 * facts.values:
        return Proposal(Role.IDENTIFIER, "a running number: all values differ, and few are left out")
    if facts.shortest == facts.longest >= 6:
        return Proposal(Role.IDENTIFIER, f"all values differ and have {facts.longest} digits, as keys have")
    return None


def _constant(facts: Facts, meaning: Named | None) -> Proposal | None:
    del meaning
    if facts.present == 0:
        return Proposal(Role.INSENSITIVE, "no value at all today; look again when the data change")
    if facts.values == 1 and facts.nulls == 0 and facts.records > 1:
        return Proposal(Role.INSENSITIVE, "one value in all records today; look again when the data change")
    return None


def _years(facts: Facts) -> str:
    span = int((facts.high or 0) - (facts.low or 0)) + 1
    born = ", as dates of birth are" if span >= 40 and (facts.low or 0) >= 1880 else ""
    return f"{span} year{'' if span == 1 else 's'}{born}"


def _within(facts: Facts, low: float, high: float) -> bool:
    return facts.low is not None and facts.high is not None and low <= facts.low and facts.high <= high


def _countable(facts: Facts) -> bool:
    """Tell whether values can be keys: texts and whole numbers."""
    return facts.column.kind in {"text", "integer"} or bool(facts.whole)


_RULES: tuple[Callable[[Facts, Named | None], Proposal | None], ...] = (
    _unusable_type,
    _named_identifier,
    _subject_key,
    _direct_values,
    _other_key,
    _text,
    _sensitive,
    _known,
    _key_values,
    _constant,
)
