"""Exit codes of the command line."""

from __future__ import annotations

PASSED, VIOLATION, ERROR = 0, 1, 2
"""All checks passed; an audit found a violation; an error."""
