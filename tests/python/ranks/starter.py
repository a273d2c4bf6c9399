"""Runs the scripts beside it on ranks that are forked behind the imports of torch and accrue, which take longer than the scripts do.

Reads lines of JSON from standard input, {"script": NAME, "arguments": [...], "world": N, "port": P, "seconds": S}: rank r of N runs the
script, and finds the others through the store at the port, as under torchrun. Ranks that still run after S seconds are killed. For each line it
writes one of JSON, {"ends": [...], "output": "..."}: the exit status of each rank (-9: it was killed), and what all of them wrote.
"""

import json
import os
import pathlib
import signal
import sys
import tempfile

import torch._dynamo  # what an optimizer of torch imports when it is made
import torch.distributed.fsdp
import torch.distributed.tensor.parallel

import accrue  # noqa: F401

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from run_scripts import run_here  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent


def run_rank(rank, asked, output):
    """In the forked process, which ends with the script."""
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    os.environ.update({"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(asked["world"]), "LOCAL_WORLD_SIZE": str(asked["world"]),
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(asked["port"]), "TORCHELASTIC_USE_AGENT_STORE": "True"})
    run_here(str(FOLDER / asked["script"]), asked["arguments"])


def end_of(rank, running):
    """Its exit status. It stays among those to be killed until it has ended."""
    os.waitid(os.P_PID, rank, os.WEXITED | os.WNOWAIT)
    running.remove(rank)
    return os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1])


def run(asked):
    running = []

    def kill_all(*_):
        for rank in running:
            os.kill(rank, signal.SIGKILL)

    with tempfile.TemporaryFile("a+b") as output:
        for rank in range(asked["world"]):
            child = os.fork()
            if child == 0:
                run_rank(rank, asked, output)
            running.append(child)
        signal.signal(signal.SIGALRM, kill_all)
        signal.alarm(asked["seconds"])
        ends = [end_of(rank, running) for rank in tuple(running)]
        signal.alarm(0)
        output.seek(0)
        return {"ends": ends, "output": output.read().decode(errors="replace")}


def main():
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


main()
