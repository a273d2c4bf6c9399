"""Parameters that never leave a client: which they are, and the file that keeps them."""

from __future__ import annotations

import fnmatch
import os
import pathlib
import pickle
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from accrue.errors import UsageError

FORMAT = 1


def _matches(pattern: str, name: str) -> bool:
    """As patterns of `model.freeze`: whole parts of a name."""
    return any(fnmatch.fnmatchcase(name, whole) for whole in (pattern, f"*.{pattern}", f"{pattern}.*", f"*.{pattern}.*"))


def personal_names(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Returns the names that a pattern matches. Raises UsageError if one matches none, or if all are personal."""
    names = list(names)
    for pattern in patterns:
        if not any(_matches(pattern, name) for name in names):
            raise UsageError("personal", "patterns that match trained parameters", f'"{pattern}", which matches nothing', f"patterns of {', '.join(names)}")
    personal = [name for name in names if any(_matches(pattern, name) for pattern in patterns)]
    if len(personal) == len(names):
        raise UsageError("personal", "patterns that leave something to train together", "all trained parameters", "fewer patterns")
    return personal


class PersonalFile:
    """A client's own parameters before and after its last round. It is replaced as a whole, so a process that is killed leaves the one before.

    A client may be asked twice in a round: it then begins with the same values.
    """

    def __init__(self, folder: pathlib.Path, client: str):
        self._path = folder / f"{urllib.parse.quote(client, safe='')}.pt"

    def before(self, run: int, window: int) -> dict[str, torch.Tensor]:
        """Returns the values with which this round of a Flower run begins; none if the client has not taken part yet."""
        state = self._state()
        if state is None:
            return {}
        return state["before"] if (state["run"], state["window"]) == (run, window) else state["after"]

    def latest(self) -> dict[str, torch.Tensor]:
        state = self._state()
        return {} if state is None else state["after"]

    def keep(self, run: int, window: int, before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(f".{os.getpid()}.new")
        with new.open("wb") as file:
            torch.save({"format": FORMAT, "run": run, "window": window, "before": dict(before), "after": dict(after)}, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)

    def _state(self) -> dict[str, Any] | None:
        if not self._path.exists():
            return None
        try:
            state = torch.load(self._path, weights_only=True)
            is_known = state["format"] == FORMAT
        except (RuntimeError, EOFError, KeyError, TypeError, pickle.UnpicklingError) as error:
            raise UsageError(f"personal parameters in {self._path}", "a file that LocalRounds wrote", f"one that cannot be read ({error})",
                             "a copy of it; without the file the client begins with the model's initial values") from None
        if not is_known:
            raise UsageError(f"personal parameters in {self._path}", f"format {FORMAT}", str(state["format"]), "the version of accrue that wrote it")
        return state
