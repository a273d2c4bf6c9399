"""Ranks of a run as processes of this machine, each on a core that it is told."""
import os
import pathlib
import socket
import subprocess
import sys

from runs import train_command


def on_core(core: int, command: list[str], **options) -> subprocess.Popen:
    return subprocess.Popen(command, preexec_fn=lambda: os.sched_setaffinity(0, {core}), **options)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def train(folder: pathlib.Path, name: str, arguments: list[str], cores: list[int]) -> None:
    """`accrue train` into folder / name with one rank a core; of one core in one process."""
    command = train_command(folder, name, arguments)
    port = free_port()
    ranks = []
    for rank, core in enumerate(cores):
        launcher = {"RANK": str(rank), "WORLD_SIZE": str(len(cores)), "LOCAL_RANK": str(rank),
                    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} if len(cores) > 1 else {}
        ranks.append(on_core(core, command, env=os.environ | launcher, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True))
    errors = [rank.communicate()[1] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit("error: " + "\n".join(errors))


def checkpoint_of(out: pathlib.Path) -> pathlib.Path:
    return max((out / "checkpoints").glob("step-*"))
