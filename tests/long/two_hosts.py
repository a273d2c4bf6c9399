"""Runs on two hosts by each launcher, as docs/guide/launching.md has them: by hand, by torchrun, by mpirun with an agent in place of
ssh, by srun of a Slurm with a node on each. The hosts are namespaces of this machine (tests/support/namespaces.py), with an address and
a name each, joined by a cable. The launchers are the real programs.

two_hosts.py ACCRUE FAULT_POINTS PYTHON [TEST...]: PYTHON has torchrun. Only the standard library.
"""
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "support"), str(TESTS / "faults"), str(TESTS / "integration" / "ranks")]

import launchers  # noqa: E402
import namespaces  # noqa: E402
import skips  # noqa: E402
import slurm  # noqa: E402
import tinyrun  # noqa: E402
from launched import ENDLESS, NO_CHECKPOINTS, Launched  # noqa: E402

PROGRAMS = slurm.PROGRAMS | {"mpirun": "openmpi-bin"}
PER_HOST = 2
PORT = 29500  # the namespaces have no other programs
TOKEN = {"ACCRUE_RUN_TOKEN": "of a test of two hosts"}
KILLED_AFTER = 10  # seconds, for which mpirun waits once a rank has ended, before it ends the others
SECONDS = 300  # after which a process is taken not to come to a point
LIMIT = 1800  # seconds of all tests, after which the namespaces and all in them are ended
# Rank 0 alone meets the test at a point: the arguments are the library of fault points, the fault, the folder, and the command.
AT_RANK_0 = ('case "${RANK:-${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID}}" in 0) export LD_PRELOAD="$1" ACCRUE_FAULT="$2" ACCRUE_FAULT_FOLDER="$3";; esac; '
             'shift 3; exec "$@"')
# What mpirun runs in place of ssh: the other host gets none of this one's variables, as by ssh.
AGENT = """#!/bin/sh
host=$1
shift
case "$host" in
{hosts}
esac
"""
OF_A_HOST = '{name}) exec env -i PATH="$PATH" OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive {enter} sh -c "$*";;'


