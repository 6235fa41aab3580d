"""The audits that no macro shows in full, on hand-made relations (tests/trust/direct.py)."""

from __future__ import annotations

import pytest

from duckanon.audits.headers import audit_file
from duckanon.database import templates
from tests.trust import direct


@pytest.mark.parametrize("audit", direct.CASES)
def test_the_select_gives_the_rows_reckoned_by_hand(audit: str) -> None:
    direct.check(audit, templates.read(audit_file(audit)))
