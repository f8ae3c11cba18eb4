"""Cache of endpoints' answers on disk.

Answers are stored as they arrive, so the run after a killed run repeats no answered request.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from platformdirs import user_cache_path

from epsilometer.core.errors import UserError
from epsilometer.core.flaws import Flaw
from epsilometer.runtime.progress import note


@dataclass(frozen=True)
class Completion:
    """An answer: its text (the part that `keep` of `Chat.complete` returned), and the tokens of question and answer.

    revision: the model's name in the endpoint's answer, which may be more specific than the requested name.
    flaws: defects that the endpoint reports, such as a truncated answer.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    revision: str = field(default="", compare=False)
    flaws: Flaw = Flaw.NONE


_TABLES = {
    "completions": "question BLOB, revision TEXT, source TEXT, text TEXT, prompt_tokens INTEGER, "
    "completion_tokens INTEGER, flaws INTEGER",
    "revisions": "source TEXT, revision TEXT",  # the revision of the newest answer of each source (`Endpoint.source`)
}
_KEYS = {"completions": "question, revision", "revisions": "source"}
_HEAD = b"SQLite format 3\0"
_FORM = 1  # version of the tables, in SQLite's user_version; 0: a new file, or the old format without hashes
# SQLite errors that have other causes than damaged content of the file.
_NO_DAMAGE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
}