class TwoHosts(Launched):
    RANKS = 2 * PER_HOST
    FAULT_POINTS = ""
    PYTHON = ""
    FIRST: namespaces.Host
    SECOND: namespaces.Host

    def start_on(self, host, *words, **more):
        return self.start(*host.enter([str(word) for word in words]), **more)

    def by_hand(self, rank, *command, host=None, run="one", port=PORT, **more):
        variables = {"RANK": str(rank), "WORLD_SIZE": str(self.RANKS), "LOCAL_RANK": str(rank % PER_HOST), "MASTER_ADDR": "first",
                     "MASTER_PORT": str(port), "ACCRUE_RUN_ID": run}
        return self.start_on(host or (self.FIRST, self.SECOND)[rank // PER_HOST], *command,
                             **{name: value for name, value in (variables | TOKEN | more).items() if value is not None})

    def met_at_rank_0(self, out):
        """The command of a run that waits in its second step, and how to meet it there."""
        pause = tinyrun.Pause(self.folder, out)
        fault = f"at=micro-batch step=2 do=pause:{out}"
        return ["sh", "-c", AT_RANK_0, "sh", self.FAULT_POINTS, fault, str(self.folder), *self.command(out)], pause

    def expect_lives(self, processes):
        for process in processes:
            if process.poll() is not None:
                self.fail(f"it has ended: {tinyrun.wait(process)}")

    def wait_for_a_step(self, run, out):
        def is_taken():
            self.expect_lives(run)
            metrics = self.folder / out / "metrics.jsonl"
            return metrics.exists() and '"loss"' in metrics.read_text()
        tinyrun.wait_until(is_taken, "the run took no step")

    def end_of(self, processes):
        """What all of them wrote, once they have ended."""
        return "".join(tinyrun.wait(process).errors for process in processes)


class ByEachLauncher:
    """What holds for all of them. They say how to launch a run of a number, with a port if one is named; a list of processes."""

    def test_two_runs_at_once_have_the_bits_of_one_process_each(self):
        held = [self.met_at_rank_0(out) for out in ("a", "b")]
        runs = [self.launch(number, command) for number, (command, _) in enumerate(held)]
        for run, (_, pause) in zip(runs, held):
            pause.wait(*run, seconds=SECONDS)
        for _, pause in held:
            pause.release()
        for process in sum(runs, []):
            self.expect(tinyrun.wait(process))
        self.expect_the_bits_of_one_process("a", "b")

    def test_a_notice_and_the_end_reach_all_ranks(self):
        run = self.launch(0, self.command("a", ENDLESS, NO_CHECKPOINTS))
        self.wait_for_a_step(run, "a")
        self.notice(run)
        self.wait_for_a_checkpoint("a")
        self.expect_more_steps("a")
        self.expect_lives(run)
        self.end(run)
        self.assertIn("a checkpoint was written", self.end_of(run))
        self.assertEqual(self.worlds("a"), {self.RANKS})
        self.expect(self.tiny.run(self.folder / "a", "--resume", "--dry-run"))

    def test_strangers_are_refused_and_the_run_goes_on(self):
        run = self.launch(0, self.command("a", ENDLESS), port=PORT + 7)
        self.wait_for_a_step(run, "a")
        port = self.port_of(run) or PORT + 7
        name = self.expect_another_run_is_refused(port)
        # With the name of the run, which is no secret, and another token, or none.
        foreign = self.stray(run=name, port=port, ACCRUE_RUN_TOKEN="of somebody else's run")
        self.assertNotEqual(foreign.status, 0)
        self.assertIn("token", foreign.errors)
        without = self.stray(run=name, port=port, ACCRUE_RUN_TOKEN=None)
        self.expect(without, 2)
        self.assertIn("ACCRUE_RUN_TOKEN", without.errors)
        self.expect_more_steps("a")
        self.assertEqual(self.worlds("a"), {self.RANKS})
        self.assertFalse((self.folder / "stray").exists())
        self.end(run)
        self.end_of(run)

    def stray(self, **how):
        return tinyrun.wait(self.by_hand(self.RANKS - 1, *self.command("stray", "--dist.timeout=3 s"), **how))

    def expect_another_run_is_refused(self, port):
        """Returns the name of the run that is there."""
        refused = self.stray(run="another", port=port)
        self.expect(refused, 2)
        self.assertIn("another MASTER_PORT", refused.errors)
        return re.search("ACCRUE_RUN_ID='([^']+)'", refused.errors)[1]

    def port_of(self, run):
        """At which its ranks meet, if its launcher chose it."""
        return 0


class ByHand(ByEachLauncher, TwoHosts):
    def launch(self, number, command, port=0):
        return [self.by_hand(rank, *command, run=f"run{number}", port=port or PORT + number) for rank in range(self.RANKS)]

    def notice(self, run):
        run[-1].send_signal(signal.SIGUSR2)

    def end(self, run):
        run[-1].terminate()

    def test_a_stray_rank_does_not_take_the_place_of_one_that_has_not_come(self):
        ranks = [self.by_hand(rank, *self.command("a")) for rank in range(self.RANKS - 1)]
        stray = tinyrun.wait(self.by_hand(self.RANKS - 1, *self.command("stray"), run="another"))
        self.expect(stray, 2)
        for process in [*ranks, self.by_hand(self.RANKS - 1, *self.command("a"))]:
            self.expect(tinyrun.wait(process))
        self.expect_the_bits_of_one_process("a")

    def test_the_comparison_sees_other_parameters(self):
        for process in self.launch(0, self.command("a", "--run.seed=7")):
            self.expect(tinyrun.wait(process))
        with self.assertRaises(AssertionError):
            self.expect_the_bits_of_one_process("a")

    def test_the_hosts_are_two(self):
        """A rank on the second one cannot host the store at the first one's address."""
        ended = tinyrun.wait(self.by_hand(0, *self.command("a"), host=self.SECOND))
        self.expect(ended, 2)
        self.assertIn("MASTER_ADDR", ended.errors)


class Torchrun(ByEachLauncher, TwoHosts):
    def agent(self, number):
        return [self.PYTHON, "-m", "torch.distributed.run", "--no-python", "--nnodes=2", f"--nproc-per-node={PER_HOST}", "--rdzv-backend=c10d",
                f"--rdzv-endpoint=first:{29400 + number}", f"--rdzv-id=run{number}"]

    def launch(self, number, command, port=0):
        return [self.start_on(host, *self.agent(number), *command, **TOKEN) for host in (self.FIRST, self.SECOND)]

    def ranks(self, agent):
        return [child for child in launchers.children(agent.pid) if any(text.startswith(b"RANK=") for text in launchers.variables(child))]

    def port_of(self, run):
        texts = launchers.variables(self.ranks(run[0])[0])
        return next(int(text.split(b"=")[1]) for text in texts if text.startswith(b"MASTER_PORT="))

    def stray(self, **how):
        """The store is that of torchrun's agent, which serves any run."""
        return super().stray(TORCHELASTIC_USE_AGENT_STORE="True", **how)

    def expect_another_run_is_refused(self, port):
        """It does not meet this run, and waits for its own ranks."""
        other = self.stray(run="another", port=port)
        self.expect(other, 1)
        self.assertIn("nothing from rank 0", other.errors)
        return "torchrun-run0"

    def notice(self, run):
        os.kill(self.ranks(run[-1])[0], signal.SIGUSR2)

    def end(self, run):
        run[-1].terminate()


class Mpirun(ByEachLauncher, TwoHosts):
    def setUp(self):
        super().setUp()
        self.agent = self.folder / "agent"
        lines = [OF_A_HOST.format(name=host.name, enter=shlex.join(host.enter([]))) for host in (self.FIRST, self.SECOND)]
        self.agent.write_text(AGENT.format(hosts="\n".join(lines)))
        self.agent.chmod(0o700)

    def mpirun(self, *words, **more):
        return self.start_on(self.FIRST, "mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", self.agent,
                             "-H", f"first:{PER_HOST},second:{PER_HOST}", *words, **(TOKEN | more))

    def launch(self, number, command, port=0):
        of_port = ["-x", f"MASTER_PORT={port}"] if port else []
        of_signals = ["--mca", "ess_base_forward_signals", "SIGXCPU", "--mca", "odls_base_sigkill_timeout", KILLED_AFTER]
        return [self.mpirun(*of_signals, "-x", "ACCRUE_RUN_TOKEN", "-x", "MASTER_ADDR=first", *of_port, *command)]

    def notice(self, run):
        run[0].send_signal(signal.SIGUSR2)

    def end(self, run):
        run[0].send_signal(signal.SIGXCPU)

    def test_it_needs_an_address(self):
        ended = tinyrun.wait(self.mpirun("-x", "ACCRUE_RUN_TOKEN", *self.command("a")))
        self.expect(ended, 2)
        self.assertIn("mpirun -x MASTER_ADDR", ended.errors)

    def test_it_needs_the_token_on_the_other_host(self):
        ended = tinyrun.wait(self.mpirun("-x", "MASTER_ADDR=first", *self.command("a")))
        self.expect(ended, 2)
        self.assertIn("ACCRUE_RUN_TOKEN", ended.errors)
        self.assertFalse((self.folder / "a").exists())


class Srun(ByEachLauncher, TwoHosts):
    VARIABLES: dict[str, str] = {}  # that Slurm's commands need
    STEP = ("-N", "2", "-n", str(TwoHosts.RANKS), f"--ntasks-per-node={PER_HOST}")

    def environment(self):
        return tinyrun.alone() | {name: self.VARIABLES[name] for name in ("PATH", "SLURM_CONF")}

    def ask(self, *words):
        return subprocess.run(self.FIRST.enter([*words]), env=self.environment(), check=True, capture_output=True, text=True).stdout

    def job(self):
        """The number of the only job."""
        found = []
        tinyrun.wait_until(lambda: found or found.extend(self.ask("squeue", "--noheader", "--states=running", "--format=%i").split()), "no job begins")
        return found[0]

    def srun(self, *words, **more):
        return self.start_on(self.FIRST, "srun", *self.STEP, *words, **(TOKEN | more))

    def launch(self, number, command, port=0):
        return [self.srun(*command, **({"MASTER_PORT": str(port)} if port else {}))]

    def notice(self, run):
        self.ask("scancel", "--signal=USR2", self.job())

    def end(self, run):
        self.ask("scancel", self.job())

    def test_two_steps_of_one_job_at_once(self):
        held = [self.met_at_rank_0(out) for out in ("a", "b")]
        steps = " & ".join(f"srun --exact {' '.join(self.STEP)} {shlex.join(command)} || touch {self.folder}/failed" for command, _ in held)
        job = self.start_on(self.FIRST, "salloc", "-N", 2, f"--ntasks-per-node={2 * PER_HOST}", "sh", "-c",
                            f"{steps} & wait; test ! -e {self.folder}/failed", **TOKEN)
        for _, pause in held:
            pause.wait(lambda: self.expect_lives([job]))
        for _, pause in held:
            pause.release()
        self.expect(tinyrun.wait(job))
        self.expect_the_bits_of_one_process("a", "b")

    def test_the_time_limit_is_announced_and_ends_the_run(self):
        """Slurm looks at limits twice a minute."""
        job = self.srun("--time=1", "--signal=USR2@50", *self.command("a", ENDLESS, NO_CHECKPOINTS))
        self.wait_for_a_checkpoint("a")
        self.expect_more_steps("a")
        self.expect_lives([job])
        self.assertIn("a checkpoint was written", tinyrun.wait(job).errors)

    def test_torchrun_in_a_step_on_each_node_ignores_the_notice(self):
        agent = [self.PYTHON, "-m", "torch.distributed.run", "--no-python", "--nnodes=2", f"--nproc-per-node={PER_HOST}", "--rdzv-backend=c10d",
                 "--rdzv-endpoint=first:29400", "--rdzv-id=run"]
        command = shlex.join([*agent, *self.command("a", ENDLESS, NO_CHECKPOINTS)])
        job = self.start_on(self.FIRST, "srun", "-N", 2, "--ntasks-per-node=1", "sh", "-c", f"trap '' USR2; exec {command}", **TOKEN)
        self.wait_for_a_step([job], "a")
        self.ask("scancel", "--signal=USR2", self.job())
        self.wait_for_a_checkpoint("a")
        self.expect_more_steps("a")
        self.expect_lives([job])
        self.ask("scancel", self.job())
        self.assertIn("a checkpoint was written", tinyrun.wait(job).errors)


def run_outside():
    if missing := namespaces.missing_programs(PROGRAMS):
        skips.missing_in_build(f"{' and '.join(missing)} is not installed")
    for file in sys.argv[1:4]:
        if not pathlib.Path(file).exists():
            skips.missing_in_build(f"{file} is not there")
    try:
        namespaces.check()
    except namespaces.Unavailable as reason:
        skips.not_possible_here(f"no namespaces for two hosts: {reason}")
    programs = [os.path.abspath(file) for file in sys.argv[1:4]]
    command = [sys.executable, __file__, "--inside", *programs, *sys.argv[4:]]
    sys.exit(subprocess.run(namespaces.inside(command), env=os.environ | {"PATH": namespaces.PATH}, timeout=LIMIT).returncode)


def run_inside():
    TwoHosts.ACCRUE, TwoHosts.FAULT_POINTS, TwoHosts.PYTHON = (sys.argv.pop(1) for _ in range(3))
    with tempfile.TemporaryDirectory(prefix="accrue-hosts-") as folder:
        TwoHosts.FIRST, TwoHosts.SECOND = hosts = namespaces.two_hosts(pathlib.Path(folder))
        Srun.VARIABLES = slurm.start_on(hosts, pathlib.Path(folder))
        unittest.main(verbosity=2)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        del sys.argv[1]
        run_inside()
    run_outside()
