"""Starts of a program that is loaded once: started_once_test.py FOLDER, in which start_client and what is preloaded were built.

The program is a shell, which says what it was started with. Only the standard library.
"""
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import unittest

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

    def test_some_run_at_once(self):
        waiting = [subprocess.Popen([self.once.program, "-c", "read line; exit $line"], stdin=subprocess.PIPE, text=True) for _ in range(4)]
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


if __name__ == "__main__":
    FOLDER = pathlib.Path(sys.argv.pop(1))
    unittest.main()