class Store:
    """Answers in an SQLite file, by the hash of their question and by the model's revision.

    After a crash, an answer is stored whole or not at all. Each row has a hash of its other columns. Opening the file
    checks all hashes. Damaged rows are dropped, so their questions are sent again, and a note counts these rows. Rows
    in the old format get hashes when the file is first opened, so earlier damage to these rows stays undetected. A file
    that SQLite cannot open is refused if its beginning differs from SQLite's header in more than one byte.
    """

    def __init__(self, path: Path) -> None:
        self._lock, self._path = threading.Lock(), path
        with storing(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            for file in _parts(path):  # new files get the mode of `path`, but a killed run's files may have another
                if file.exists():
                    file.chmod(0o600)
            self._database = _whole(path)

    def revision(self, source: str) -> str:
        """Return the revision of the newest answer of this source; empty without an answer."""
        with storing(self._path):
            row = self._database.execute("SELECT revision FROM revisions WHERE source = ?", (source,)).fetchone()
        return row[0] if row else ""

    def has(self, key: bytes, revision: str) -> bool:
        with storing(self._path):
            row = self._database.execute(
                "SELECT 1 FROM completions WHERE question = ? AND revision = ?", (key, revision)
            ).fetchone()
        return bool(row)

    def get(self, key: bytes, revision: str) -> Completion:
        with storing(self._path):
            source, text, read, written, flaws, stored = self._database.execute(
                "SELECT source, text, prompt_tokens, completion_tokens, flaws, hash FROM completions "
                "WHERE question = ? AND revision = ?",
                (key, revision),
            ).fetchone()
        row = (key, revision, source, text, read, written, flaws)
        if stored != _hash(*row):
            raise UserError(
                f"a cached answer in {self._path} was damaged during the run; run again to request it again", "EPS-N001"
            )
        return Completion(text, read, written, revision, flaws=Flaw(flaws))

    def put(self, key: bytes, source: str, answer: Completion) -> None:
        tokens = answer.prompt_tokens, answer.completion_tokens
        row = (key, answer.revision, source, answer.text, *tokens, int(answer.flaws))
        with self._lock, storing(self._path), self._database:
            _insert(self._database, "completions", [(*row, _hash(*row))])
            newest = source, answer.revision
            _insert(self._database, "revisions", [(*newest, _hash(*newest))])

    def close(self) -> None:
        self._database.close()


def _hash(*row: bytes | str | int) -> bytes:
    """Return the hash of a row. Numbers and texts are encoded as UTF-8."""
    plain = [value if isinstance(value, bytes) else str(value).encode() for value in row]
    return hashlib.blake2b(repr(plain).encode(), digest_size=16).digest()


def _stored_hash(table: str) -> str:
    """Return an SQL expression for a row's hash. Columns are cast to bytes, since damage may leave invalid UTF-8."""
    return f"row_hash({', '.join(f'CAST({name} AS BLOB)' for name in _names(table))})"


def _names(table: str) -> list[str]:
    return [column.split()[0] for column in _TABLES[table].split(", ")]


def _insert(database: sqlite3.Connection, table: str, rows: Iterable[Sequence[object]]) -> None:
    """Insert rows into a table. A row has the values of the table's columns, and then its hash."""
    names = [*_names(table), "hash"]
    places = ", ".join("?" * len(names))
    database.executemany(f"INSERT OR REPLACE INTO {table} ({', '.join(names)}) VALUES ({places})", rows)


def _whole(path: Path) -> sqlite3.Connection:
    """Return the store at this path without damaged rows. If SQLite cannot open it, make a new store of intact rows."""
    try:
        return _opened(path)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # a damaged schema raises UnicodeDecodeError
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in _NO_DAMAGE or not _was_database(path):
            raise
    intact = {table: _salvaged(path, table) for table in _TABLES}
    aside = path.with_name(path.name + ".damaged")
    for old, new in zip(_parts(path), _parts(aside), strict=True):
        new.unlink(missing_ok=True)
        if old.exists():
            old.rename(new)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    database = _opened(path)
    with database:
        for table, rows in intact.items():
            _insert(database, table, rows)
    note(
        f"{path} was damaged: {len(intact['completions'])} answers were recovered, and the others will be requested "
        f"again. The damaged file is now {aside.name} and can be deleted"
    )
    return database


def _was_database(path: Path) -> bool:
    """Return True if the file begins with SQLite's header, with at most one byte changed."""
    with path.open("rb") as file:
        head = file.read(len(_HEAD))
    return len(head) == len(_HEAD) and sum(a != b for a, b in zip(head, _HEAD, strict=True)) <= 1


def _opened(path: Path) -> sqlite3.Connection:
    """Return the store at this path in the current format, without damaged rows. Bad pages raise DatabaseError."""
    database = _connected(path)
    try:
        # A crash of the process loses no stored answer. A power failure may lose the last answers, but not the file.
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        with database:
            database.execute("BEGIN IMMEDIATE")
            _bring_into_form(database)
            if database.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("pages or an index contradict each other")
            count = sum(
                database.execute(
                    f"DELETE FROM {table} NOT INDEXED WHERE hash IS NOT {_stored_hash(table)}"  # the index may be bad
                ).rowcount
                for table in _TABLES
            )
        if count:
            note(f"{count} damaged rows of {path} were deleted; their answers are requested again")
    except BaseException:
        database.close()
        raise
    return database


def _connected(path: Path) -> sqlite3.Connection:
    # Threads share this connection under a lock; another process may write to the same file.
    database = sqlite3.connect(path, timeout=60, check_same_thread=False)
    database.create_function("row_hash", -1, _hash, deterministic=True)
    return database


def _bring_into_form(database: sqlite3.Connection) -> None:
    form = database.execute("PRAGMA user_version").fetchone()[0]
    there = {table: [c[1] for c in database.execute(f"PRAGMA table_info({table})")] for table in _TABLES}
    if form == _FORM and there == {table: [*_names(table), "hash"] for table in _TABLES}:
        return
    if form or there["revisions"]:
        raise sqlite3.DatabaseError("the tables do not match the file's version number")
    if there["completions"]:
        if "flaws" not in there["completions"]:
            database.execute("ALTER TABLE completions ADD COLUMN flaws INTEGER NOT NULL DEFAULT 0")
        database.execute("ALTER TABLE completions ADD COLUMN hash BLOB")
        database.execute(f"UPDATE completions SET hash = {_stored_hash('completions')}")
    for table, columns in _TABLES.items():
        database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns}, hash BLOB, PRIMARY KEY ({_KEYS[table]}))")
    database.execute(
        f"INSERT INTO revisions SELECT source, revision, {_stored_hash('revisions')} FROM completions "
        "WHERE rowid IN (SELECT max(rowid) FROM completions GROUP BY source)"
    )
    database.execute(f"PRAGMA user_version = {_FORM}")


def _salvaged(path: Path, table: str) -> list[Sequence[object]]:
    """Return the intact rows of a damaged store. The table is read forwards and backwards, until reading fails."""
    rows: set[Sequence[object]] = set()
    with closing(_connected(path)) as database:
        for order in ("ASC", "DESC"):
            with suppress(sqlite3.DatabaseError, UnicodeDecodeError):
                rows.update(
                    database.execute(
                        f"SELECT {', '.join(_names(table))}, hash FROM {table} NOT INDEXED "
                        f"WHERE hash = {_stored_hash(table)} ORDER BY rowid {order}"
                    )
                )
    return list(rows)


def _parts(path: Path) -> list[Path]:
    """Return the paths of a database's files: the main file, the write-ahead log and the shared memory."""
    return [path.with_name(path.name + part) for part in ("", "-wal", "-shm")]


@contextmanager
def storing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise UserError(
            f"answers cannot be cached in {path} ({error}); move the file away, or make it writable", "EPS-N002"
        ) from None


def store_path(name: str) -> Path:
    """Return the path of a store in the user's cache folder, which only this user can enter (mode 0700)."""
    folder = user_cache_path("epsilometer")
    with storing(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    return folder / name
