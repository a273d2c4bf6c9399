"""The allocator, in a process of its own: it stays."""

import pathlib
import subprocess
import sys

SCRIPT = """
import torch, accrue
from museum.parts import batch, loss_fn, model
accrue.install_allocator("64 MiB")
kept = torch.zeros(1_000_000)
assert accrue.memory_usage()["live_bytes"] >= 4_000_000, accrue.memory_usage()
try:
    torch.zeros(100_000_000)
    raise SystemExit("no error beyond the budget")
except torch.OutOfMemoryError:
    pass

def hungry(net, micro):
    extra = torch.zeros(len(micro["labels"]), 2_000_000)   # 8 MB a sample
    loss = loss_fn(net, micro)
    return accrue.Loss(loss.sum + extra.sum() * 0, loss.weight)

net = model()
report = accrue.step(net, torch.optim.SGD(net.parameters(), lr=0.1), batch(), hungry, micro_batch=10)
assert report.retries > 0 and report.stepped and report.micro_batches > 1, report
print("fine")
"""


def test_memory_that_runs_out_is_split_and_the_batch_finished():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPT], capture_output=True, text=True,
                          cwd=pathlib.Path(__file__).parent)
    assert done.returncode == 0 and "fine" in done.stdout, done.stdout + done.stderr
