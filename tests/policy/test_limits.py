"""Policies and names that are large beyond use: an error names the limit."""

from __future__ import annotations

import time

import pytest

from duckanon.errors import PolicyError
from duckanon.policy.names import suggestion
from duckanon.policy.toml_text import KEY_MAX_PARTS, options_from_toml


@pytest.mark.parametrize("part", ["a", '"a b"', "'a.b'"])
def test_a_name_of_very_many_parts_is_refused(part: str) -> None:
    """50,000 parts took 9.6 GB."""
    long = " . ".join([part] * 50_000)
    least = ".".join([part] * (KEY_MAX_PARTS + 1))
    for text in (f"{least} = 1", f"[{long}]", f"[[ {long} ]]", f"t = {{b = 1, {long} = 1}}"):
        with pytest.raises(PolicyError, match=rf"line 2 .* more than {KEY_MAX_PARTS} parts"):
            options_from_toml(f"k = 3\n{text}\n")
    nested = options_from_toml(".".join([part] * KEY_MAX_PARTS) + " = 1")
    for _ in range(KEY_MAX_PARTS):
        (nested,) = nested.values()
    assert nested == 1


def test_dots_in_texts_are_no_parts() -> None:
    text = ".".join("a" * 5_000)
    assert options_from_toml(f'k = "{text}-"\n# {text[:150]}\n')["k"] == f"{text}-"


def test_brackets_without_end_are_refused() -> None:
    with pytest.raises(PolicyError, match="brackets within brackets"):
        options_from_toml("t = " + "[" * 50_000)


def test_long_names_are_near_none() -> None:
    """To compare two of 20,000 characters took minutes."""
    begun = time.monotonic()
    assert suggestion("a" * 20_000, ["a" * 20_001, "b"]) == ""
    assert suggestion("zipcod", ["z" * 20_000, "zipcode"]) == ", did you mean 'zipcode'?"
    assert time.monotonic() - begun < 30
