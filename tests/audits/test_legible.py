"""Names and values of users on one line: what would break or turn it is replaced."""

from __future__ import annotations

import pytest

from duckanon.audits.legible import legible


@pytest.mark.parametrize("unseen", ["\n", "\r", "\x1b", "\u202e", "\x00"])
def test_what_is_unseen_or_turns_the_text_becomes_visible(unseen: str) -> None:
    assert legible(f"forged{unseen}row") == "forged\ufffdrow"


def test_letters_of_any_script_stay() -> None:
    assert legible("Müller 山田 أحمد") == "Müller 山田 أحمد"
