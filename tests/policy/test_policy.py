"""Policies: roles, thresholds and their defaults, by hand."""

from __future__ import annotations

import tomllib
from dataclasses import FrozenInstanceError, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.errors import PolicyError
from duckanon.literature.partitions import methods
from duckanon.literature.registry import PUBLISHED
from duckanon.policy.methods import METHODS
from duckanon.policy.names import ByColumn, fold
from duckanon.policy.policy import AUDIT_OPTIONS, OPTIONS, AuditPolicy, Policy


def policy(**options: Any) -> Policy:
    """Return a policy with these options on top of a small valid one."""
    small: dict[str, Any] = {
        "quasi_identifiers": ["age", "zip"],
        "sensitive": ["charge", "Diagnosis"],
        "k": 5,
    }
    return Policy(**small | options)


def test_defaults_are_those_of_the_contract() -> None:
    """Section 3, column "default"."""
    small = Policy(quasi_identifiers="age", k=2)
    assert small.quasi_identifiers == ("age",)
    assert (small.sensitive, small.identifiers, small.insensitive) == ((), (), ())
    assert (small.t, small.l, small.c, small.subject) == (None, None, None, ())
    assert (small.alpha, small.delta, small.beta, small.enhanced_beta) == (None, None, None, None)
    assert (small.joint_t, small.joint_distance) == (None, "maximum")
    assert (small.l_diversity, small.method, small.nulls) == ("distinct", "auto", "category")
    assert (small.suppression_limit, small.refine, small.seed) == (0.0, True, 0)
    assert (small.effort, small.time_limit, small.objective) == ("balanced", None, "loss")
    assert (small.release, small.p_percent, small.on_intersection) == ("table", None, "warn")
    assert (small.min_values, small.least_values, small.digits) == (None, 2, None)
    assert len(small.distance) == len(small.hierarchies) == len(small.recode) == len(small.weights) == 0
    assert len(small.order) == 0
    assert tuple(OPTIONS) == (
        *("quasi_identifiers", "k", "sensitive", "identifiers", "insensitive", "t", "n", "l", "l_diversity"),
        *("c", "alpha", "delta", "beta", "enhanced_beta", "joint_t", "joint_distance", "k_subsets"),
        *("distance", "order", "hierarchies", "method", "objective", "levels", "steering_weight", "recode"),
        *("weights", "subject"),
        *(
            "p_percent",
            "min_values",
            "digits",
            "release",
            "on_intersection",
            "suppression_limit",
            "nulls",
            "refine",
            "effort",
            "time_limit",
            "seed",
        ),
    )


def test_a_misspelt_option_of_a_policy_names_the_right_one_in_one_line() -> None:
    """Python would say TypeError, and of the option that is then missing."""
    for wrong, right in [("quasi_identifer", "quasi_identifiers"), ("sensitve", "sensitive")]:
        for kind, known in [(Policy, OPTIONS), (AuditPolicy, AUDIT_OPTIONS)]:
            with pytest.raises(
                PolicyError, match=f"unknown option '{wrong}', did you mean '{right}'"
            ) as raised:
                kind(**{wrong: ["age"]}, k=5)
            assert str(raised.value).endswith(f"Options: {', '.join(known)}")
            assert "\n" not in str(raised.value)
    with pytest.raises(PolicyError, match="unknown option 'weights'"):
        AuditPolicy(quasi_identifiers="age", weights={"age": 2})  # type: ignore[call-arg]
    with pytest.raises(PolicyError, match="unknown option 'quasi_identifer', did you mean"):
        Policy.from_toml("quasi_identifer = 'age'\nk = 5")


def test_a_required_option_that_is_left_out_is_named() -> None:
    with pytest.raises(PolicyError, match="option 'k' is missing"):
        Policy(quasi_identifiers="age")  # type: ignore[call-arg]
    with pytest.raises(PolicyError, match="option 'quasi_identifiers' is missing"):
        AuditPolicy(k=5)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        Policy(["age"], 5)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given_t", "kept"),
    [
        (0.15, "0.15"),
        (np.float64(0.1), "0.1"),
        ("0.150", "0.150"),
        (Decimal("0.3"), "0.3"),
        (1, "1"),
        (1e-12, "1E-12"),
        (1 / 3, "0.333333333333"),
        (0.30000000000000004, "0.300000000000"),
        ("0.9999999999999", "0.999999999999"),
    ],
)
def test_t_is_the_decimal_that_is_written(given_t: Any, kept: str) -> None:
    """A float is its shortest decimal; what is finer than the audits see is cut off, to the strict side."""
    assert str(policy(t=given_t).t) == kept
    assert str(policy(l=2, l_diversity="recursive", c=given_t).c) == kept


