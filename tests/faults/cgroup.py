#!/usr/bin/env python3
"""Training in a memory cgroup of exactly memory.budget: nothing is killed, and no process is ever resident beyond its
budget, planning trials, evaluations and checkpoints included.

    cgroup.py PROGRAM [--short] [--budgets 320 448 700 1024] [--auto]

Needs a memory controller (version 1 or 2) whose groups this user may make; says so and ends with status 77 where there
is none. Each line: the budget, how the run ended, the most that was resident (wait4) and the most that was charged.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import control_groups  # noqa: E402
import skips  # noqa: E402

MEBI = 1 << 20
CONFIG = """
[run]
steps = 4
eval_every = 2
checkpoint_every = "1 steps"
[model]
layers = {layers}
heads = 4
width = {width}
context = 128
[data]
train = ["{text}"]
val_fraction = 0.01
[batch]
tokens = 8192
[optim]
lr = 1e-3
[observe]
progress = "lines"
"""


class Group(control_groups.Group):
    """A cgroup of exactly so many bytes; swap is not used beyond them."""

    def __init__(self, limit: int):
        unified = control_groups.is_unified("memory")
        super().__init__("memory", [{"memory.max" if unified else "memory.limit_in_bytes": str(limit)}])
        self._peak = "memory.peak" if unified else "memory.max_usage_in_bytes"
        swap = self.folder / "memory.swap.max"
        try:
            if unified and swap.exists():
                swap.write_text("0")
        except OSError:
            self.__exit__()
            raise

    def charged(self) -> int:
        return int((self.folder / self._peak).read_text())


def train(program: str, folder: pathlib.Path, limit: int, budget: str, shape: dict) -> tuple[int, int, int, str]:
    """Status, most resident and most charged bytes, and what the run said."""
    text = folder / "text.txt"
    text.write_text("".join(f"line {i * 7919 % 1000} of a text\n" for i in range(40_000)))
    (folder / "run.toml").write_text(CONFIG.format(text=text, **shape))
    with Group(limit) as group:
        with open(folder / "said", "w") as said:
            process = subprocess.Popen([program, "train", str(folder / "run.toml"), f"--run.out={folder / 'out'}",
                                        f"--memory.budget={budget}"], stdout=said, stderr=said, preexec_fn=group.enter,
                                       env=os.environ | {"OMP_WAIT_POLICY": "passive"})
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, usage.ru_maxrss * 1024, group.charged(), (folder / "said").read_text()


def holds(program: str, limit: int, budget: str, shape: dict) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        status, resident, charged, said = train(program, pathlib.Path(folder), limit, budget, shape)
    fits = budget == "auto" or resident <= limit
    print(f"cgroup of {limit // MEBI} MiB, budget {budget}, {shape}: status {status}, {resident / MEBI:.0f} MiB resident, "
          f"{charged / MEBI:.0f} MiB charged", flush=True)
    if status != 0 or not fits:
        print(said[-2000:], flush=True)
    return status == 0 and fits


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--budgets", type=int, nargs="*", default=[320, 400, 512, 700, 1024, 2048], help="MiB")
    options = parser.parse_args()
    try:
        with Group(512 * MEBI):
            pass
    except OSError as error:
        skips.not_possible_here(f"no memory cgroup can be made here ({error})")
    small, large = dict(layers=4, width=128), dict(layers=6, width=384)
    budgets = [400] if options.short else options.budgets
    cases = [(size, f"{size}MiB", small) for size in budgets] + [(budgets[0], "auto", small)]
    if not options.short:
        cases += [(size, f"{size}MiB", large) for size in budgets if size >= 700]
        cases += [(size, "auto", small) for size in budgets[1:]]
    failed = [case for case in cases if not holds(options.program, case[0] * MEBI, case[1], case[2])]
    print(f"{len(cases) - len(failed)} of {len(cases)} stayed within their budgets")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
