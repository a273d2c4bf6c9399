"""Run folders of Python runs, as the command writes them: `accrue report`, `accrue compare` and TensorBoard read both."""

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
    """{"optim": {"lr": 0.1}} -> {"optim.lr": 0.1}: what TensorBoard's table of hyper-parameters takes."""
    flat: dict[str, bool | float | str] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value if isinstance(value, (bool, str)) else float(value) if isinstance(value, (int, float)) else str(value)
    return flat


class RunLog:
    """A run folder: metrics.jsonl (a line for each optimizer step), tb/ (TensorBoard, with the command's tags) and run.json.

        with accrue.RunLog("runs/first", config={"optim": {"lr": 3e-4}}) as log:
            ...
            log.step(acc.step(optimizer), optimizer)
        # accrue report runs/first

    config        what the run was made with, for the report's table and TensorBoard's
    total_steps   how many it is to take
    resume        goes on in a folder that has a run, behind step `first_step`; lines of later steps are removed

    Raises UsageError where the folder holds a run already and `resume` is not set. What cannot be written later (a full disk) is
    warned of once, and training goes on.
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
        """One optimizer step; of `optimizer` the first group's learning rate. A step that was not taken is an event. An Accumulator
        counts its own steps: in a run that goes on, they come behind `first_step`. Of several ranks one is to write.

        samples, tokens   how many were seen so far, where the report does not count them: the speed is told in tokens where they are
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
        """The mean loss over `weight` terms of validation data, behind optimizer step `step`."""
        check_options("RunLog.evaluation", {"step": step, "loss": loss, "weight": weight}, step=int, loss=float, weight=float)
        self._native.evaluation(step, float(loss), float(weight))

    def event(self, name: str, reason: str, step: int | None = None) -> None:
        """What happens besides, with its reason; as `on_event` of an Accumulator: `on_event=lambda e: log.event(e.name, e.reason)`."""
        at = self._last_step if step is None else step
        check_options("RunLog.event", {"name": name, "reason": reason, "step": at}, name=str, reason=str, step=int)
        self._native.event(name, reason, at)

    def close(self, failed: bool = False) -> None:
        """Ends the run."""
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
        """Whole or not at all."""
        new = self.folder / "run.json.new"
        try:
            new.write_text(json.dumps(self._facts, indent=2, sort_keys=True, default=str) + "\n")
            new.replace(self.folder / "run.json")
        except OSError as error:
            warnings.warn(f"run.json of {self.folder} was not written: {error}", stacklevel=2)
