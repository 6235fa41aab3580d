"""Role of a column, with a reason: the first matching rule over name, type and values decides."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from duckanon.database import engine, templates
from duckanon.errors import PolicyError
from duckanon.policy.bind import Role, bind
from duckanon.policy.kinds import NUMBERS, code_named
from duckanon.policy.policy import Policy
from duckanon.suggestion.model import ColumnSuggestion, number_of
from duckanon.suggestion.names import key_named, named, person_named, title_named

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import duckdb

    from duckanon.suggestion.names import Named
    from duckanon.suggestion.profile import Facts

CODE_MAX_VALUES = 20
"""Largest number of different values of a column of texts or whole numbers that looks like a code."""

PATTERN_MIN_SHARE = 0.5
"""Least share of values with a pattern from which the whole column is said to have it."""

_NUMERIC = frozenset({"integer", "decimal", "float"})
_LOOKS = {"date": "dates as text", "zip": "postal codes", "coordinates": "coordinates"}


def described(facts: Facts) -> str:
    """Description of the values of a column without any value, for example ``a code of 7 values``."""
    looks = [what for pattern, what in _LOOKS.items() if facts.share(pattern) >= PATTERN_MIN_SHARE]
    if looks and facts.column.kind == "text":
        return f"looks like {looks[0]}"
    if facts.column.kind in {"date", "timestamp"}:
        return f"{facts.values} times within {_years(facts)}"
    if facts.column.kind == "text" or is_code(facts):
        return (
            f"a code of {facts.values} values"
            if facts.values <= CODE_MAX_VALUES
            else f"{facts.values} texts or codes"
        )
    return f"{facts.values} values" if facts.column.kind == "boolean" else f"{facts.values} numbers"


def guess(facts: Facts) -> str:
    """Guess at numbers without a telling name, to end a sentence: ``within 0 and 120, as ages are``."""
    if facts.column.kind not in _NUMERIC or is_code(facts):
        return ""
    if facts.whole and _within(facts, 0, 120) and facts.values > CODE_MAX_VALUES:
        return "within 0 and 120, as ages are"
    if facts.share("fine_decimal") >= PATTERN_MIN_SHARE and _within(facts, -180, 180):
        return "within -180 and 180, with four digits or more, as coordinates are"
    return ""


def is_code(facts: Facts) -> bool:
    """Whether the numbers of a column are codes: whole numbers with the name of a code, or two values."""
    if facts.column.kind not in _NUMERIC or not facts.whole:
        return False
    return facts.values <= 2 or code_named(facts.column.name) is not None


def _years(facts: Facts) -> str:
    span = int((facts.high or 0) - (facts.low or 0)) + 1
    born = ", as dates of birth are" if span >= 40 and (facts.low or 0) >= 1880 else ""
    return f"{span} year{'' if span == 1 else 's'}{born}"


def _within(facts: Facts, low: float, high: float) -> bool:
    return facts.low is not None and facts.high is not None and low <= facts.low and facts.high <= high


KEY_RATIO = 0.05
"""Least ratio of different values to records of a column that has the name of a key and is one."""

KEY_VALUES = 1000
"""Least number of different values of such a key, for any number of records."""

OWN_VALUE_MIN_SHARE = 0.5
"""Least share of records with a unique text whose mode would be the text of one person.

