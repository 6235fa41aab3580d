"""Exit codes of the command line."""

from __future__ import annotations

PASSED, VIOLATION, ERROR = 0, 1, 2
"""Done and every check passed; the audit found a violation; an error."""
