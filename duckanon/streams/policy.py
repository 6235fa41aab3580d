"""The policy of an anonymized stream, checked before its first tuple is read."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, get_args

from duckanon.errors import PolicyError
from duckanon.policy.checks import SHARE_OPTIONS
from duckanon.policy.kinds import NUMBERS, kind_of
from duckanon.policy.names import ByColumn, suggestion
from duckanon.policy.policy import Policy
from duckanon.policy.subsets import key_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.policy.audit_policy import AlphaNumber, HierarchyRows, Thresholds
    from duckanon.policy.checks import Distance, LDiversity
    from duckanon.policy.checks import Number as Threshold
    from duckanon.policy.kinds import Recode

Cluster = Literal["nearest", "grow"]
Method = Literal["steered", "castle"]
Reference = Literal["all", "window"]
Number = float | int | date | str
"""End of a scale: a number, or a date or timestamp, also as ISO text; in UTC if it names no zone."""

DEFAULT_CLUSTERS, DEFAULT_RECENT_CLASSES = 50, 100
"""Defaults of CASTLE: clusters that wait (beta), and last classes whose mean loss is tau (mu)."""

DEFAULT_WINDOW_BUFFERS = 10
"""Default length of a window, in buffers of delay + 1 tuples."""

SAFE_DELAY_PER_K = 5
"""Multiple of k below which a delay makes Algorithm 2 drop tuples, because too few others are held."""


@dataclass(frozen=True)
class StreamPolicy:
    """Roles and rules of a stream; see `duckanon.anonymize_stream`."""

    rows: Policy  # roles, k, recode, weights and nulls, as of a release
    delay: int
    order_weight: float = 0.0
    cluster: Cluster = "nearest"
    scale: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    warm_up: int = 0
    class_id: bool = False
    method: Method = "steered"
    clusters: int = DEFAULT_CLUSTERS
    recent: int = DEFAULT_RECENT_CLASSES
    window: int = 0  # last tuples with which classes are compared for t; 0 is all

    @property
    def hash(self) -> str:
        """SHA-256, in hex, of all options, whatever their order."""
        scale = sorted((name, *ends) for name, ends in self.scale.items())
        asked = {one.name: getattr(self, one.name) for one in fields(self)}
        asked |= {"rows": self.rows.to_toml(), "scale": scale}
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def stream_policy(
    *,
    quasi_identifiers: str | Sequence[str],
    k: int,
    delay: int,
    order_weight: float = 0.0,
    subject: str | Sequence[str] | None = None,
    sensitive: str | Sequence[str] = (),
    t: Threshold | Thresholds | None = None,
    l: Threshold | Mapping[str, Threshold] | None = None,  # noqa: E741 - l-diversity has this name everywhere
    l_diversity: LDiversity | None = None,
    c: Threshold | None = None,
    alpha: AlphaNumber | None = None,
    distance: Mapping[str, Distance] | None = None,
    reference: Reference | None = None,
    window: int | None = None,
    identifiers: str | Sequence[str] = (),
    recode: Mapping[str, Recode] | None = None,
    min_values: int | None = None,
    digits: int | Mapping[str, int] | None = None,
    weights: Mapping[str, float] | None = None,
    hierarchies: Mapping[str, HierarchyRows] | None = None,
    nulls: Literal["category", "error"] | None = None,
    scale: Mapping[str, tuple[Number, Number]] | None = None,
    warm_up: int | None = None,
    method: Method = "steered",
    cluster: Cluster = "nearest",
    class_id: bool = False,
    clusters: int | None = None,
    recent: int | None = None,
) -> StreamPolicy:
    """Return the policy, or raise a PolicyError that names a working alternative."""
    if method not in get_args(Method):
        hint = suggestion(str(method), get_args(Method)) or f": use {' | '.join(get_args(Method))}"
        raise PolicyError(f"unknown method {method!r} of a stream{hint}")
    if cluster not in get_args(Cluster):
        raise PolicyError(f"cluster = {cluster!r}: use {' | '.join(get_args(Cluster))}")
    if nulls not in (None, "category", "error"):
        raise PolicyError(
            f"nulls = {nulls!r}: use category | error; a tuple that is to be left out is left out before "
            "the stream, so that the delay of the others is what it says"
        )
    rows = Policy(
        quasi_identifiers=quasi_identifiers, sensitive=sensitive, identifiers=identifiers,
        subject=subject or (), insensitive="*", k=k, t=t, l=l, l_diversity=l_diversity or "distinct", c=c,
        alpha=alpha, distance=distance, recode=recode,
        weights=weights, nulls=nulls or "category", hierarchies=hierarchies, min_values=min_values,
        digits=digits,
    )  # fmt: skip
    if rows.k_subsets is not None:
        raise PolicyError(
            "k of subsets counts the records of all classes, and a stream releases a class before it has "
            "seen the others: give one k"
        )
    if method == "castle":
        rows = _ranges(rows, nulls)
    _check_options(
        method,
        steered={
            "order_weight": order_weight != 0,
            "cluster": cluster != "nearest",
            "t": t is not None,
            "l": l is not None,
            "l_diversity": l_diversity is not None,
            "c": c is not None,
            "alpha": alpha is not None,
            "reference": reference is not None,
            "window": window is not None,
        },
        castle={"clusters": clusters is not None, "recent": recent is not None},
    )
    for name, number in (("clusters", clusters), ("recent", recent)):
        if number is not None:
            _whole(name, number, least=1)
    _whole("delay", delay, least=rows.k - 1, why=f" (k - 1, for classes of k = {rows.k})")
    if not (isinstance(order_weight, (int, float)) and math.isfinite(order_weight) and order_weight >= 0):
        raise PolicyError(f"order_weight = {order_weight}: use a number of at least 0")
    if warm_up is not None:
        _whole("warm_up", warm_up, least=1)
        if warm_up > delay + 1:
            raise PolicyError(
                f"warm_up = {warm_up} is more than delay + 1 = {delay + 1}: the first tuple would leave too "
                "late; give a scale, as in scale = {'age': (0, 120)}"
            )
    return StreamPolicy(
        rows, delay, float(order_weight), cluster, _scale(rows, scale or {}),
        delay + 1 if warm_up is None else warm_up, bool(class_id), method,
        DEFAULT_CLUSTERS if clusters is None else clusters,
        DEFAULT_RECENT_CLASSES if recent is None else recent,
        _window(rows, reference, window, delay + 1),
    )  # fmt: skip


def _window(rows: Policy, reference: str | None, window: int | None, capacity: int) -> int:
    """Number of the last tuples with which a class is compared; 0 is all."""
    if reference not in (None, *get_args(Reference)):
        raise PolicyError(f"reference = {reference!r}: use {' | '.join(get_args(Reference))}")
    asked = (rows.t, rows.l, rows.alpha)
    if asked == (None, None, None) and reference is not None:
        raise PolicyError(
            f"reference = {reference!r} is what t is measured from: give t or l, or leave it out"
        )
    if reference != "window":
        if window is not None:
            raise PolicyError(f"window = {window!r} needs reference = 'window': add it, or leave it out")
        return 0
    if window is None:
        return DEFAULT_WINDOW_BUFFERS * capacity
    _whole("window", window, least=capacity, why=" (delay + 1: a class is of tuples in it)")
    return window


def _ranges(rows: Policy, nulls: str | None) -> Policy:
    """Return the policy of a method that releases ranges: all quasi-identifiers as ranges, without NULL."""
    if nulls == "category":
        raise PolicyError(
            "nulls = 'category' is not yet for method = 'castle', whose ranges have no NULL: use error"
        )
    for name, rule in rows.recode.items():
        if rule != "range":
            raise PolicyError(
                f"recode = {rule!r} of {name!r}: method = 'castle' releases ranges; use 'range', or leave it "
                "out, or use method = 'steered'"
            )
    ranges: dict[str, Recode] = dict.fromkeys(rows.quasi_identifiers, "range")
    return replace(rows, recode=ByColumn(ranges), nulls="error")


def _check_options(method: str, **given: Mapping[str, bool]) -> None:
    """Raise if an option belongs to another method."""
    for other, options in given.items():
        for name, there in options.items():
            if there and other != method:
                raise PolicyError(f"{name} is for method = {other!r}: leave it out for {method!r}")


def check_kinds(policy: StreamPolicy, columns: Sequence[tuple[str, str]]) -> None:
    """Raise a PolicyError if the method cannot release a column; columns are names with types."""
    asked = ByColumn(dict.fromkeys(policy.rows.quasi_identifiers))
    for name, kind in ((name, kind_of(given)) for name, given in columns):
        if policy.method == "castle" and name in asked and kind not in NUMBERS:
            raise PolicyError(
                f"quasi-identifier {name!r} is {kind}: method = 'castle' releases ranges of numbers and "
                "dates, sets not yet; use method = 'steered'"
            )


def stream_options(options: Mapping[str, Any]) -> StreamPolicy:
    """Return the policy of some options; defaults are k = 10 and delay = 100."""
    known = signature(stream_policy).parameters
    if "order" in options:
        raise PolicyError("order is not yet for streams: make ranks of the values before the stream")
    t = options.get("t")
    several = isinstance(t, Mapping) and any(key_columns(key) for key in t)
    if several or "joint_t" in options:
        raise PolicyError("t of several columns is not yet for streams: use t of single columns")
    if options.get("n") is not None:
        raise PolicyError(
            "n is not for streams: nobody knows the supersets of a class while a stream runs; leave n out"
        )
    for name in options:
        if name in SHARE_OPTIONS and name not in known:
            raise PolicyError(
                f"{name} is not for streams: it bounds shares by those of the whole table, which nobody "
                "knows while a stream runs; use alpha or t"
            )
        if name not in known:
            raise PolicyError(f"unknown option {name!r} of a stream{suggestion(name, list(known))}")
    if "quasi_identifiers" not in options:
        raise PolicyError("quasi_identifiers is missing: name the columns that get one value a class")
    return stream_policy(**{"k": 10, "delay": 100, **options})


def _whole(name: str, value: object, *, least: int, why: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise PolicyError(f"{name} = {value!r}: use a whole number of at least {least}{why}")


def _scale(rows: Policy, scale: Mapping[str, tuple[Number, Number]]) -> Mapping[str, tuple[float, float]]:
    """Return the ends of each scale as numbers; dates and timestamps are seconds since 1970."""
    if not isinstance(scale, Mapping):
        raise PolicyError(f"scale = {scale!r}: give two ends for each column, as in {{'age': (0, 120)}}")
    found = {}
    for name, ends in scale.items():
        if not isinstance(name, str) or name not in ByColumn(dict.fromkeys(rows.quasi_identifiers)):
            raise PolicyError(
                f"scale names {name!r}, which is no quasi-identifier"
                f"{suggestion(str(name), rows.quasi_identifiers)}"
            )
        try:
            low, high = map(_number, ends)
        except (TypeError, ValueError) as cause:
            raise PolicyError(
                f"scale of {name!r}: give its two ends, as in (0, 120), not {ends!r}"
            ) from cause
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise PolicyError(f"scale of {name!r}: the first end must be below the second, not {ends!r}")
        found[name] = (low, high)
    return ByColumn(found)


def _number(end: Number) -> float:
    if isinstance(end, str):
        end = datetime.fromisoformat(end)
    if isinstance(end, datetime):
        return (end if end.tzinfo else end.replace(tzinfo=UTC)).timestamp()
    if isinstance(end, date):
        return datetime(end.year, end.month, end.day, tzinfo=UTC).timestamp()
    return float(end)