Also the least ratio of values to records from which a key that outsiders know (``school_id``) points to one
record.
"""

POSTAL = 10
"""Largest number of characters of a postal code."""

EMAIL_MIN_SHARE = 0.01
"""Least share of values with an e-mail address from which a text is not released."""

KEY_MIN_RECORDS = 10
"""Least number of records in which values alone, without a telling name, show a key."""

_DIRECT_IDENTIFIERS = {
    "email": "e-mail addresses",
    "ssn": "social security numbers",
    "iban": "IBANs",
    "phone": "telephone numbers",
    "card": "card numbers",
    "network": "addresses of devices",
    "url": "addresses of pages",
    "uuid": "UUIDs",
}


class Proposal(NamedTuple):
    """A role, the reason in words, and advice on the column, if any."""

    role: Role
    reason: str
    warning: str | None = None


def propose(facts: Facts) -> Proposal:
    """Role proposed for a column; quasi-identifier if no rule matches."""
    meaning = named(facts.column.name)
    for rule in _RULES:
        proposal = rule(facts, meaning)
        if proposal is not None:
            return proposal
    about = f"{described(facts)} {guess(facts)}".rstrip()
    return Proposal(Role.QUASI_IDENTIFIER, f"nothing says that outsiders cannot know it: {about}")


def _unusable_type(facts: Facts, meaning: Named | None) -> Proposal | None:
    del meaning
    name, type_text = facts.column.name, facts.column.type
    if type_text == "JSON":
        use = "use the fields that are needed as columns of their own"
        return _dropped(facts, "JSON holds many facts in one value", use)
    try:
        bind(Policy(quasi_identifiers=[name], k=2), [(name, type_text)])
    except PolicyError as refused:
        # The text before the colon names the type, the text after it is the remedy.
        return _dropped(
            facts, f"{facts.column.shown[:24]} cannot be recoded", str(refused).rpartition(": ")[2]
        )
    return None


def _dropped(facts: Facts, reason: str, use: str) -> Proposal:
    warning = f"column {facts.column.name!r} is dropped, {reason}: to keep it, {use} in the query"
    return Proposal(Role.IDENTIFIER, f"{reason}; dropped", warning)


def _named_identifier(facts: Facts, meaning: Named | None) -> Proposal | None:
    if facts.column.type == "UUID":
        return Proposal(Role.IDENTIFIER, "a UUID points at one thing")
    if meaning is None or meaning.role != "identifier" or _two_values(facts):
        return None
    return Proposal(Role.IDENTIFIER, f"named like {meaning.what}")


def _subject_key(facts: Facts, meaning: Named | None) -> Proposal | None:
    del meaning
    if _countable(facts) and key_named(facts.column.name) == "subject" and not _two_values(facts):
        return Proposal(Role.IDENTIFIER, "named like the key of a record or person")
    return None


def _other_key(facts: Facts, meaning: Named | None) -> Proposal | None:
    """Take a column with many values and the name of a key, a name or a person for an identifier."""
    # The last word of the name decides: `loan_id` is no loan, `loan_officer` is a person. Exceptions:
    # `diagnosis_name` is a diagnosis, and `school_id` a school unless a value has few records.
    name = facts.column.name
    role = None if meaning is None else meaning.role
    if not _countable(facts) or _two_values(facts):
        return None
    many = facts.distinct_ratio >= KEY_RATIO or facts.values > KEY_VALUES
    if key_named(name) == "key" and (
        facts.distinct_ratio >= OWN_VALUE_MIN_SHARE if role == "quasi_identifier" else many
    ):
        like = "key"
    elif many and person_named(name):
        like = "person"
    elif many and role is None and title_named(name):
        like = "name"
    else:
        return None
    counts = f"{facts.values} values in {facts.records} records"
    return Proposal(Role.IDENTIFIER, f"named like a {like}, {counts}")


def _direct_values(facts: Facts, meaning: Named | None) -> Proposal | None:
    if facts.share("date") >= PATTERN_MIN_SHARE:
        return None
    for pattern, what in _DIRECT_IDENTIFIERS.items():
        # A plain number of 13 to 16 digits may be a quantity, if its name is one of a quantity.
        if facts.share(pattern) >= PATTERN_MIN_SHARE and (facts.column.kind == "text" or meaning is None):
            return Proposal(Role.IDENTIFIER, f"the values look like {what}")
    for pattern in ("email", "ssn", "iban", "uuid", "phone"):
        if facts.column.kind == "text" and facts.share(pattern) >= EMAIL_MIN_SHARE:
            share = f"{100 * facts.share(pattern):.0f} %"
            return Proposal(
                Role.IDENTIFIER, f"{share} of the values look like or hold {_DIRECT_IDENTIFIERS[pattern]}"
            )
    return None


def _text(facts: Facts, meaning: Named | None) -> Proposal | None:
    if facts.column.kind != "text":
        return None
    varied = facts.values > CODE_MAX_VALUES or facts.distinct_ratio >= 0.1
    if varied and (facts.words >= 5 or facts.length >= 50 or facts.longest > 200):
        return Proposal(Role.IDENTIFIER, "free text, which may hold names or anything else")
    if facts.own_share < OWN_VALUE_MIN_SHARE or _postal(facts, meaning):
        return None
    reason = f"{100 * facts.own_share:.0f} % of the records with a text have one of their own"
    reason = f"{reason}, and a recoded text would be somebody's"
    use = _instead_of_text(facts, meaning)
    return Proposal(Role.IDENTIFIER, reason) if use is None else _dropped(facts, reason, use)


def _postal(facts: Facts, meaning: Named | None) -> bool:
    """Tell whether a text is a postal code, a place of many people even if the table has one of them."""
    return meaning is not None and meaning.what == "a postal code" and facts.longest <= POSTAL


def _instead_of_text(facts: Facts, meaning: Named | None) -> str | None:
    """Return a replacement for a text that identifies a person, if the column may be useful."""
    if facts.share("date") >= PATTERN_MIN_SHARE:
        return "CAST it to DATE"
    if facts.share("coordinates") >= PATTERN_MIN_SHARE:
        return "write latitude and longitude as two numbers"
    if facts.share("number") >= PATTERN_MIN_SHARE:
        return "CAST it to a number, if it is a quantity,"
    return None if meaning is None else "group its values"


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


def _flag(facts: Facts, meaning: Named | None) -> Proposal | None:
    """Take a column of two values with the name of an identifier for a yes or no."""
    if meaning is None or meaning.role != "identifier" or not _two_values(facts):
        return None
    reason = f"named like {meaning.what}, but two values in {facts.records} records are no identifier"
    return Proposal(Role.QUASI_IDENTIFIER, reason)


def _advice(facts: Facts, meaning: Named) -> str | None:
    name = repr(facts.column.name)
    if meaning.what == "a coordinate" and facts.unique_share >= 0.1:
        return f"{name} is nearly an address: round coordinates in the query, two decimals are about 1 km"
    if _postal(facts, meaning) and facts.own_share >= OWN_VALUE_MIN_SHARE:
        return f"{name} is nearly a text of one's own: shorten it in the query, to three digits for example"
    if facts.column.kind == "text" and facts.share("date") >= PATTERN_MIN_SHARE:
        return f"{name} holds dates as text, recoded by their mode: CAST it to DATE to have their mean"
    return None


def _key_values(facts: Facts, meaning: Named | None) -> Proposal | None:
    """Take whole numbers that all differ, in a dense or fixed form, for a key."""
    del meaning
    numbers = facts.column.kind in _NUMERIC
    if not (numbers and facts.whole) or facts.present < KEY_MIN_RECORDS or facts.values < facts.present:
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


def _two_values(facts: Facts) -> bool:
    """Tell whether a column has two values in many records: ``own_telephone`` is then a yes or no."""
    return facts.values == 2 and facts.distinct_ratio < OWN_VALUE_MIN_SHARE


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
    _flag,
    _known,
    _key_values,
    _constant,
)


ORDERED_T, EQUAL_T, MANY_L = 0.2, 0.3, 3
"""Proposed thresholds: t of an ordered column, t of an unordered one, l of one with too many texts."""

MANY_TEXTS = 50
"""Largest number of different texts for which the distribution in a small class can be near the table's."""

