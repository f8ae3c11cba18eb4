"""Answers of endpoints on disk, as they arrive: a run that was stopped, even by kill -9, repeats no request."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from platformdirs import user_cache_path

from epsilometer.core.errors import UserError
from epsilometer.core.flaws import Flaw


@dataclass(frozen=True)
class Completion:
    """An answer: its text (as `keep` returned it), and the tokens of question and answer as the model counts them.

    revision: the model's name as the endpoint gives it, which may say more than the name that was asked.
    flaws: what the endpoint states of the answer.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    revision: str = field(default="", compare=False)
    flaws: Flaw = Flaw.NONE


class Store:
    """Answers on disk, by the hash of their question and by revision.

    SQLite: an answer is stored whole or not at all, whenever the process dies.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        with storing(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            for part in (
                "",
                "-wal",
                "-shm",
            ):  # SQLite gives new ones the permissions of the file; a killed run left old
                if (file := path.with_name(path.name + part)).exists():
                    file.chmod(0o600)
            # Workers write, one at a time; another process may write to the same file.
            self._database = sqlite3.connect(path, timeout=60, check_same_thread=False)
            # An answer survives the process at once; a power failure costs the last answers, not the file.
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS completions (question BLOB, revision TEXT, source TEXT, text TEXT, "
                "prompt_tokens INTEGER, completion_tokens INTEGER, flaws INTEGER NOT NULL DEFAULT 0, "
                "PRIMARY KEY (question, revision))"
            )
            self._add_flaws()

    def _add_flaws(self) -> None:
        """Add the column to a store of an earlier version, whose answers then have no known flaws."""
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            if not any(column[1] == "flaws" for column in self._database.execute("PRAGMA table_info(completions)")):
                self._database.execute("ALTER TABLE completions ADD COLUMN flaws INTEGER NOT NULL DEFAULT 0")

    def revision(self, source: str) -> str:
        """The revision that answered last; empty where none did."""
        row = self._database.execute(
            "SELECT revision FROM completions WHERE source = ? ORDER BY rowid DESC LIMIT 1", (source,)
        ).fetchone()
        return row[0] if row else ""

    def has(self, key: bytes, revision: str) -> bool:
        row = self._database.execute("SELECT 1 FROM completions WHERE question = ? AND revision = ?", (key, revision))
        return bool(row.fetchone())

    def get(self, key: bytes, revision: str) -> Completion:
        row = self._database.execute(
            "SELECT text, prompt_tokens, completion_tokens, revision, flaws FROM completions "
            "WHERE question = ? AND revision = ?",
            (key, revision),
        )
        text, prompt_tokens, completion_tokens, revision, flaws = row.fetchone()
        return Completion(text, prompt_tokens, completion_tokens, revision, flaws=Flaw(flaws))

    def put(self, key: bytes, source: str, answer: Completion) -> None:
        tokens = answer.prompt_tokens, answer.completion_tokens
        with self._lock, self._database:
            self._database.execute(
                "INSERT OR REPLACE INTO completions "
                "(question, revision, source, text, prompt_tokens, completion_tokens, flaws) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (key, answer.revision, source, answer.text, *tokens, int(answer.flaws)),
            )

    def close(self) -> None:
        self._database.close()


@contextmanager
def storing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.DatabaseError) as error:
        raise UserError(
            f"answers cannot be stored in {path} ({error}); move away what is there, or make it writable"
        ) from None


def store_path(name: str) -> Path:
    """The store of that name in the user's cache, a folder that nobody else can enter (0700)."""
    folder = user_cache_path("epsilometer")
    with storing(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    return folder / name
