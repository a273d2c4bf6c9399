"""Three ranks as each kind of launcher starts them. mpirun and srun are their environments: neither is needed."""
import os
import pathlib
import signal
import subprocess
import time

import tinyrun

KINDS = ("by hand", "mpirun", "srun", "torchrun")
RANKS = 3


def environment(kind: str, rank: int, port: int, world: int = RANKS) -> dict[str, str]:
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    if kind == "mpirun":
        return meeting | {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(world),
                          "OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_SIZE": str(world)}
    if kind == "srun":
        return meeting | {"SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": str(world),
                          "SLURM_LOCALID": str(rank)}
    return meeting | {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank)}


class Ranks:
    """The processes of a run. `processes` are ours to wait for: the ranks, or torchrun's agent."""

    def __init__(self, tiny: tinyrun.TinyRun, out: pathlib.Path, kind: str, words: tuple[str, ...] = ()):
        self._port = tinyrun.ReservedPort()
        port = self._port.number
        self.kind = kind
        if kind == "torchrun":
            # The tests' Python has all that torch imports; of a CUDA wheel .venv has what a program loads, and no more.
            python = pathlib.Path(__file__).resolve().parents[2] / ".venv-test" / "bin" / "python"
            self.processes = [subprocess.Popen(
                [str(python), "-m", "torch.distributed.run", "--no-python", f"--nproc-per-node={RANKS}", f"--master-port={port}",
                 *tiny.command(out, *words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=tinyrun.alone())]
        else:
            self.processes = [tiny.start(out, *words, environment=environment(kind, rank, port))
                              for rank in range(RANKS)]

    def pid(self, rank: int) -> int:
        if self.kind != "torchrun":
            return self.processes[rank].pid
        deadline = time.monotonic() + tinyrun.SECONDS
        while time.monotonic() < deadline:
            for child in children(self.processes[0].pid):
                if f"RANK={rank}".encode() in variables(child):
                    return child
            time.sleep(0.05)
        raise tinyrun.Broken("torchrun started no ranks")

    def survivors(self, victim: int) -> list[subprocess.Popen]:
        if self.kind == "torchrun":
            return self.processes
        return [process for rank, process in enumerate(self.processes) if rank != victim]

    def end_all(self) -> list[tinyrun.Ended]:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
        return [tinyrun.wait(process) for process in self.processes]


def end_all(processes: list[subprocess.Popen]) -> None:
    """Kills those that still run, and waits for them."""
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.communicate()


def children(parent: int) -> list[int]:
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == parent:
                found.append(int(entry.name))
        except (OSError, IndexError):
            continue
    return found


def variables(process: int) -> list[bytes]:
    try:
        return pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def kill(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass


def wait_for_steps(out: pathlib.Path, steps: int) -> None:
    """Until the run has taken so many; broken where it does not get there."""
    deadline = time.monotonic() + tinyrun.SECONDS
    while time.monotonic() < deadline:
        try:
            if sum('"loss"' in line for line in (out / "metrics.jsonl").read_text().splitlines()) >= steps:
                return
        except OSError:
            pass
        time.sleep(0.02)
    raise tinyrun.Broken("the run did not begin")


STOP, KILL = signal.SIGSTOP, signal.SIGKILL
