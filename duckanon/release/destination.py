"""The files of an export: whether they may be written, and how they get their names."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

from duckanon.database import engine, templates
from duckanon.database.paths import check_local
from duckanon.database.relations import databases
from duckanon.errors import DuckanonError, ReleaseError
from duckanon.release import foreign
from duckanon.statements.tokens import tokenize, unquoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

    from duckanon.release.metadata import Published

_NO_ROOM = re.compile("|".join(os.strerror(code) for code in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)))
"""Messages of the system when a disk, a quota or the size of a file is exhausted."""


@contextlib.contextmanager
def room_told(path: str) -> Iterator[None]:
    """Name the requested file, not its draft, in an error about missing space."""
    try:
        yield
    except (DuckanonError, OSError) as failed:
        reason = _NO_ROOM.search(str(failed))
        if reason is None or "draft" not in str(failed):
            raise
        words = f"{path!r} was not written: {reason[0].lower()}; nothing is left of it"
        raise ReleaseError(words) from failed


def check_beside(name: str, ending: str, *, overwrite: bool) -> Path:
    """Path of a file that is written with a released file; raise unless it ends so and can be written."""
    path = Path(name)
    check_local(path)
    if path.suffix.lower() != ending:
        raise ReleaseError(f"cannot write {name!r}: the name of this file ends in {ending}")
    check_file(path, overwrite=overwrite)
    return path


def check_not_read(con: duckdb.DuckDBPyConnection, published: Published, file: Path) -> None:
    """Raise if a file that is to be replaced is an attached database, or is named in the source query."""
    if not file.exists():
        return
    attached = {name: database.path for name, database in databases(con, "export").items()}
    catalog = next((name for name, path in attached.items() if path and _same(path, file)), None)
    if catalog is not None:
        raise ReleaseError(f"{str(file)!r} is the attached database {catalog!r}: export to another file")
    log = file.with_name(f"{file.name}.wal")
    if os.path.lexists(log):
        raise ReleaseError(f"{str(file)!r} is in use, or was not closed: {log.name!r} is beside it")
    quoted = (token for token in tokenize(published.source_sql) if token.kind in {"string", "name"})
    if any(_same(path, file) for token in quoted for path in glob(unquoted(token), recursive=True)):
        raise ReleaseError(
            f"{str(file)!r} is read by the query of {published.target}: export to another file"
        )


def check_replaceable(file: Path) -> None:
    """Raise if a file that is to be replaced is a database, and no exported release."""
    if file.suffix.lower() != ".duckdb" or not file.exists():
        return
    foreign.check_database(file)
    path = file.absolute().as_posix()
    with foreign.opened([file]) as con:
        attach = templates.render("catalog/databases.sql.j2:attach", path=path, catalog="old", new=False)
        engine.run(con, attach, f"database {str(file)!r}", error=ReleaseError)
        kinds = dict(engine.rows(con, templates.render("catalog/databases.sql.j2:with_releases"), "export"))
    if kinds.get("old") != "exported":
        raise ReleaseError(
            f"{str(file)!r} is a database that EXPORT did not write, and would be lost: give another file"
        )


def _same(path: str, file: Path) -> bool:
    try:
        return file.samefile(path)
    except OSError:
        return False


def check_file(file: Path, *, overwrite: bool) -> None:
    """Raise if a file exists and is not to be replaced, or cannot be written in its folder."""
    shown = repr(str(file))
    try:
        # A link counts as existing, wherever it leads.
        mode = file.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as wrong:
        raise ReleaseError(f"cannot export to {shown}: {wrong.strerror}") from wrong
    else:
        if stat.S_ISDIR(mode) or not overwrite:
            raise ReleaseError(
                f"{shown} is a folder: choose another name"
                if stat.S_ISDIR(mode)
                else f"{shown} exists: choose another name, or replace it by overwrite = true"
            )
        if not stat.S_ISREG(mode):
            raise ReleaseError(f"{shown} is a link or a device: only a plain file is overwritten")
    parent = str(file.parent)
    if not file.parent.is_dir():
        raise ReleaseError(f"cannot export to {shown}: the folder {parent!r} does not exist")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise ReleaseError(f"cannot export to {shown}: nothing can be written in the folder {parent!r}")


def settle_all(names: Sequence[tuple[Path, Path]], *, overwrite: bool) -> None:
    """Give all drafts their names, or none; Ctrl-C waits, see `interrupts.settle`."""
    if overwrite:
        for draft, file in names:
            _replace(draft, file)
        return
    done: list[Path] = []
    try:
        for draft, file in names:
            _settle(draft, file)
            done.append(file)
    except (ReleaseError, OSError):
        for file in done:
            file.unlink(missing_ok=True)
        raise


def _replace(draft: Path, file: Path) -> None:
    """Give a draft the name of a file, which is the old file or the new one at every moment."""
    if file.exists():
        shutil.copymode(file, draft)
    # The content is on the disk before the name: a loss of power leaves no empty file.
    with draft.open("rb") as written:
        os.fsync(written.fileno())
    draft.replace(file)


def _settle(draft: Path, file: Path) -> None:
    try:
        # A hard link fails if the name exists by now; a rename would overwrite the file.
        os.link(draft, file)
    except OSError as taken:
        # Without a name that exists, this is a file system without hard links.
        if os.path.lexists(file):
            raise ReleaseError(
                f"{str(file)!r} was created by someone else meanwhile; nothing was overwritten"
            ) from taken
        draft.rename(file)
