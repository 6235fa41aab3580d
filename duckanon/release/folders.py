"""The evidence of a release in a folder of Parquet files, or in a file: it is read as untrusted input."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from duckanon.audits.report import COLUMNS
from duckanon.errors import ReleaseError
from duckanon.policy.checks import SHARE_OPTIONS
from duckanon.policy.kinds import kind_of
from duckanon.policy.names import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duckanon.policy.policy import Policy

EVIDENCE = "_duckanon.json"
"""File of the evidence in the folder of a release; readers of Parquet pass over such names."""

RECORD_MAX_BYTES = 4 * 2**20
"""Largest record of a folder in bytes: ten thousand columns need a quarter of that."""

NAME = "release"
"""Name of the recorded audit, wherever the folder is."""

NOT_AUDITED = ("violations", "plan", "evidence")
"""Parts of a report that the audit of a release on Spark lacks."""


@dataclass(frozen=True)
class FolderEvidence:
    """Content of the evidence file; a file that was read has only its types checked."""

    policy: str  # as TOML
    policy_hash: str
    fingerprint: str
    records: int
    audit: dict[str, Any]  # a report in the form of `Report.to_json`
    information_loss: float | None  # per cent; None if it is not reported
    suppressed: int  # suppressed records
    versions: dict[str, str]
    settings: dict[str, str]  # of the Spark session, or of a CSV: how its columns are read
    # Boxes of (n, t)-closeness, rows of superset, place, first and last; None without n.
    supersets: list[list[int]] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, in the order of the file."""
        plain = asdict(self)
        return {name: plain[name] for name in plain if name != "supersets" or self.supersets is not None}

    def to_json(self) -> str:
        """Text of the file."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"


def evidence_from(text: bytes, where: str) -> FolderEvidence:
    """Evidence in the bytes of a file; a ReleaseError that names the file if they contain none."""
    try:
        found = _parsed(text)
        boxes = {"supersets": _BOXES} if isinstance(found, dict) and "supersets" in found else {}
        _check(found, _FILE | boxes, "the file")
        _check(found["audit"], _AUDIT, "its audit")
        for row in found["audit"]["measures"]:
            _check(row, _MEASURE, "a measure of its audit")
    except ValueError as wrong:
        raise ReleaseError(f"{where} is no evidence of a release: {wrong}") from wrong
    return FolderEvidence(**found)


def reported_policy(policy: Policy) -> str:
    """Text of a policy for the evidence, without identifiers, which are not released."""
    return replace(policy, identifiers=()).to_toml()


def not_yet(policy: Policy) -> list[str]:
    """Options of a policy that Spark does not support yet."""
    asked = {
        f"method = {policy.method!r}": policy.method != "auto",
        f"release = {policy.release!r}": policy.release != "table",
        "subject": bool(policy.subject),
        "k_subsets": policy.k_subsets is not None,
        "p_percent": policy.p_percent is not None,
        **{option: getattr(policy, option) is not None for option in SHARE_OPTIONS},
        "t of several columns": policy.joint_t is not None,
        "n": policy.n is not None,
        "hierarchies": bool(policy.hierarchies),
        "order": bool(policy.order),
        "time_limit": policy.time_limit is not None,
        "on_intersection = 'error'": policy.on_intersection == "error",
    }
    return [option for option, there in asked.items() if there]


def released_type(type_text: str) -> bool:
    """Whether a release on Spark can have a column of this type, given as DuckDB writes it."""
    return kind_of(type_text) != "other" or type_text == "BLOB"


def _parsed(text: bytes) -> Any:
    if len(text) > RECORD_MAX_BYTES:
        raise ValueError(f"it is longer than {RECORD_MAX_BYTES} bytes")
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    except UnicodeDecodeError as wrong:
        raise ValueError("it is not UTF-8") from wrong
    except json.JSONDecodeError as wrong:
        raise ValueError(f"it is not JSON: {wrong}") from wrong
    except RecursionError as wrong:
        raise ValueError("it is nested too deeply") from wrong


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raise for a repeated name, of which another reader may take the other value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        again = next(name for place, name in enumerate(names) if name in names[:place])
        raise ValueError(f"{_short(again)} stands twice in it")
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _check(value: Any, form: Mapping[str, tuple[Callable[[Any], bool], str]], what: str) -> None:
    """Raise unless a value is an object with these names and valid values."""
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not an object")  # noqa: TRY004 - the caller tells one kind of error
    for name in value:
        if name not in form:
            raise ValueError(
                f"{what} has {_short(name)}, which is not known here: use the newer duckanon that wrote it"
            )
    for name, (fits, kind) in form.items():
        if name not in value:
            raise ValueError(f"{what} lacks {name!r}")
        if not fits(value[name]):
            raise ValueError(f"{name!r} of {what} is not {kind}")


def _text(value: Any) -> bool:
    """Whether a value is a text that can be written; half of a UTF-16 pair cannot."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _number(value: Any) -> bool:
    # duckanon writes no integer that exceeds the range of a float.
    return _count(value) or (isinstance(value, float) and math.isfinite(value))


def _words(value: Any) -> bool:
    return isinstance(value, dict) and all(_text(one) for pair in value.items() for one in pair)


def _list(value: Any) -> bool:
    return isinstance(value, list)


def _boxes(value: Any) -> bool:
    return _list(value) and all(_list(row) and len(row) == 4 and all(map(_count, row)) for row in value)


def _or_null(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


def _short(name: str) -> str:
    return repr(shortened(name, 60))


_TEXT, _NUMBER, _COUNT = (_text, "a text"), (_number, "a number"), (_count, "a count")

_BOXES = (_boxes, "a list of rows of four counts")

_FILE: dict[str, tuple[Callable[[Any], bool], str]] = {
    "policy": _TEXT, "policy_hash": _TEXT, "fingerprint": _TEXT, "records": _COUNT,
    "audit": (lambda value: isinstance(value, dict), "a report"),
    "information_loss": (_or_null(_number), "a number or null"), "suppressed": _COUNT,
    "versions": (_words, "texts by name"), "settings": (_words, "texts by name"),
}  # fmt: skip

_AUDIT: dict[str, tuple[Callable[[Any], bool], str]] = {
    "passed": (lambda value: isinstance(value, bool), "true or false"),
    "name": _TEXT,
    "measures": (_list, "a list"),
    "warnings": (lambda value: _list(value) and all(map(_text, value)), "a list of texts"),
    **{name: (lambda _: True, "") for name in NOT_AUDITED},
}

_MEASURE: dict[str, tuple[Callable[[Any], bool], str]] = dict.fromkeys(
    COLUMNS, (_or_null(_number), "a number or null")
) | {
    "measure": _TEXT,
    "attribute": (_or_null(_text), "a text or null"),
    # A report writes infinity as text, because JSON lacks it.
    "value": (lambda value: value in (None, "inf", "-inf", "nan") or _number(value), "a number or null"),
    "passed": (_or_null(lambda value: isinstance(value, bool)), "true, false or null"),
}