def test_columns_are_found_in_any_case() -> None:
    """Names count without regard to the case of ASCII letters, as in DuckDB, and keep their spelling."""
    made = policy(
        t={"CHARGE": 0.2}, weights={"Age": 2}, recode={"ZIP": "MODE"}, distance={"diagnosis": "Equal"}
    )
    assert isinstance(made.t, ByColumn)
    assert (made.t["charge"], list(made.t), made.weights["AGE"]) == (Decimal("0.2"), ["CHARGE"], 2.0)
    assert (made.recode["zip"], made.distance["DIAGNOSIS"]) == ("mode", "equal")
    assert "missing" not in made.t
    assert fold("ÄÖ") == "ÄÖ"


def test_policy_is_a_value() -> None:
    """Equal options make equal policies with one hash; nothing can be changed; `replace` checks again."""
    one, two = policy(t={"charge": 0.15}), policy(t={"charge": "0.15"}, insensitive=[])
    assert one == two
    assert hash(one) == hash(two)
    assert one != policy(t={"charge": 0.16})
    with pytest.raises(FrozenInstanceError):
        one.k = 2  # type: ignore[misc]  # the assignment is the test
    seven: Any = np.int64(7)
    assert replace(one, k=seven) == policy(t={"charge": 0.15}, k=7)
    with pytest.raises(PolicyError):
        replace(one, sensitive=())


def test_t_of_one_column_in_parentheses_is_that_of_the_column() -> None:
    """A policy is checked again whenever an option is replaced."""
    made = replace(policy(t={("charge",): 0.2}), k=7)
    assert (made.t, made.joint_t) == (policy(t={"charge": 0.2}).t, None)


def test_an_order_in_one_text_may_have_blanks() -> None:
    assert policy(order={"charge": "none < a lot"}).order["charge"] == ("none", "a lot")


