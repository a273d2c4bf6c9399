"""Starts of a program that has its libraries loaded already: loaded_program.cpp. What loaded_programs.h is for tests in C++.

To load libtorch takes 0.3 s of a processor. The first start with some variables is one as a user's; for the next ones the program is
loaded once, and forked. Only the standard library.
"""
import array
import ctypes
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import tempfile
import threading

# Of a rank, and of faults (tests/faults/fault_points.cpp): no library reads them before main.
READ_LATE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "ACCRUE_FAULT", "ACCRUE_FAULT_FOLDER", "ACCRUE_RUN_ID",
             "ACCRUE_STORE", "PWD")
AT_LOAD = re.compile(r"at=load(?![\w:-])")
MOST_BYTES = 1 << 17
PR_SET_CHILD_SUBREAPER = 36


class Process:
    """A start, with the methods of subprocess.Popen that tests call. Its streams go to files."""

    def __init__(self, pid, streams):
        self.pid, self.returncode, self._streams = pid, None, streams

    def poll(self):
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout=None):
        if self.poll() is None:
            descriptor = os.pidfd_open(self.pid)
            try:
                if not select.select([descriptor], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            finally:
                os.close(descriptor)
            self.poll()
        return self.returncode

    def communicate(self, timeout=None):
        self.wait(timeout)
        return tuple(stream.read_bytes() for stream in self._streams)

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class Loaded:
    """A program that waits with its libraries loaded."""

    def __init__(self, library, program, variables):
        self._scratch = tempfile.TemporaryDirectory(prefix="accrue-loaded-")
        self._lock, self._started = threading.Lock(), 0
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        preloaded = ":".join(filter(None, (str(library), variables.get("LD_PRELOAD"))))
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        with theirs:
            self._process = subprocess.Popen([program], env=variables | {"LD_PRELOAD": preloaded, "ACCRUE_LOADED_PROGRAM": str(theirs.fileno())},
                                             pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def start(self, command, variables, folder):
        """None if it is more than a request can have."""
        with self._lock:
            self._started += 1
            streams = [pathlib.Path(self._scratch.name) / f"{self._started}.{name}" for name in ("out", "err")]
            texts = [os.path.abspath(folder or "."), *map(str, streams), str(len(command)), *command,
                     *(f"{name}={value}" for name, value in variables.items())]
            request = b"".join(os.fsencode(text) + b"\0" for text in texts)
            if len(request) > MOST_BYTES:
                return None
            self._socket.send(request)
            return Process(array.array("i", self._socket.recv(4))[0], streams)


LOADED = {}
LOCK = threading.Lock()


def start(command, variables, folder=None):
    """`variables` are all that it gets; its standard input is empty."""
    command = [str(word) for word in command]
    library = pathlib.Path(command[0]).parent / "tests" / "support" / "libloaded_program.so"
    preloaded = variables.get("LD_PRELOAD", "")
    if library.exists() and not AT_LOAD.search(variables.get("ACCRUE_FAULT", "")) and (not preloaded or preloaded.endswith("/libfault_points.so")):
        early = {name: value for name, value in variables.items() if name not in READ_LATE and not name.startswith("TORCHELASTIC_")}
        with LOCK:
            key = (command[0], *sorted(early.items()))
            if key not in LOADED:
                LOADED[key] = None
            elif not LOADED[key]:
                LOADED[key] = Loaded(library.resolve(), command[0], early)
            loaded = LOADED[key]
        process = loaded and loaded.start(command, variables, folder)
        if process:
            return process
    return subprocess.Popen(command, env=variables, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
