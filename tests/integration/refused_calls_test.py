"""What accrue says, and does, if the system refuses what it needs: in a container with an old seccomp profile, below a limit of the
address space, and in a working directory that was deleted. refused_calls_test.py ACCRUE. Only the standard library."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "support"), str(TESTS / "faults")]

import refused_calls  # noqa: E402
import skips  # noqa: E402
import tinyrun  # noqa: E402

ACCRUE = ""
STEPS = 3


class RefusedCalls(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.tiny = tinyrun.TinyRun(ACCRUE, self.folder / "run", steps=STEPS)
        self.out = self.folder / "out"

    def train(self, *refused, out=None):
        without = [sys.executable, refused_calls.__file__, ",".join(refused)] if refused else []
        return tinyrun.wait(self.tiny.start(out or self.out, prefix=without))

    def expect_usage(self, ended, *words):
        self.assertEqual(ended.status, 2, ended.errors)
        self.expect_one_line(ended, *words)

    def expect_one_line(self, ended, *words):
        lines = [line for line in ended.errors.splitlines() if "<jemalloc>" not in line]
        self.assertEqual(len(lines), 1, ended.errors)
        self.assertTrue(lines[0].startswith("error: "), lines)
        for word in words:
            self.assertIn(word, lines[0])

    def parameters(self, out):
        return (out / "checkpoints" / f"step-{STEPS:08}" / "model.safetensors").read_bytes()

    def test_threads_that_are_refused_are_named_with_what_refuses_them(self):
        ended = self.train("clone3")
        self.assertEqual(ended.status, 1)
        self.expect_one_line(ended, "threads", "Operation not permitted", "seccomp", "clone3")
        self.assertFalse(self.out.exists())

    def test_files_are_written_where_a_nameless_one_may_not_be_given_a_name(self):
        self.assertEqual(self.train(out=self.folder / "alone").status, 0)
        ended = self.train("linkat")
        self.assertEqual(ended.status, 0, ended.errors)
        self.assertEqual(self.parameters(self.out), self.parameters(self.folder / "alone"))
        self.assertEqual(tinyrun.leftovers(self.out), [])

    def test_a_run_that_cannot_be_locked_goes_on_and_reports_it(self):
        ended = self.train("flock")
        self.assertEqual(ended.status, 0, ended.errors)
        self.assertTrue(any("cannot be locked (Operation not permitted)" in line.get("reason", "") for line in tinyrun.metrics(self.out)),
                        tinyrun.metrics(self.out))

    def test_a_disk_that_refuses_to_flush_is_not_called_full(self):
        ended = self.train("fsync")
        self.expect_usage(ended, "Operation not permitted", "seccomp")
        self.assertNotIn("room", ended.errors)

    def test_a_limit_of_the_address_space_ends_no_process_by_a_signal(self):
        loader, refused = 127, []
        for mebibytes in range(440, 700, 20):
            ended = tinyrun.wait(self.tiny.start(self.folder / f"of{mebibytes}", "--run.threads=1", prefix=["prlimit", f"--as={mebibytes << 20}"]))
            if ended.status == loader:
                continue  # its message is the system's
            self.assertIn(ended.status, (0, 1, 2, 3), f"{mebibytes} MiB: {ended.errors}")
            if "address space" in ended.errors:
                self.expect_usage(ended, f"a limit of {mebibytes} MiB", "ulimit -v unlimited")
                refused.append(mebibytes)
        self.assertTrue(refused)

    def test_a_working_directory_that_is_gone_is_named(self):
        for verb in (["train", str(self.tiny.config), f"--run.out={self.out}"], ["plan", str(self.tiny.config)], ["doctor"], ["runs", str(self.folder)],
                     ["--version"]):
            gone = self.folder / "gone"
            gone.mkdir()
            command = f'cd "{gone}" && rmdir "{gone}" && exec "$@"'
            ended = tinyrun.wait(subprocess.Popen(["sh", "-c", command, "sh", ACCRUE, *verb], stdout=subprocess.DEVNULL,
                                                  stderr=subprocess.PIPE, env=tinyrun.alone()))
            self.expect_usage(ended, "working directory", "deleted", "cd to another folder")
        self.assertFalse(self.out.exists())

    def test_a_working_directory_that_may_not_be_looked_up_is_named(self):
        self.expect_usage(self.train("getcwd"), "working directory", "does not let this process look up")


if __name__ == "__main__":
    ACCRUE = os.path.abspath(sys.argv.pop(1))
    if not refused_calls.can_refuse():
        skips.not_possible_here("the numbers of system calls are not known for this machine")
    unittest.main(verbosity=2)