def test_alpha_of_named_values_keeps_their_case() -> None:
    """A column is found in any case, a value is not; TOML nests one level deeper."""
    made = policy(
        alpha={"CHARGE": 0.5, "diagnosis": {"HIV": 0.2, "hiv": "0.30", 'say "x.y"': 1}}, delta=1.5, beta=2
    )
    assert isinstance(made.alpha, ByColumn)
    assert made.alpha["Diagnosis"] == {"HIV": Decimal("0.2"), "hiv": Decimal("0.30"), 'say "x.y"': 1}
    assert (
        'alpha = {CHARGE = 0.5, diagnosis = {HIV = 0.2, hiv = 0.30, "say \\"x.y\\"" = 1}}' in made.to_toml()
    )
    assert Policy.from_toml(made.to_toml()) == made
    audit = made.audited()
    assert (audit.alpha, audit.delta, audit.beta) == (made.alpha, Decimal("1.5"), 2)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"alpha": 0}, "alpha = 0: use a number above 0 and at most 1"),
    ({"alpha": {"charge": 1.5}}, "alpha of 'charge' = 1.5: use a number above 0 and at most 1"),
    ({"alpha": {"charge": {"5": 2}}}, "alpha of 'charge' and '5' = 2: use a number above 0 and at most 1"),
    ({"alpha": {"charge": {5: 0.2}}}, "alpha of 'charge' takes values as text, not 5: write {'5': 0.2}"),
    ({"alpha": {"charge": {None: 0.2}}}, "alpha of 'charge' cannot name NULL: give one number"),
    ({"alpha": [Decimal("0.5")]}, "alpha = [0.5]: use a number"),
    ({"alpha": {"charge": {}}}, "alpha of 'charge' = {} names no value: give a number"),
    ({"delta": 0}, "delta = 0: use a number above 0 and at most 30"),
    ({"delta": {"age": 1}}, "delta names 'age', which is not in sensitive"),
    ({"beta": -1}, "beta = -1: use a number above 0"),
    ({"beta": 1, "sensitive": ()}, "beta = 1 needs sensitive columns"),
    ({"enhanced_beta": "much"}, "enhanced_beta = 'much': use a number"),
    ({"k": 1}, "k = 1: use an integer of at least 2"),
    ({"k": 5.0}, "k = 5.0: use an integer"),
    ({"k": 1_000_000}, "k = 1000000: use an integer below a million"),
    ({"min_values": 1_000_000}, "min_values = 1000000: use an integer below a million"),
    ({"k": True}, "k = true: use an integer"),
    ({"k": None}, "k = None: use an integer"),
    ({"t": 0}, "t = 0: use a number above 0 and at most 1"),
    ({"t": 1.0001}, "t = 1.0001: use a number above 0 and at most 1"),
    ({"t": 1e-13}, "t = 1e-13: use a number above 0 and at most 1, twelve decimals count"),
    ({"delta": {"charge": {"x": Decimal(1)}}}, "delta of 'charge' = {'x': 1}: use a number"),
    ({"t": float("nan")}, "t = nan: the number is out of range"),
    ({"t": "much"}, "t = 'much': use a number"),
    ({"t": True}, "t = true: use a number"),
    ({"t": {}}, "t = {} names no column"),
    ({"t": {"charge": 2}}, "t of 'charge' = 2: use a number"),
    ({"t": {"charge": 0.1, "CHARGE": 0.2}}, "t names column 'CHARGE' twice"),
    ({"t": {"chrage": 0.1}}, "t names 'chrage', which is not in sensitive, did you mean 'charge'?"),
    ({"t": {"age": 0.1}}, "t names 'age', which is not in sensitive"),
    ({"t": {"other": 0.1}}, "t names 'other', which is not in sensitive: add it to sensitive"),
    ({"t": 0.1, "sensitive": ()}, "t = 0.1 needs sensitive columns: add sensitive = (...)"),
    ({"l": 2, "sensitive": ()}, "l = 2 needs sensitive columns"),
    ({"l": 0.5}, "l = 0.5: use a number of at least 1"),
    ({"l": 10**19}, "the number is out of range"),
    ({"l_diversity": "exact"}, "l_diversity = 'exact' is unknown: Use distinct | entropy | recursive"),
    ({"l": 2, "l_diversity": "recursive"}, "recursive l-diversity needs c above 0"),
    ({"l": 2.5, "l_diversity": "recursive", "c": 3}, "l = 2.5: recursive l-diversity counts values"),
    ({"n": 1000}, "n says how many records a natural superset has, to which t is the distance: add t"),
    ({"t": 0.1, "n": 0}, "n = 0: use an integer of at least 1"),
    ({"t": 0.1, "n": 2.5}, "n = 2.5: use an integer"),
    (
        {"n": 5, "joint_t": {("charge", "plan"): 0.3}, "sensitive": ("charge", "plan")},
        "n is of t of single columns",
    ),
    (
        {"t": 0.1, "n": 5, "distance": {"charge": "hierarchical"}},
        "n goes with the distance of ranks or of equal",
    ),
    (
        {"t": 0.1, "n": 5, "method": "mdav"},
        "n = 5 is at most k = 5, so every class would be its own superset",
    ),
    ({"t": 0.1, "n": 6, "release": "swap"}, "n is of release = 'table', whose recoded quasi-identifiers"),
    ({"t": 0.1, "n": 6, "subject": "who"}, r"n counts records, and with subject"),
    ({"l": 2, "l_diversity": "recursive", "c": 0}, "c = 0: use a number above 0"),
    ({"l": 2, "c": 3}, "c belongs to l_diversity = 'recursive'"),
    ({"quasi_identifiers": ()}, "quasi_identifiers is empty"),
    ({"quasi_identifiers": "*"}, "only insensitive takes *"),
    ({"quasi_identifiers": None}, "quasi_identifiers takes a list of columns"),
    ({"quasi_identifiers": [5]}, "quasi_identifiers takes names of columns, not 5"),
    ({"quasi_identifiers": ["a", "A"]}, "quasi_identifiers names column 'A' twice"),
    ({"identifiers": [""]}, "identifiers takes names of columns, not ''"),
    ({"identifiers": "AGE"}, "column 'AGE' is in quasi_identifiers and in identifiers"),
    ({"insensitive": ["x", "diagnosis"]}, "column 'diagnosis' is in sensitive and in insensitive"),
    ({"distance": "equal"}, "distance takes a value for each column"),
    ({"distance": {"charge": "rank"}}, "distance of 'charge' = 'rank' is unknown"),
    ({"distance": {"age": "equal"}}, "distance names 'age', which is not in sensitive"),
    ({"distance": {"charge": "hierarchical"}}, "has no tree: add hierarchies = {charge: 'table'}"),
    ({"hierarchies": {"charge": "tree"}}, "hierarchies of 'charge' is of no use"),
    (
        {"hierarchies": {"charge": 5}, "distance": {"charge": "hierarchical"}},
        "give a table, a file, or a list of",
    ),
    ({"order": {"charge": ("a", "b", "a")}}, "order of 'charge' has the value 'a' twice: leave one out"),
    ({"order": {"charge": ("a", 1)}}, "order of 'charge' holds 1: write each value as text"),
    ({"order": {"charge": 5}}, "order of 'charge' = 5: give the values from the least to the greatest"),
    (
        {"order": {"charge": {"a"}}},
        "order of 'charge' = {'a'}: give the values from the least to the greatest",
    ),
    ({"order": ("a", "b")}, "order takes a value for each column"),
    ({"order": {"charge": "a"}, "seed": 1}, "order of 'charge' has fewer than two values"),
    ({"order": {"agee": ("a", "b")}}, "order names 'agee', which is not in quasi_identifiers or sensitive"),
    (
        {"order": {"age": ("a", "b")}, "hierarchies": {"age": "tree"}},
        "column 'age' has an order and a hierarchy",
    ),
    (
        {"order": {"charge": ("a", "b")}, "distance": {"charge": "equal"}},
        "order of 'charge' is of no use with distance = 'equal'",
    ),
    ({"method": "full_domains"}, "method = 'full_domains' is unknown"),
    ({"recode": {"charge": "mean"}}, "recode names 'charge', which is not in quasi_identifiers"),
    (
        {"recode": {"age": "hierarchy"}},
        "recode of 'age' is 'hierarchy' and has none: add hierarchies = {age:",
    ),
    ({"hierarchies": {"agee": "tree"}}, "names 'agee', which is not in quasi_identifiers or sensitive"),
    ({"hierarchies": {"age": {}}}, "hierarchies of 'age' has no label above a leaf"),
    ({"hierarchies": {"age": {1: []}}}, "hierarchies of 'age' has no label above a leaf"),
    ({"hierarchies": {"age": {1: ["a", "*"], 2: ["*"]}}}, "gives '2' 1 labels and others 2"),
    ({"hierarchies": {"age": {1: ["", "*"]}}}, "hierarchies of 'age' has an empty cell"),
    ({"hierarchies": {"age": {None: ["a", "*"]}}}, "hierarchies of 'age' has an empty cell"),
    ({"hierarchies": {"age": {1: [float("nan"), "*"]}}}, "hierarchies of 'age' has an empty cell"),
    ({"hierarchies": {"age": {1: 5}}}, "write for each leaf a list of labels up to the root"),
    ({"recode": {"age": "maen"}}, "did you mean 'mean'?"),
    ({"weights": {"age": 0}}, "weights of 'age' = 0: use a number above 0"),
    ({"weights": {"age": "heavy"}}, "weights of 'age' = 'heavy': use a number"),
    ({"weights": {"charge": 2}}, "weights names 'charge', which is not in quasi_identifiers"),
    ({"subject": "age"}, "column 'age' is in subject and in quasi_identifiers"),
    ({"subject": ["person", "Person"]}, "subject names column 'Person' twice"),
    ({"p_percent": 0}, "p_percent = 0: use per cent, above 0 and below a million, as in 10"),
    ({"p_percent": 10**6}, "p_percent = 1000000: use per cent"),
    (
        {"p_percent": 10, "release": "swap"},
        "p_percent protects class means and release = 'swap' releases none",
    ),
    ({"suppression_limit": 5}, "use a fraction of the records, not percent; 5 % is 0.05"),
    ({"suppression_limit": -0.1}, "use a fraction of the records, 0 to 1"),
    ({"nulls": "drop"}, "nulls = 'drop' is unknown: Use category | suppress | error"),
    ({"refine": 1}, "refine = 1: use true or false"),
    ({"effort": "bset"}, "effort = 'bset' is unknown, did you mean 'best'? Use fast | balanced | best"),
    ({"effort": "max"}, "effort = 'max' is unknown: Use fast | balanced | best"),
    ({"effort": 2}, "effort = 2 is unknown"),
    ({"effort": None}, "effort = None is unknown"),
    ({"time_limit": 0}, "time_limit = 0: use seconds, a number above 0, or leave it out"),
    ({"time_limit": -1.5}, "time_limit = -1.5: use seconds, a number above 0"),
    ({"time_limit": "soon"}, "time_limit = 'soon': use a number"),
    ({"time_limit": True}, "time_limit = true: use a number"),
    ({"time_limit": float("inf")}, "time_limit = inf: the number is out of range"),
    ({"seed": "x"}, "seed = 'x': use an integer"),
    ({"seed": 2**63}, "seed is out of range"),
    ({"k": 10**5000}, "k is out of range"),
    ({"l": 10**5000}, "out of range"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_policy_is_an_error(options: dict[str, Any], message: str) -> None:
    """One line: what is wrong and what would work; the same from TOML, where it can be written."""
    with pytest.raises(PolicyError) as wrong:
        policy(**options)
    assert message in str(wrong.value)
    assert "\n" not in str(wrong.value)
    assert isinstance(wrong.value, ValueError)


@pytest.mark.parametrize(
    ("options", "message"), [case for case in WRONG if set(case[0]) <= set(AUDIT_OPTIONS)]
)
def test_wrong_audit_is_the_same_error(options: dict[str, Any], message: str) -> None:
    """An audit has some of the options, and the same rules for them, but that k may be absent."""
    given = {"quasi_identifiers": ["age", "zip"], "sensitive": ["charge", "Diagnosis"]} | options
    if given.get("k", 0) is None:
        assert AuditPolicy(**given).k is None
        return
    with pytest.raises(PolicyError) as wrong:
        AuditPolicy(**given)
    assert message in str(wrong.value)


def test_audited_part_keeps_roles_and_thresholds() -> None:
    """What an audit checks is what the release promised."""
    trees: dict[str, Any] = {"distance": {"charge": "hierarchical"}, "hierarchies": {"charge": "tree"}}
    made = policy(t=0.2, l={"charge": 3}, l_diversity="entropy", method="mdav", **trees)
    assert made.audited() == AuditPolicy(
        quasi_identifiers=["age", "zip"],
        sensitive=["charge", "Diagnosis"],
        k=5,
        t="0.2",
        l={"charge": 3},
        l_diversity="entropy",
        **trees,
    )


def test_methods_of_policies_exist() -> None:
    """A policy can name exactly the methods that `methods()` lists; all but two have a function of points."""
    assert tuple(method.name for method in methods()) == METHODS
    assert sorted(METHODS) == sorted(["auto", "full_domain", *PUBLISHED])


def test_toml_is_readable() -> None:
    """By hand: one line an option, only what differs from the default, digits as written."""
    made = policy(t={"charge": "0.150"}, insensitive="*", weights={"age": 0.5}, refine=False)
    assert made.to_toml() == (
        'quasi_identifiers = ["age", "zip"]\n'
        "k = 5\n"
        'sensitive = ["charge", "Diagnosis"]\n'
        'insensitive = "*"\n'
        "t = {charge = 0.150}\n"
        "weights = {age = 0.5}\n"
        "refine = false\n"
    )
    assert Policy.from_toml(made.to_toml()) == made


def test_toml_by_hand_is_read() -> None:
    """Tables, comments and strings as TOML allows them; overrides win."""
    text = """
    # roles
    quasi_identifiers = "age"
    sensitive = ['charge']
    k = 3
    [t]
    "charge" = 0.10
    """
    read = Policy.from_toml(text, k=4)
    assert read == Policy(quasi_identifiers="age", sensitive="charge", k=4, t={"charge": 0.1})
    assert isinstance(read.t, ByColumn)
    assert str(read.t["charge"]) == "0.10"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k = ", "the policy is not TOML: "),
        (f"k = {'9' * 5000}", "the policy is not TOML: "),
        ("k = 5", "option 'quasi_identifiers' is missing"),
        ("quasi_identifiers = 'age'", "option 'k' is missing"),
        ("qi = 'age'\nk = 5", "unknown option 'qi'"),
        ("quasi_identifier = 'age'", "did you mean 'quasi_identifiers'?"),
        ("quasi_identifiers = 'age'\nk = 5.0", "k = 5.0: use an integer"),
        ("quasi_identifiers = 'age'\nk = 2020-01-01", "use an integer"),
        ("quasi_identifiers = 'age'\nk = 5\nsensitive = 's'\nt = nan", "out of range"),
    ],
)
def test_wrong_toml_is_an_error(text: str, message: str) -> None:
    """By hand."""
    with pytest.raises(PolicyError) as wrong:
        Policy.from_toml(text)
    assert message in str(wrong.value)


