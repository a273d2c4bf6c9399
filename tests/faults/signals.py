"""Storms of signals: the run ends with status 130, or had ended, and goes on to the same bits."""
import pathlib
import random
import signal
import subprocess
import time

import launchers
import tinyrun
from tinyrun import Campaign, Options, expect

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def wait_until_caught(process: subprocess.Popen) -> None:
    """Before main() runs a signal meets the system's own answer."""
    wanted = sum(1 << number - 1 for number in STOPPING)
    while process.poll() is None:
        if int(tinyrun.status_of(process.pid)["SigCgt"], 16) & wanted == wanted:
            return
        time.sleep(0.005)


def storms(options: Options) -> int:
    campaign = Campaign("storms of signals")
    with tinyrun.scratch() as folder:
        tiny = tinyrun.TinyRun(options.program, pathlib.Path(folder))
        wanted, duration = tiny.undisturbed(tiny.out("reference"))

        def storm(process: subprocess.Popen, draw: random.Random) -> tinyrun.Ended:
            wait_until_caught(process)
            time.sleep(draw.uniform(0, duration))
            while process.poll() is None:
                launchers.kill(process.pid, draw.choice(STOPPING))
                campaign.note("signals")
                time.sleep(draw.uniform(0, 0.03))
            return tinyrun.wait(process)

        def trial(draw: random.Random, number: int) -> None:
            out = tiny.out(f"trial{number}")
            ended = storm(tiny.start(out), draw)
            expect(ended.status in (0, tinyrun.INTERRUPTED), f"status {ended.status}: {ended.errors}")
            campaign.note("storms that met a run", ended.status == tinyrun.INTERRUPTED)
            if tinyrun.checkpoints(out):
                expect(tiny.verify(out).status == 0, "a checkpoint is not whole")
            again = tiny.finish(out)
            expect(again.status == 0, f"afterwards: status {again.status}: {again.errors}")
            tinyrun.expect_same(out, wanted)

        campaign.trials(options.count, options.seed, options.jobs, trial)
        campaign.control(campaign.counts.get("storms that met a run", 0) > 0, "no storm met a run")
    return campaign.end()