LINK_LEAST = 20
"""Least number of values of a key for which a one-to-one column is no coincidence."""

LINK_SLACK = 1.02
"""Largest ratio of combinations of two one-to-one columns to values of the larger column."""


def column_suggestions(
    con: duckdb.DuckDBPyConnection, records: str, facts: Sequence[Facts]
) -> tuple[tuple[ColumnSuggestion, ...], tuple[str, ...]]:
    """Columns in source order with proposed roles, and warnings about them."""
    proposals = [propose(counted) for counted in facts]
    keys = [
        counted
        for counted, proposal in zip(facts, proposals, strict=True)
        if proposal.role is Role.IDENTIFIER and counted.column.kind != "other" and _repeats(counted)
    ]
    proposals = [
        _linked(con, records, counted, keys) or proposal
        if proposal.role is Role.QUASI_IDENTIFIER and _linkable(counted)
        else proposal
        for counted, proposal in zip(facts, proposals, strict=True)
    ]
    warnings = [proposal.warning for proposal in proposals if proposal.warning]
    subject = _subject_of(keys)
    warnings += [_several_records(counted, subject) for counted in keys]
    warnings += [
        warning for counted, p in zip(facts, proposals, strict=True) for warning in _of_values(counted, p)
    ]
    columns = tuple(
        replace(_column(counted, proposal), subject=counted is subject)
        for counted, proposal in zip(facts, proposals, strict=True)
    )
    return columns, tuple(warnings)


def _subject_of(keys: Sequence[Facts]) -> Facts | None:
    """Return the key of the persons: the only key that has the name of a subject and is never NULL."""
    named_so = [key for key in keys if key_named(key.column.name) == "subject" and not key.nulls]
    return named_so[0] if len(named_so) == 1 else None


