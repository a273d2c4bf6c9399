"""How ranks end: together, and without the interpreter's own end, where a thread of torch's process group that still runs would abort."""

import os
import sys

import torch.distributed as distributed


def leave() -> None:
    distributed.barrier()
    distributed.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)
