"""How processes find those that they were started with, and what they report if there are none, or others. meeting_test.py ACCRUE.
Only the standard library."""
import os
import pathlib
import socket
import sys
import tempfile
import threading
import time
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(TESTS / "support"), str(TESTS / "faults")]

import launchers  # noqa: E402
import started_once  # noqa: E402
import tinyrun  # noqa: E402
from reserved_port import ReservedPort  # noqa: E402

ACCRUE = ""
STEPS = 3
NOTE_SECONDS = 10  # within which a rank that waits is to say so
MADE_OF = {"by hand": ("RANK", "WORLD_SIZE"), "srun": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
           "mpirun": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")}


class Meeting(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.tiny = tinyrun.TinyRun(ACCRUE, self.folder / "run", steps=STEPS, timeout=60)
        self.port = ReservedPort()
        self.processes = []
        self.addCleanup(launchers.end_all, self.processes)

    def start(self, rank, out, *words, launcher="by hand", world=2, **more):
        of_rank, of_world = MADE_OF[launcher]
        environment = {of_rank: str(rank), of_world: str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port.number)}
        if launcher == "srun":
            environment |= {"SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7"}
        environment = {name: value for name, value in (environment | more).items() if value is not None}
        process = started_once.start(self.tiny.command(self.folder / out, *words), tinyrun.alone() | environment)
        self.processes.append(process)
        return process

    def first_line(self, process):
        """What it first writes to the standard error, and after how long; it may go on."""
        begin = time.monotonic()
        line = process.stderr.readline().decode()
        return line, time.monotonic() - begin

    def expect(self, ended, status, *words):
        self.assertEqual(ended.status, status, ended.errors)
        for word in words:
            self.assertIn(word, ended.errors)

    def test_a_malformed_address_is_named_before_the_token(self):
        for address, meant in (("", "the name or the address"), (" 127.0.0.1 ", "MASTER_ADDR=127.0.0.1"), ("[::1]", "MASTER_ADDR=::1"),
                               ("127.0.0.1:29511", "MASTER_ADDR=127.0.0.1 and MASTER_PORT=29511"), ("tcp://node", "MASTER_ADDR=node"),
                               ("one,two", "the name or the address"), ("no-such-host.invalid", "MASTER_ADDR to be the name or an address")):
            with self.subTest(address=address):
                ended = tinyrun.wait(self.start(0, "out", MASTER_ADDR=address))
                self.expect(ended, 2, "MASTER_ADDR", f"'{address}'", meant)
                self.assertNotIn("token", ended.errors.lower())
                self.assertFalse((self.folder / "out").exists())

    def test_an_address_of_ipv6_has_no_brackets(self):
        if not has_ipv6():
            self.skipTest("this machine has no IPv6")
        ranks = [self.start(rank, "out", MASTER_ADDR="::1") for rank in (0, 1)]
        for rank in ranks:
            self.expect(tinyrun.wait(rank), 0)

    def test_a_rank_that_waits_reports_for_whom_and_why_within_ten_seconds(self):
        for launcher, alone in (("srun", "srun -n 1"), ("mpirun", "env -u OMPI_COMM_WORLD_RANK"), ("by hand", "env -u RANK")):
            of_rank, of_world = MADE_OF[launcher]
            for rank, whom in ((0, "rank 1"), (1, "rank 0")):
                with self.subTest(launcher=launcher, rank=rank):
                    process = self.start(rank, "out", launcher=launcher)
                    line, seconds = self.first_line(process)
                    self.assertLess(seconds, NOTE_SECONDS)
                    for word in (f"waiting for {whom}", f"{of_rank}={rank} and {of_world}=2", f"127.0.0.1:{self.port.number}", alone):
                        self.assertIn(word, line)
                    self.assertIsNone(process.poll(), "it goes on waiting")
                    launchers.end_all(self.processes)

    def test_of_those_that_wait_the_first_reports_it(self):
        first, second = self.start(0, "out", world=3), self.start(1, "out", world=3)
        self.assertIn("waiting for rank 2:", self.first_line(first)[0])
        third = self.start(2, "out", world=3)
        for process in (first, second, third):
            ended = tinyrun.wait(process)
            self.expect(ended, 0)
            self.assertNotIn("waiting for", ended.errors)

    def test_no_note_where_all_come(self):
        for process in [self.start(rank, "out") for rank in (0, 1)]:
            ended = tinyrun.wait(process)
            self.expect(ended, 0)
            # Nothing but what took longer than a second: "reading the data  1.2s".
            self.assertRegex(ended.errors, r"\A(?:[^\n]+  \d[^\n]*s\n)*\Z")

    def test_a_store_that_nobody_hosts_takes_one_line_and_no_stack(self):
        ended = tinyrun.wait(self.start(1, "out", "--dist.timeout=3 s"))
        self.expect(ended, 1, "waiting for rank 0", "error: connect to the other ranks", "Connection refused")
        self.assertNotIn("frame #", ended.errors)
        self.assertNotIn("c10d", ended.errors)
        self.assertEqual(len(ended.errors.splitlines()), 2, ended.errors)

    def test_ranks_that_do_not_come_are_named_with_the_variables(self):
        ended = tinyrun.wait(self.start(0, "out", "--dist.timeout=3 s"))
        self.expect(ended, 1, "nothing from rank 1", "RANK=0 and WORLD_SIZE=2")

    def test_what_listens_there_and_is_no_store_is_reported_as_that(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            def greet():
                connection, _ = server.accept()
                with connection:
                    connection.sendall(b"SSH-2.0-of a test\r\n")
                    while connection.recv(4096):  # closed with bytes unread it would be reset, and the greeting lost
                        pass

            thread = threading.Thread(target=greet, daemon=True)
            thread.start()
            ended = tinyrun.wait(self.start(1, "out", MASTER_PORT=str(server.getsockname()[1])))
        self.expect(ended, 1, "another program, which listens there", "another MASTER_PORT")
        self.assertNotIn("frame #", ended.errors)

    def test_a_stray_rank_of_another_run_is_refused_and_that_one_goes_on(self):
        for launcher, own, stray in (("srun", {"SLURM_JOB_ID": "7"}, {"SLURM_JOB_ID": "8"}),
                                     ("srun", {"SLURM_STEP_ID": "0"}, {"SLURM_STEP_ID": "1"}),
                                     ("mpirun", {"PMIX_NAMESPACE": "1"}, {"PMIX_NAMESPACE": "2"}),
                                     ("by hand", {"ACCRUE_RUN_ID": "one"}, {"ACCRUE_RUN_ID": "two"}),
                                     ("by hand", {"ACCRUE_RUN_ID": "one"}, {})):
            with self.subTest(launcher=launcher, stray=stray):
                out = f"out{len(self.processes)}"
                first = self.start(0, out, launcher=launcher, **own)
                refused = tinyrun.wait(self.start(1, "stray", launcher=launcher, **stray))
                self.expect(refused, 2, "of 2 ranks", "another MASTER_PORT", "ACCRUE_RUN_ID=")
                second = self.start(1, out, launcher=launcher, **own)
                for process in (first, second):
                    self.expect(tinyrun.wait(process), 0)

    def test_a_stray_rank_of_another_number_of_ranks_is_refused(self):
        first = self.start(0, "out")
        self.expect(tinyrun.wait(self.start(2, "stray", world=3)), 2, "a run without a name of 3 ranks", "of 2 ranks")
        for process in (first, self.start(1, "out")):
            self.expect(tinyrun.wait(process), 0)

    def test_one_run_that_all_name_alike_is_one(self):
        for process in [self.start(rank, "out", ACCRUE_RUN_ID="mine") for rank in (0, 1)]:
            self.expect(tinyrun.wait(process), 0)


def has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


if __name__ == "__main__":
    ACCRUE = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
