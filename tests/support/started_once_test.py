"""Starts of a program that is loaded once: started_once_test.py FOLDER, in which start_client and what is preloaded were built.

The program is a shell, which says what it was started with. Only the standard library.
"""
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import started_once
from started_once import StartedOnce

FOLDER = pathlib.Path()
SECONDS = 60
# The environment that the process itself began with has this in what is forked, and not in what is started anew.
SAYS_WHETHER_FORKED = "grep -qz ^ACCRUE_STARTED_ONCE= /proc/$$/environ && echo forked || echo anew"


class Starts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.once = cls.enterClassContext(StartedOnce("/bin/sh", FOLDER))

    def shell(self, *words, **more):
        return subprocess.run([self.once.program, "-c", *words], capture_output=True, text=True, timeout=SECONDS, **more)

    def test_each_is_a_fork_of_what_was_loaded(self):
        processes = {self.shell(f"{SAYS_WHETHER_FORKED}; echo $$").stdout for _ in range(3)}
        self.assertEqual({said.split()[0] for said in processes}, {"forked"})
        self.assertEqual(len(processes), 3)

    def test_one_has_the_words_the_streams_and_the_folder_of_who_asks(self):
        with tempfile.TemporaryDirectory() as folder:
            said = self.shell('read line; echo "$line in $PWD: $#, $1, $2, $3"; echo mistakes >&2', "name", "a b", "", "ü\n", input="text\n", cwd=folder)
            self.assertEqual((said.stdout, said.stderr), (f"text in {folder}: 3, a b, , ü\n\n", "mistakes\n"))

    def test_one_has_the_environment_of_who_asks_and_nothing_of_another(self):
        shows = 'echo "$PLANTED,$LD_PRELOAD,$ACCRUE_STARTED_ONCE"'
        self.assertEqual(self.shell(shows, env={**os.environ, "PLANTED": "here"}).stdout, "here,,\n")
        self.assertEqual(self.shell(f"cd /; export PLANTED=there; {shows}").stdout, "there,,\n")
        self.assertEqual(self.shell(shows).stdout, ",,\n")

    def test_one_ends_as_the_program_does(self):
        for status in (0, 3, 77):
            self.assertEqual(self.shell(f"exit {status}").returncode, status)
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1):
            self.assertEqual(self.shell(f"kill -{int(number)} $$").returncode, -number)

    def test_some_run_at_once_and_hold_nothing_of_each_other(self):
        waiting = [subprocess.Popen([self.once.program, "-c", "echo here; read line; exit $line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                   for _ in range(4)]
        for process in waiting:
            process.stdout.readline()
        self.assertEqual(self.shell("for file in 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$file ] && echo $file; done").stdout, "")
        for status, process in reversed(list(enumerate(waiting))):
            process.communicate(f"{status}\n", timeout=SECONDS)
            self.assertEqual(process.returncode, status)

    def test_variables_that_libraries_read_are_those_of_a_start_of_its_own(self):
        said = self.shell(f"{SAYS_WHETHER_FORKED}; echo $OMP_NUM_THREADS", env={**os.environ, "OMP_NUM_THREADS": "17"})
        self.assertEqual(said.stdout, "anew\n17\n")

    def test_a_program_ends_with_who_asked_for_it(self):
        asks = subprocess.Popen([self.once.program, "-c", "echo $$; read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        program = os.pidfd_open(int(asks.stdout.readline()))
        asks.kill()
        self.assertEqual(select.select([program], [], [], SECONDS)[0], [program])
        asks.communicate()
        os.close(program)

    def test_without_what_was_loaded_all_are_starts_of_their_own(self):
        with StartedOnce("/bin/sh", FOLDER) as once:
            once.process.kill()
            once.process.wait()
            said = subprocess.run([once.program, "-c", f"{SAYS_WHETHER_FORKED}; exit 5"], capture_output=True, text=True, timeout=SECONDS)
            self.assertEqual((said.stdout, said.returncode), ("anew\n", 5))


class Children(unittest.TestCase):
    """A build folder's program, which is a shell; started once by a user's way first."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "tests" / "support").mkdir(parents=True)
        (self.folder / "tests" / "support" / "libstarted_once.so").symlink_to((FOLDER / "libstarted_once.so").resolve())
        self.program = shutil.copy("/bin/sh", self.folder)

    def start(self, script, *words, **variables):
        return started_once.start([self.program, "-c", script, *words], os.environ | variables, self.folder)

    def said(self, script, *words, **variables):
        return self.start(script, *words, **variables).communicate(timeout=SECONDS)[0].decode()

    def test_all_but_the_first_are_forks_with_what_they_state(self):
        self.assertEqual(self.said(SAYS_WHETHER_FORKED), "anew\n")
        for number in ("1", "2"):
            child = self.start(f'{SAYS_WHETHER_FORKED}; echo "$$ $PPID $PWD $RANK $1 $LD_PRELOAD"; exit {number}', "name", "a b", RANK=number)
            self.assertEqual(child.communicate(timeout=SECONDS)[0].decode(), f"forked\n{child.pid} {os.getpid()} {self.folder} {number} a b \n")
            self.assertEqual(child.returncode, int(number))

    def test_what_a_fork_cannot_have_is_anew(self):
        for more, variables in ((("--memory.budget=1GiB",), {}), ((), {"ACCRUE_FAULT": "rank=0 at=load do=kill"}), ((), {"LD_PRELOAD": "/nonexistent.so"})):
            with self.subTest(more=more, variables=variables):
                self.assertEqual([self.said(SAYS_WHETHER_FORKED, "name", *more, **variables) for _ in range(3)], ["anew\n"] * 3)

    def test_they_end_by_the_signals_that_they_are_sent(self):
        self.said("exit 0")
        for number in (signal.SIGTERM, signal.SIGKILL):
            child = self.start("exec sleep 600")
            self.assertIsNone(child.poll())
            child.send_signal(number)
            child.communicate(timeout=SECONDS)
            self.assertEqual(child.returncode, -number)


if __name__ == "__main__":
    FOLDER = pathlib.Path(sys.argv.pop(1))
    unittest.main()
