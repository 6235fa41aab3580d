"""Golden net: what some eighty small releases are, written by one checkout and compared with another.

A refactoring must leave all of it as it is, digit for digit. The script takes the package that PYTHONPATH names,
by its public names alone, so one copy of the script serves two checkouts:

    PYTHONPATH=/old/checkout python tests/golden.py write old.json
    PYTHONPATH=/new/checkout python tests/golden.py write new.json
    python tests/golden.py compare old.json new.json            # exit code 1 names every difference
    python tests/golden.py compare old.json new.json --allow 'hierarchy/hashes' 'explain_*/*'

A file holds, by case and part: hash of the released rows in their order with their types, plan of EXPLAIN, report,
warnings, effect, metadata (`evidence`), and their hashes. Times, versions, paths and links of the audit chain, which
hash a time, are left out. `write FILE CASE ...` runs some cases alone. Releases on
Spark take minutes, and are not among them: tests/spark has those.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import golden_cases  # noqa: F401 - enters the cases
from golden_parts import CASES, Parts, attempt

if TYPE_CHECKING:
    from collections.abc import Iterator


def write(path: Path, names: list[str]) -> None:
    """Run cases, all by default, and write what they are to a file."""
    import duckanon

    print(f"package: {Path(duckanon.__file__).parent}", file=sys.stderr)
    found: dict[str, Parts] = {}
    for name in names or CASES:
        begin = time.process_time()
        found[name] = attempt(CASES[name])
        spent = time.process_time() - begin
        print(f"{spent:6.2f} s  {name}  {found[name].get('error', '')}".rstrip(), file=sys.stderr)
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{time.process_time():.0f} CPU seconds, {len(found)} cases written to {path}", file=sys.stderr)


def differences(old: Any, new: Any, where: str) -> Iterator[str]:
    """Yield each difference of two values by the names on the way to it."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            yield from differences(old.get(name, "(nothing)"), new.get(name, "(nothing)"), f"{where}/{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, pair in enumerate(zip(old, new, strict=True)):
            yield from differences(*pair, f"{where}/{place}")
    elif old != new:
        yield f"{where.lstrip('/')}\n    - {str(old)[:300]}\n    + {str(new)[:300]}"


def compare(old: Path, new: Path, allowed: list[str], *, only: bool = False) -> int:
    """Print the differences of two files but the allowed ones, patterns of names; exit code 1 where there are any."""
    # Fingerprints of trees have named no recipe: see `hashes` for what they are.
    texts = [path.read_text(encoding="utf-8").replace("v2:<hash>", "<hash>") for path in (old, new)]
    both = [json.loads(text) for text in texts]
    if only:
        both[0] = {name: parts for name, parts in both[0].items() if name in both[1]}
    found = list(differences(*both, ""))
    names = [one.partition("\n")[0] for one in found]
    kept = [
        one
        for one, name in zip(found, names, strict=True)
        if not any(_under(name, pattern) for pattern in allowed)
    ]
    print("\n".join(kept[:200]))
    cases = sorted({one.partition("/")[0].partition("\n")[0] for one in kept})
    print(
        f"{len(both[0])} and {len(both[1])} cases: {len(kept)} differences in {len(cases)} of them, {len(found) - len(kept)} allowed"
    )
    print(*cases)
    return 1 if kept else 0


def _under(name: str, pattern: str) -> bool:
    """Whether a name, or what it stands under, matches a pattern."""
    return fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(name, f"{pattern}/*")


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(dest="action", required=True)
    writes = actions.add_parser("write")
    writes.add_argument("file", type=Path)
    writes.add_argument("cases", nargs="*")
    compares = actions.add_parser("compare")
    compares.add_argument("old", type=Path)
    compares.add_argument("new", type=Path)
    compares.add_argument("--allow", nargs="*", default=[], metavar="PATTERN")
    compares.add_argument("--only", action="store_true", help="compare the cases that NEW has")
    given = parser.parse_args()
    if given.action == "write":
        write(given.file, given.cases)
        return 0
    return compare(given.old, given.new, given.allow, only=given.only)


if __name__ == "__main__":
    sys.exit(main())
