"""Loads a program of the tests once, however often it is started (started_once.cpp)."""
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile


class StartedOnce:
    """`program` is a file to start in place of the program that is stated, for as long as this is open."""

    def __init__(self, program, folder, environment=os.environ):
        """`folder` has start_client and the library to preload, as they were built. Starts whose variables for libraries (OMP_...) are
        not those of `environment` are starts as ever."""
        self.scratch = tempfile.TemporaryDirectory(prefix="accrue_started_")
        place = pathlib.Path(self.scratch.name)
        (place / "program").symlink_to(pathlib.Path(program).resolve())
        self.program = place / pathlib.Path(program).name
        shutil.copy(pathlib.Path(folder, "start_client"), self.program)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(str(place / "socket"))
            listening.listen(64)
            self.process = subprocess.Popen([place / "program"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[listening.fileno()],
                                            env={**environment, "LD_PRELOAD": str(pathlib.Path(folder, "libstarted_once.so")),
                                                 "ACCRUE_STARTED_ONCE": str(listening.fileno())})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.scratch.cleanup()
