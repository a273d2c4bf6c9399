"""Runs scripts on ranks that are forked behind the imports of torch and accrue, which take longer than the scripts do.

Reads lines of JSON from standard input, {"scripts": FOLDER, "script": NAME, "arguments": [...], "world": N, "port": P}: rank r of N runs the
script, and finds the others through the store at the port, as under torchrun. For each line it writes one of JSON, {"ends": [...], "output": "..."}:
the exit status of each rank, and what all of them wrote. A rank ends with the script, and when the last of them has ended the next line is read.
"""

import json
import os
import pathlib
import runpy
import sys
import tempfile
import traceback

import torch._dynamo  # what an optimizer of torch imports when it is made
import torch.distributed.fsdp
import torch.distributed.tensor.parallel

import accrue  # noqa: F401


def run_rank(rank, asked, output):
    """In the forked process, which ends here."""
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    os.environ.update({"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(asked["world"]), "LOCAL_WORLD_SIZE": str(asked["world"]),
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(asked["port"]), "TORCHELASTIC_USE_AGENT_STORE": "True"})
    script = pathlib.Path(asked["scripts"]) / asked["script"]
    sys.argv = [str(script), *asked["arguments"]]
    sys.path.insert(0, str(script.parent))
    status = 0
    try:
        runpy.run_path(str(script), run_name="__main__")
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def run(asked):
    with tempfile.TemporaryFile("a+b") as output:
        ranks = []
        for rank in range(asked["world"]):
            child = os.fork()
            if child == 0:
                run_rank(rank, asked, output)
            ranks.append(child)
        ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in ranks]
        output.seek(0)
        return {"ends": ends, "output": output.read().decode(errors="replace")}


def main():
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


main()