def test_time_limit_and_effort_are_kept() -> None:
    """By hand: seconds are a float whatever they are written as, a word counts in any case."""
    made = policy(time_limit="2.50", effort="FAST")
    assert (made.time_limit, type(made.time_limit), made.effort) == (2.5, float, "fast")
    assert made.to_toml().endswith('effort = "fast"\ntime_limit = 2.5\n')
    assert policy(time_limit=None, effort="balanced") == policy()
    assert "effort" not in policy().to_toml()


NAMES = st.lists(st.text(min_size=1).filter(lambda name: name != "*"), min_size=2, max_size=6, unique_by=fold)
THRESHOLDS = st.decimals("1e-12", 1, places=12, allow_nan=False) | st.sampled_from([0.15, "0.150", 1, "1E-3"])


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Return a strategy for valid policies with columns of any name."""
    names = draw(NAMES)
    half = len(names) // 2
    quasi, sensitive = names[:half], names[half:]
    options: dict[str, Any] = {
        "quasi_identifiers": quasi,
        "sensitive": sensitive,
        "k": draw(st.integers(2, 99)),
    }
    if draw(st.booleans()):
        options["t"] = draw(THRESHOLDS | st.fixed_dictionaries({sensitive[0]: THRESHOLDS}))
    if draw(st.booleans()):
        options |= {"l": {sensitive[-1]: draw(st.integers(1, 9))}, "l_diversity": "recursive"}
        options["c"] = draw(st.floats(1e-3, 1e3))
    if draw(st.booleans()):
        options |= {
            "distance": {sensitive[0]: "hierarchical"},
            "hierarchies": {sensitive[0]: draw(st.text("a\"'\n\x7f", min_size=1))},
        }
    if draw(st.booleans()):
        options |= {"weights": {quasi[0]: draw(st.floats(1e-9, 1e9))}, "recode": {quasi[-1]: "set"}}
    options |= {
        "insensitive": "*",
        "seed": draw(st.integers(-(2**63) + 1, 2**63 - 1)),
        "suppression_limit": draw(st.floats(1e-9, 1)),
        "effort": draw(st.sampled_from(["fast", "balanced", "best"])),
        "time_limit": draw(st.none() | st.floats(1e-9, 1e9)),
    }
    return Policy(**options)


@given(policies())
def test_toml_round_trip_is_exact(made: Policy) -> None:
    """Reading what was written gives the same policy to the last digit; the text is TOML."""
    text = made.to_toml()
    tomllib.loads(text)
    again = Policy.from_toml(text)
    assert again == made
    assert again.to_toml() == text
    assert repr(again.t) == repr(made.t)


def test_p_percent_is_rounded_to_the_stricter_side() -> None:
    """Of 13 decimals the twelfth goes up: 10.0000000000001 asks for more than 10."""
    assert Policy(quasi_identifiers="a", k=2, p_percent="10.0000000000001").p_percent == Decimal(
        "10.000000000001"
    )
    assert Policy(quasi_identifiers="a", k=2, p_percent=10).p_percent == Decimal(10)
