"""A run of ranks that lasts: its store lives in a process of its own, as a launcher's agent hosts it, so that any rank may
be lost and come back. Only the standard library.
"""
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Callable

TAIL_BYTES = 1 << 16  # of metrics.jsonl: a few steps


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a process runs: what stands before its command, and its variables."""
    prefix: tuple[str, ...] = ()
    variables: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Lived:
    process: subprocess.Popen
    since: float


class LastingRun:
    """`world` ranks of `command`, which trains into `out`; what they say goes to files in `folder`. `place_of(rank)` is where a
    rank runs, and `place_of(None)` where the store does."""

    def __init__(self, store_host: pathlib.Path, command: list[str], out: pathlib.Path, folder: pathlib.Path, world: int, port: int,
                 place_of: Callable[[int | None], Place] = lambda rank: Place()):
        self.world, self.out = world, out
        self._command, self._folder, self._port, self._place_of = command, folder, port, place_of
        self._variables = {"WORLD_SIZE": str(world), "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                           "TORCHELASTIC_USE_AGENT_STORE": "True", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
        host = place_of(None)
        self._host = subprocess.Popen([*host.prefix, str(store_host), str(port)], env=os.environ | host.variables)
        self._seconds_of_the_dead = 0.0
        self.ranks: list[Lived] = []
        for rank in range(world):
            self.ranks.append(self._start(rank))

    def _start(self, rank: int) -> Lived:
        place = self._place_of(rank)
        environment = os.environ | self._variables | {"RANK": str(rank)} | place.variables
        with self.errors_of(rank).open("a") as errors:
            process = subprocess.Popen([*place.prefix, *self._command], env=environment, stdout=subprocess.DEVNULL, stderr=errors)
        return Lived(process, time.monotonic())

    def errors_of(self, rank: int) -> pathlib.Path:
        return self._folder / f"errors{rank}"

    def start_again(self, rank: int) -> None:
        """Of a rank that has ended, which joins the others."""
        lived = self.ranks[rank]
        lived.process.wait()
        self._seconds_of_the_dead += time.monotonic() - lived.since
        self.ranks[rank] = self._start(rank)

    def kill(self, rank: int) -> bool:
        """Whether SIGKILL is what ended it."""
        process = self.ranks[rank].process
        process.kill()
        return process.wait() == -signal.SIGKILL

    def rank_seconds(self) -> float:
        """Seconds that ranks lived so far, together."""
        return self._seconds_of_the_dead + sum(time.monotonic() - lived.since for lived in self.ranks)

    def last_step(self) -> dict:
        """The last line of a step in metrics.jsonl; empty where there is none."""
        try:
            with open(self.out / "metrics.jsonl", "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            return {}
        for line in reversed(lines):
            try:
                fields = json.loads(line)
            except ValueError:  # it is being written, or its begin was not read
                continue
            if isinstance(fields, dict) and "lr" in fields:
                return fields
        return {}

    def steps(self) -> int:
        return self.last_step().get("step", 0)

    def teller(self) -> int | None:
        """The rank that holds the run directory, and writes into it; None for a moment where it changes."""
        try:
            process = json.loads((self.out / ".accrue-lock").read_text())["process"]
        except (OSError, ValueError, KeyError):
            return None
        return next((rank for rank, lived in enumerate(self.ranks) if lived.process.pid == process), None)

    def end(self) -> None:
        for lived in self.ranks:
            lived.process.kill()
            lived.process.wait()
        self._host.kill()
        self._host.wait()
