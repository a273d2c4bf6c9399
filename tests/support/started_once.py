"""Loads a program of the tests once, however often it is started (started_once.cpp). Only the standard library.

`StartedOnce` makes a file that is started in place of the program; `start` starts a child of this process, as started_once.h does for
tests in C++.
"""
import array
import atexit
import contextlib
import ctypes
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

PR_SET_CHILD_SUBREAPER = 36
# As start_request.h has them.
READ_WHEN_LOADED = ("LD_", "OMP_", "GOMP_", "KMP_", "GLIBC_", "MALLOC_", "TORCH_", "MKL_", "DNNL_", "ONEDNN_", "CUDA_")
LARGEST_REQUEST = 128 << 10


def loaded(program, library, listening, environment):
    """The process that waits for requests at `listening`, for as long as its stdin is open."""
    preloaded = ":".join(filter(None, (str(library), environment.get("LD_PRELOAD"))))
    own = {name: value for name, value in environment.items() if not name.startswith("ACCRUE_FAULT")}  # faults are those of each start
    # The last variable is the one by which the program knows what it adds itself.
    return subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[listening.fileno()],
                            env=own | {"LD_PRELOAD": preloaded} | {"ACCRUE_STARTED_ONCE": str(listening.fileno())})


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
            self.process = loaded(place / "program", pathlib.Path(folder, "libstarted_once.so"), listening, dict(environment))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.scratch.cleanup()


class Child:
    """A start that is a child of this process, with the methods of subprocess.Popen that tests call. Its output goes to pipes."""

    def __init__(self, pid, stdout, stderr):
        self.pid, self.returncode, self.stdout, self.stderr = pid, None, stdout, stderr
        self._readers, self._outputs = [], {}

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
        """What it wrote to stdout and stderr and nobody read; may be called again after a timeout."""
        if not self._readers:
            self._readers = [threading.Thread(target=self._read, args=(stream,), daemon=True) for stream in (self.stdout, self.stderr)]
            for reader in self._readers:
                reader.start()
        self.wait(timeout)
        for reader in self._readers:
            reader.join()
        return self._outputs[self.stdout], self._outputs[self.stderr]

    def _read(self, stream):
        with stream:
            self._outputs[stream] = stream.read()

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def terminate(self):
        self.send_signal(signal.SIGTERM)


class Server:
    """A program that waits with its libraries loaded, for children of this process."""

    def __init__(self, program, library, environment):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind("")  # an address of the kernel's choice
            listening.listen(64)
            self._address = listening.getsockname()
            self._process = loaded(program, library, listening, environment)
        atexit.register(self._end)

    def _end(self):
        self._process.stdin.close()
        self._process.wait()

    def start(self, command, environment, folder):
        """None if the program has to be started otherwise."""
        texts = ["1", str(len(command)), *command, *(f"{name}={value}" for name, value in environment.items())]
        request = b"".join(os.fsencode(text) + b"\0" for text in texts)
        if len(request) > LARGEST_REQUEST:
            return None
        with contextlib.ExitStack() as held:
            empty = held.enter_context(open(os.devnull, "rb"))
            place = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY)
            held.callback(os.close, place)
            pipes = [os.pipe(), os.pipe()]
            for _, write in pipes:
                held.callback(os.close, write)
            outputs = [open(read, "rb") for read, _ in pipes]
            connection = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            connection.connect(self._address)
            socket.send_fds(connection, [request], [empty.fileno(), *(write for _, write in pipes), place])
            is_started, process = array.array("i", connection.recv(8))
            connection.recv(1)  # it is a child once the connection ends
        if is_started:
            return Child(process, *outputs)
        for output in outputs:
            output.close()
        return None


SERVERS = {}
LOCK = threading.Lock()


def start(command, environment, folder=None):
    """`environment` is all that it gets; its standard input is empty. As started_once.h has it, the first start in an environment is one
    as a user's, and so is one with a budget of memory, or with what reads variables as it is loaded."""
    command = [str(word) for word in command]
    library = pathlib.Path(command[0]).parent / "tests" / "support" / "libstarted_once.so"
    preloaded = environment.get("LD_PRELOAD", "")
    has_budget = any(word.startswith("--memory.budget") and word != "--memory.budget=none" for word in command)
    if library.exists() and not has_budget and (not preloaded or preloaded.endswith("/libfault_points.so")):
        key = (command[0], *sorted(item for item in environment.items() if item[0].startswith(READ_WHEN_LOADED)))
        with LOCK:
            if key not in SERVERS:
                SERVERS[key] = None
            elif not SERVERS[key]:
                SERVERS[key] = Server(command[0], library.resolve(), environment)
            server = SERVERS[key]
        child = server and server.start(command, environment, folder)
        if child:
            return child
    return subprocess.Popen(command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
