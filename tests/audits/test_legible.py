"""Names and values of users on one line: what is unseen, breaks the line or turns it is escaped."""

from __future__ import annotations

import ast
import unicodedata

import pytest

from duckanon.audits.legible import legible, legible_lines

BREAKING = "\n\r\x1b\x00\x85\u2028\u2029"
TURNING = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
WITHOUT_WIDTH = "\xad\u200b\u200c\u200d\u2060\u2063\ufe0f\ufeff\U000e0041"


@pytest.mark.parametrize("unseen", [*BREAKING, *TURNING, *WITHOUT_WIDTH], ids=ascii)
def test_what_is_unseen_or_turns_the_text_becomes_visible(unseen: str) -> None:
    shown = legible(f"forged{unseen}row")
    assert shown.isprintable()
    # Python reads its own escapes: the reader can tell which character it was.
    assert ast.literal_eval(f'"{shown}"') == f"forged{unseen}row"


def test_the_lines_of_a_document_stay_lines() -> None:
    assert legible_lines("a\tb\nc\x1b[2J\u202e") == "a\tb\nc\\x1b[2J\\u202e"


def test_of_the_format_characters_only_signs_that_are_drawn_stay() -> None:
    """They stand before the digits that they enclose, in Arabic and in Kaithi; hieroglyphs and shorthand apart."""
    kept = {
        character
        for character in map(chr, range(0x13430))
        if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        and legible(character) == character
    }
    assert {unicodedata.name(character) for character in kept} == {
        "ARABIC NUMBER SIGN",
        "ARABIC SIGN SANAH",
        "ARABIC FOOTNOTE MARKER",
        "ARABIC SIGN SAFHA",
        "ARABIC SIGN SAMVAT",
        "ARABIC NUMBER MARK ABOVE",
        "ARABIC END OF AYAH",
        "SYRIAC ABBREVIATION MARK",
        "ARABIC POUND MARK ABOVE",
        "ARABIC PIASTRE MARK ABOVE",
        "ARABIC DISPUTED END OF AYAH",
        "KAITHI NUMBER SIGN",
        "KAITHI NUMBER SIGN ABOVE",
    }


def test_letters_of_any_script_stay() -> None:
    assert legible("Müller 山田 أحمد नमस्ते 😀") == "Müller 山田 أحمد नमस्ते 😀"
