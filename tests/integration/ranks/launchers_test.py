"""The real launchers, as docs/guide/launching.md has them: mpirun of Open MPI, and srun of a Slurm in namespaces of its
own. launchers_test.py mpirun|slurm ACCRUE. Only the standard library."""
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(TESTS / "support"), str(TESTS / "faults")]

import launchers  # noqa: E402
import namespaces  # noqa: E402
import skips  # noqa: E402
import slurm  # noqa: E402
import tinyrun  # noqa: E402
from launched import ENDLESS, NO_CHECKPOINTS, Launched  # noqa: E402

RANKS = Launched.RANKS
PYTHON = TESTS.parent / ".venv-test" / "bin" / "python"
NOTE_SECONDS = 10  # within which a rank that waits is to say so


class Mpirun(Launched):
    MPIRUN = ("mpirun", "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "-n", str(RANKS))

    def test_two_runs_on_one_host_at_once(self):
        runs = [self.start(*self.MPIRUN, *self.command(out)) for out in ("a", "b")]
        for run in runs:
            self.expect(tinyrun.wait(run))
        self.expect_the_bits_of_one_process("a", "b")

    def test_two_runs_that_share_a_port_do_not_mix(self):
        port = tinyrun.ReservedPort()
        meeting = {"MASTER_PORT": str(port.number)}
        first = self.start(*self.MPIRUN, *self.command("a", ENDLESS), **meeting)
        launchers.wait_for_steps(self.folder / "a", 1)
        second = tinyrun.wait(self.start(*self.MPIRUN, *self.command("b"), **meeting))
        self.assertNotEqual(second.status, 0)
        self.assertIn("MASTER_PORT", second.errors)
        self.expect_more_steps("a")
        self.assertEqual(self.worlds("a"), {RANKS})
        first.terminate()
        tinyrun.wait(first)

    def test_a_notice_and_the_end_reach_all_ranks(self):
        run = self.start(*self.MPIRUN, "--mca", "odls_base_sigkill_timeout", "60", *self.command("a", ENDLESS, NO_CHECKPOINTS))
        launchers.wait_for_steps(self.folder / "a", 1)
        run.send_signal(signal.SIGUSR2)
        self.wait_for_a_checkpoint("a")
        self.expect_more_steps("a")
        run.terminate()
        ended = tinyrun.wait(run)
        self.assertIn("a checkpoint was written", ended.errors)
        self.expect(self.tiny.run(self.folder / "a", "--resume", "--dry-run"))


class Slurm(Launched):
    VARIABLES: dict[str, str] = {}  # that its commands need

    def environment(self):
        return tinyrun.alone() | {name: self.VARIABLES[name] for name in ("PATH", "SLURM_CONF")}

    def job(self):
        """The number of the only job."""
        found = []
        tinyrun.wait_until(lambda: found or found.extend(self.ask("squeue", "--noheader", "--format=%i").split()), "no job begins")
        return found[0]

    def ask(self, *words):
        return subprocess.run(words, env=self.environment(), check=True, capture_output=True, text=True).stdout

    def test_the_ranks_of_a_step_on_one_node_and_on_two(self):
        self.expect(tinyrun.wait(self.start("srun", "-n", RANKS, *self.command("one"))))
        token = {"ACCRUE_RUN_TOKEN": "of a test of launchers"}
        self.expect(tinyrun.wait(self.start("srun", "-N", 2, "-n", RANKS, *self.command("two"), **token)))
        self.expect_the_bits_of_one_process("one", "two")

    def test_two_steps_of_one_job_at_once(self):
        steps = " & ".join(f"srun --exact -n {RANKS} {' '.join(self.command(out))} || touch {self.folder}/failed" for out in ("a", "b"))
        self.expect(tinyrun.wait(self.start("salloc", "-n", 2 * RANKS, "sh", "-c", f"{steps} & wait; test ! -e {self.folder}/failed")))
        self.expect_the_bits_of_one_process("a", "b")

    def test_one_rank_in_a_terminal_reports_for_whom_it_waits(self):
        ours, its = pty.openpty()
        command = f'test "$SLURM_PROCID" != 0 || exec {" ".join(self.command("a"))}'
        process = subprocess.Popen(["srun", "-n", str(RANKS), "--pty", "sh", "-c", command], stdin=its, stdout=its, stderr=its,
                                   env=self.environment(), start_new_session=True)
        self.processes.append(process)
        os.close(its)
        begin, said = time.monotonic(), ""
        while "waiting for" not in said or not said.endswith("\n"):
            said += os.read(ours, 4096).decode()
        self.assertLess(time.monotonic() - begin, 2 * NOTE_SECONDS, "with the start of the step")
        for words in ("waiting for rank 1", f"SLURM_PROCID=0 and SLURM_STEP_NUM_TASKS={RANKS}", "srun -n 1"):
            self.assertIn(words, said)
        self.ask("scancel", "--signal=KILL", self.job())
        process.wait()
        os.close(ours)

    def test_a_notice_and_the_end_reach_all_ranks(self):
        run = self.start("srun", "-n", RANKS, *self.command("a", ENDLESS, NO_CHECKPOINTS))
        launchers.wait_for_steps(self.folder / "a", 1)
        # As --signal=USR2@120 and the job's time limit do.
        self.ask("scancel", "--signal=USR2", self.job())
        self.wait_for_a_checkpoint("a")
        self.expect_more_steps("a")
        self.ask("scancel", self.job())
        self.assertIn("a checkpoint was written", tinyrun.wait(run).errors)

    def test_a_notice_under_torchrun_needs_an_agent_that_ignores_it(self):
        torchrun = f"{PYTHON} -m torch.distributed.run --no-python --nproc-per-node={RANKS} --standalone"
        for ignores, out in ((True, "a"), (False, "b")):
            command = " ".join(self.command(out, ENDLESS, f"'{NO_CHECKPOINTS}'"))
            trap = "trap '' USR2; " if ignores else ""
            run = self.start("srun", "-n", 1, "sh", "-c", f"{trap}exec {torchrun} {command}")
            launchers.wait_for_steps(self.folder / out, 1)
            self.ask("scancel", "--signal=USR2", self.job())
            if ignores:
                self.wait_for_a_checkpoint(out)
                self.expect_more_steps(out)
                self.ask("scancel", self.job())
                tinyrun.wait(run)
            else:
                self.assertNotEqual(tinyrun.wait(run).status, 0, "the control: the agent dies of it")


def run_slurm(inside):
    if missing := namespaces.missing_programs(slurm.PROGRAMS):
        skips.missing_in_build(f"{' and '.join(missing)} is not installed")
    if not PYTHON.exists():
        skips.missing_in_build(f"{PYTHON} is not there")
    if not inside:
        try:
            namespaces.check()
        except namespaces.Unavailable as reason:
            skips.not_possible_here(f"no namespaces for Slurm: {reason}")
        command = [sys.executable, __file__, "slurm", "--inside", Launched.ACCRUE, *sys.argv[1:]]
        sys.exit(subprocess.run(namespaces.inside(command), env=os.environ | {"PATH": namespaces.PATH}).returncode)
    with tempfile.TemporaryDirectory(prefix="accrue-slurm-") as folder:
        Slurm.VARIABLES = slurm.start(pathlib.Path(folder))
        unittest.main(defaultTest="Slurm" if len(sys.argv) == 1 else None, verbosity=2)


def run_mpirun():
    if shutil.which("mpirun") is None:
        skips.missing_in_build("openmpi-bin is not installed")
    if "Open MPI" not in subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout:
        skips.missing_in_build("mpirun is not Open MPI's: openmpi-bin brings it")
    unittest.main(defaultTest="Mpirun" if len(sys.argv) == 1 else None, verbosity=2)


if __name__ == "__main__":
    launcher = sys.argv.pop(1)
    inside = sys.argv[1] == "--inside" and bool(sys.argv.pop(1))
    Launched.ACCRUE = os.path.abspath(sys.argv.pop(1))
    run_mpirun() if launcher == "mpirun" else run_slurm(inside)