def _column(facts: Facts, proposal: Proposal) -> ColumnSuggestion:
    name, type_text, role = facts.column.name, facts.column.shown, proposal.role
    recode = distance = t = diversity = None
    ordered = facts.column.kind in NUMBERS and not is_code(facts)
    if role is Role.QUASI_IDENTIFIER:
        recode = "mean" if ordered else "mode"
    if role is Role.SENSITIVE:
        distance = "ordered" if ordered else "equal"
        if not ordered and facts.values > MANY_TEXTS:
            diversity = MANY_L
        elif facts.values > 1 or (facts.values and facts.nulls):
            t = ORDERED_T if ordered else EQUAL_T
    return ColumnSuggestion(
        name, type_text, role, proposal.reason, facts.values, facts.distinct_ratio,
        facts.nulls / facts.records, facts.unique_share, recode, distance, t, diversity,
    )  # fmt: skip


def _of_values(facts: Facts, proposal: Proposal) -> list[str]:
    """Return warnings to the owner about the values of a column."""
    name, warnings = repr(facts.column.name), []
    if facts.unusable and proposal.role is Role.QUASI_IDENTIFIER:
        warnings.append(
            f"{name} is NaN or infinite in {number_of(facts.unusable, 'record')}, which a release does not "
            "take: the statement turns them into NULL"
        )
    if facts.repair == "double" and proposal.role is Role.QUASI_IDENTIFIER and not is_code(facts):
        warnings.append(f"{name} has numbers too large for an exact mean: the statement makes them DOUBLE")
    if proposal.role is Role.SENSITIVE and facts.values == 1 and not facts.nulls:
        warnings.append(
            f"sensitive column {name} has one value: who is known to be in the table has it, whatever k is"
        )
    if proposal.role is Role.SENSITIVE and facts.values > MANY_TEXTS and facts.column.kind not in NUMBERS:
        warnings.append(
            f"sensitive column {name} has {facts.values} different texts, too many for t without an order: "
            "l is proposed; a tree (distance = 'hierarchical') makes t possible"
        )
    if proposal.role is Role.QUASI_IDENTIFIER and is_code(facts) and facts.values > 2:
        warnings.append(
            f"{name} holds codes as numbers, which are near each other where the numbers are: CAST it to "
            "VARCHAR in the query if their order means nothing"
        )
    zips = (
        facts.column.kind == "text"
        and facts.share("zip") >= PATTERN_MIN_SHARE
        and facts.own_share < OWN_VALUE_MIN_SHARE
    )
    if proposal.role is Role.QUASI_IDENTIFIER and zips:
        quoted = facts.column.name.replace("'", "''")
        warnings.append(
            f"{name} looks like postal codes, and can be released by the digits that a class shares: FROM "
            f"prefix_hierarchy(table, '{quoted}') writes its hierarchy, for recode = 'hierarchy'"
        )
    return warnings


def _several_records(facts: Facts, subject: Facts | None) -> str:
    several = (
        f"{facts.column.name!r} has {facts.values} values in {facts.records} records: if it names persons, "
    )
    if facts is subject:
        return f"{several}they have several records each; with it as subject k counts persons, not records"
    return (
        f"{several}they have several records each, and k counts records, not persons; name it as subject, or "
        "keep one record a person in the query"
    )


def _repeats(facts: Facts) -> bool:
    """Tell whether the values of a key repeat, with several records each."""
    return facts.values >= LINK_LEAST and facts.distinct_ratio <= 0.5


def _linkable(facts: Facts) -> bool:
    """Tell whether a column can be a second name of a key: texts or whole numbers without a telling name."""
    countable = facts.column.kind == "text" or (facts.column.kind == "integer" and bool(facts.whole))
    return countable and named(facts.column.name) is None


def _linked(
    con: duckdb.DuckDBPyConnection, records: str, facts: Facts, keys: Sequence[Facts]
) -> Proposal | None:
    for key in keys:
        most, least = max(facts.values, key.values), min(facts.values, key.values)
        if most > LINK_SLACK * least:
            continue
        columns = [facts.column.code, key.column.code]
        query = templates.render("relation.sql.j2:combinations", records=records, columns=columns)
        combinations = engine.rows(con, query, "suggest")[0][1]
        if combinations <= LINK_SLACK * most + 1:
            return Proposal(Role.IDENTIFIER, f"stands one to one with {key.column.name!r}")
    return None
