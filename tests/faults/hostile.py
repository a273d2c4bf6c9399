"""What accrue reads and writes when somebody else wrote the files: a call with bounds, and the files that campaigns of hostile
files begin with. Only the standard library.
"""
import dataclasses
import fcntl
import json
import os
import pathlib
import pty
import resource
import selectors
import struct
import subprocess
import termios
import threading
import time
import tty

import estates
import tinyrun
from tinyrun import Options

SECONDS = 60  # after which a call is taken to wait for ever
STATUSES = (0, 1, 2, 3)  # that a call may end with: no signal, no other status


@dataclasses.dataclass(frozen=True)
class Ended:
    status: int  # the exit status; -N: ended by signal N
    out: bytes
    errors: bytes  # of a terminal: empty, all is in `out`
    seconds: float
    processor_seconds: float
    bytes: int  # resident, at most
    hung: bool

    def told(self) -> str:
        return f"status {self.status}: {(self.out + self.errors)[-600:]!r}"


def without_spinning(environment: dict[str, str] | None) -> dict[str, str]:
    return tinyrun.alone() | {"TERM": "xterm-256color"} | (environment or {})


def call(command: list[str], folder: pathlib.Path, environment: dict[str, str] | None = None, input: bytes = b"",
         on_terminal: bool = False, seconds: float = SECONDS, addresses: int = 0) -> Ended:
    """Runs a command with its output in pipes, or on a terminal of its own; kills it after `seconds`. `addresses`: the bytes of
    address space that it may have, 0: any."""
    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if addresses:
            resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))

    ours, theirs = pty.openpty() if on_terminal else (None, subprocess.PIPE)
    if on_terminal:
        tty.setraw(theirs)  # so that what is written comes as it is
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    begin = time.monotonic()
    process = subprocess.Popen(command, cwd=folder, env=without_spinning(environment), stdin=subprocess.PIPE, stdout=theirs,
                               stderr=theirs, preexec_fn=bound)
    if on_terminal:
        os.close(theirs)
    hung = threading.Event()

    def kill() -> None:
        hung.set()
        process.kill()

    timer = threading.Timer(seconds, kill)
    timer.start()
    try:
        _give(process, input)
        sources = {ours: bytearray()} if on_terminal else {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
        _read(sources)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        timer.cancel()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()
        if on_terminal:
            os.close(ours)
    texts = [bytes(text) for text in sources.values()]
    return Ended(process.returncode, texts[0], b"".join(texts[1:]), time.monotonic() - begin, usage.ru_utime + usage.ru_stime,
                 usage.ru_maxrss * 1024, hung.is_set())


def _give(process: subprocess.Popen, input: bytes) -> None:
    """Less than a pipe holds, so that nobody waits."""
    try:
        process.stdin.write(input)
        process.stdin.close()
    except BrokenPipeError:
        pass


def _read(sources: dict[int, bytearray]) -> None:
    """All that comes, until nobody writes any more."""
    with selectors.DefaultSelector() as selector:
        for source in sources:
            selector.register(source, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                try:
                    part = os.read(key.fd, 1 << 16)
                except OSError:  # how a terminal that all have closed ends
                    part = b""
                if part:
                    sources[key.fd] += part
                else:
                    selector.unregister(key.fd)


def as_json(value: object) -> bytes:
    """With all characters as they are, and bytes that are no UTF-8 where a text has surrogates."""
    return json.dumps(value, ensure_ascii=False).encode(errors="surrogateescape")


def as_toml(text: str) -> str:
    """A string of TOML; what is no UTF-8 stays as it is."""
    return '"' + "".join(c if c.isprintable() and c not in '"\\' or "\udc80" <= c <= "\udcff" else f"\\u{ord(c):04x}" for c in text) + '"'


def write(file: pathlib.Path, content: bytes | str | dict | list) -> None:
    """What is no text or bytes becomes JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        content = content.encode(errors="surrogateescape")
    file.write_bytes(content if isinstance(content, bytes) else as_json(content))


def read_json(file: pathlib.Path) -> dict:
    return json.loads(file.read_text())


def changed_json(file: pathlib.Path, **values) -> None:
    write(file, read_json(file) | values)


def safetensors(header: dict, data: bytes) -> bytes:
    text = as_json(header)
    return struct.pack("<Q", len(text)) + text + data


def parts_of(file: pathlib.Path) -> tuple[dict, bytes]:
    """Header and data of a file of safetensors."""
    content = file.read_bytes()
    end = 8 + struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8:end]), content[end:]


class World:
    """Estates, each made when it is first asked for, of which each call has a copy."""

    def __init__(self, options: Options, folder: pathlib.Path):
        self._options, self.folder = options, folder
        self.program = str(pathlib.Path(options.program).resolve())
        self._lock = threading.Lock()

    def estate(self, name: str) -> pathlib.Path:
        with self._lock:
            made = self.folder / name
            return made if made.exists() else estates.make(self._options, estates.KINDS[name], made)

    def fresh(self, name: str, estate: str) -> pathlib.Path:
        """A copy in a folder of its own, whose runs draw their progress on terminals."""
        copy = tinyrun.copy(self.estate(estate), self.folder / name)
        for config in copy.glob("*.toml"):
            config.write_text(config.read_text().replace('progress = "off"', 'progress = "auto"'))
        return copy

    def call(self, place: pathlib.Path, words: list[str], **how) -> Ended:
        return call([self.program, *words], place, **how)
