"""The steps that were taken on some data, in a file that outlives runs and checkpoints."""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import weakref
from typing import Any

from accrue.errors import RunError, UsageError
from accrue.privacy.accountant import checked_steps

# How each line begins.
_LINE = '{"process": "'


class Ledger:
    """A file with a line for each private step on the same data. A step is written to the disk before it is taken.

    A run that dies and resumes from an older checkpoint takes some steps again, with other noise: both have been seen, and the file has both.
    One process has it at a time; several trainers of that process may share the object.

    Args:
        path: the file; it is made if there is none. Keep one for each data set, beside it.

    Raises:
        UsageError: another process has it, or it has other lines.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self._path = os.fspath(path)
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError("open a ledger", "a file that can be read and written", f"{self._path}: {error.strerror}",
                             "the name of a file, in a folder that exists") from None
        self._closing = weakref.finalize(self, os.close, self._file)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise UsageError("open a ledger", "a file that no other process has", self._path, "one run at a time on the same data") from None
        try:
            text = pathlib.Path(self._path).read_text(encoding="utf-8")
            whole = text[:text.rfind("\n") + 1]
            self.lines: list[tuple[str, float, float, int]] = [_line(json.loads(line)) for line in whole.splitlines()]
            _expect_begun(text[len(whole):])
        except (KeyError, TypeError, ValueError, UsageError) as error:
            self.close()
            raise UsageError("open a ledger", "a line of JSON for each step", f"{self._path}: {error}", "the file as accrue wrote it") from None
        if not text:
            _write_folder(os.path.dirname(os.path.abspath(self._path)))
        # A line without an end was never followed by its step.
        if whole != text:
            os.ftruncate(self._file, len(whole.encode()))

    def append(self, process: str, rate: float, noise: float, count: int = 1) -> None:
        """Writes steps, and returns when they are on the disk.

        Raises:
            RunError: they could not be written. The step must not be taken then.
        """
        line = json.dumps({"process": process, "rate": rate, "noise": noise, "steps": count}) + "\n"
        if not self._closing.alive:
            raise RunError("write a ledger", f"{self._path} to be open", "a ledger that was closed", "a step before close()")
        before = os.fstat(self._file).st_size
        try:
            if os.write(self._file, line.encode()) != len(line):
                raise OSError("it was written in part")
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, before)
            raise RunError("write a ledger", f"room for a line in {self._path}", str(error), "another disk for it") from error
        self.lines.append((process, rate, noise, count))

    def close(self) -> None:
        """Lets another process have the file."""
        self._closing()


def _write_folder(folder: str) -> None:
    """Returns when the names of the folder's files are on the disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _line(facts: dict[str, Any]) -> tuple[str, float, float, int]:
    return str(facts["process"]), *checked_steps((facts["rate"], facts["noise"], facts["steps"]))


def _expect_begun(tail: str) -> None:
    """Raises ValueError unless `tail` is the beginning of a line. Other files stay as they are."""
    if not (tail.startswith(_LINE) or _LINE.startswith(tail)):
        raise ValueError("an end that is not the beginning of such a line")
