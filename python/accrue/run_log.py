"""Run folders of Python runs, in the format of the command: `accrue report`, `accrue compare` and TensorBoard read both."""

import datetime
import json
import os
import pathlib
import platform
import sys
import warnings
from typing import Any

import torch

from accrue import _native
from accrue._build import VERSION
from accrue.errors import UsageError
from accrue.options import check_options


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, bool | float | str]:
    """{"optim": {"lr": 0.1}} -> {"optim.lr": 0.1}, as TensorBoard's table of hyper-parameters needs it."""
    flat: dict[str, bool | float | str] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value if isinstance(value, (bool, str)) else float(value) if isinstance(value, (int, float)) else str(value)
    return flat


class RunLog:
    """A run folder: metrics.jsonl (one line per optimizer step), tb/ (TensorBoard, with the command's tags) and run.json.

        with accrue.RunLog("runs/first", config={"optim": {"lr": 3e-4}}) as log:
            ...
            log.step(acc.step(optimizer), optimizer)
        # accrue report runs/first

    If a file cannot be written during the run (a full disk), a warning is given once, and training continues.

    Args:
        folder: where the run is written. It is created if it does not exist.
        config: the settings of the run, for the tables of the report and of TensorBoard.
        total_steps: the number of optimizer steps that the run will take.
        resume: continues a run in its folder after step `first_step`. Lines of later steps are removed.
        first_step: the number of steps taken before.
        tensorboard: False: no tb/ is written.

    Raises:
        UsageError: the folder has a run already, and `resume` is not set.
    """

    def __init__(self, folder: str | os.PathLike, *, config: dict[str, Any] | None = None, total_steps: int | None = None,
                 resume: bool = False, first_step: int = 0, tensorboard: bool = True):
        self.folder = pathlib.Path(folder)
        if not resume and (self.folder / "metrics.jsonl").exists():
            raise UsageError("RunLog", "a folder without a run", str(self.folder), "another folder, or resume=True with first_step")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._last_step = self._first_step = first_step
        self._facts = self._read() if resume else {}
        self._facts |= {"command": [sys.executable, *sys.argv], "started": _now(), "working_directory": os.getcwd(), "config": config or {},
                        "versions": {"accrue": VERSION, "libtorch": torch.__version__, "python": platform.python_version()},
                        "machine": {"host": platform.node(), "processor": platform.processor() or platform.machine(),
                                    "threads": torch.get_num_threads()},
                        "ranks": 1}
        self._facts.pop("ended", None)
        if total_steps is not None:
            self._facts["total_steps"] = total_steps
        self._write()
        self._native = _native.RunLog(str(self.folder), first_step, tensorboard, _flat(config or {}))

    def step(self, report: _native.StepReport, optimizer: torch.optim.Optimizer | None = None, *, samples: int | None = None,
             tokens: int | None = None) -> None:
        """Writes one optimizer step. A step that was not taken becomes an event "no_step".

        Because an Accumulator counts its own steps from 1, a resumed run adds `first_step`. With several ranks, only one of them should write.

        Args:
            report: the StepReport.
            optimizer: for the learning rate, which is that of its first parameter group.
            samples, tokens: how many were seen so far, if the report does not count them. With `tokens`, throughput is in tokens.

        Raises:
            UsageError: `report` is no StepReport.
        """
        if not isinstance(report, _native.StepReport):
            raise UsageError("RunLog.step", "the report of a step", f"a value of type {type(report).__name__}", "log.step(acc.step(optimizer))")
        if not report.stepped:
            return self.event("no_step", "the window weighed nothing, or was dropped")
        self._last_step = self._first_step + report.step
        if tokens is not None and self._facts.get("unit") != "tokens":
            self._facts["unit"] = "tokens"
            self._write()
        self._native.step(report, float(optimizer.param_groups[0]["lr"]) if optimizer is not None else None, samples, tokens)

    def evaluation(self, step: int, loss: float, weight: float = 0.0) -> None:
        """Writes an evaluation.

        Args:
            step: the optimizer step after which the evaluation ran.
            loss: the mean loss on validation data.
            weight: the number of loss terms.

        Raises:
            UsageError: an argument has the wrong type.
        """
        check_options("RunLog.evaluation", {"step": step, "loss": loss, "weight": weight}, step=int, loss=float, weight=float)
        self._native.evaluation(step, float(loss), float(weight))

    def event(self, name: str, reason: str, step: int | None = None) -> None:
        """Writes an event with its reason. For `on_event` of an Accumulator: `on_event=lambda e: log.event(e.name, e.reason)`.

        Args:
            name: a word such as "quarantined".
            reason: a sentence.
            step: the optimizer step. None: the last step that was written.

        Raises:
            UsageError: an argument has the wrong type.
        """
        at = self._last_step if step is None else step
        check_options("RunLog.event", {"name": name, "reason": reason, "step": at}, name=str, reason=str, step=int)
        self._native.event(name, reason, at)

    def close(self, failed: bool = False) -> None:
        """Ends the run, as "failed" if `failed`, otherwise as "done". The end of a `with` statement calls it."""
        self._native.end(self._last_step, failed)
        self._facts["ended"] = {"state": "failed" if failed else "done", "step": self._last_step, "time": _now()}
        self._write()

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(self, kind, error, trace) -> None:
        self.close(failed=kind is not None)

    def _read(self) -> dict[str, Any]:
        path = self.folder / "run.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def _write(self) -> None:
        """Writes run.json atomically."""
        new = self.folder / "run.json.new"
        try:
            new.write_text(json.dumps(self._facts, indent=2, sort_keys=True, default=str) + "\n")
            new.replace(self.folder / "run.json")
        except OSError as error:
            warnings.warn(f"run.json of {self.folder} was not written: {error}", stacklevel=2)
