"""Network namespaces of this machine, joined by a cable, or a switch, that is as slow as asked for.

A namespace lives as long as the processes in it, and here these end with the process that made them: the holder reads
its end of a pipe, the ranks get a signal. So nothing is left behind, not even by a process that is killed. As root, or
where the kernel lets users make namespaces of their own. Only the standard library; needs iproute2 and util-linux.
"""
import contextlib
import dataclasses
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator

INTERFACE = "wire"  # at each end
PORT = 29500
RUN_TOKEN = secrets.token_hex(16)  # of all ranks that this process starts
TICK_SECONDS = 0.005
GRACE_SECONDS = 20  # for the other ranks to notice that one has failed
AS_USER = [] if os.geteuid() == 0 else ["--user"]
TOOLS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}
WITH_TOOLS = os.environ | {"PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}


class Unavailable(Exception):
    """This machine has no such cable; says why."""


class MissingTool(Unavailable):
    """This machine has no such cable until a program is installed."""


class RankFailed(Exception):
    """A rank's exit status was not 0, or it took too long; has the messages of all."""


@dataclasses.dataclass(frozen=True)
class Shape:
    rate_mbit: int  # each way
    delay_ms: float = 0.0  # one way; left out where the kernel cannot delay packets

    @property
    def burst_bytes(self) -> int:
        """Those of a millisecond, and at least a few packets: what may be sent faster."""
        return max(16_000, self.rate_mbit * 125)


@dataclasses.dataclass(frozen=True)
class End:
    """One of the namespaces."""
    holder: int  # a process in it
    address: str
    counters: int  # descriptor of its interfaces' counters, which reads them in 10 microseconds

    def enter(self, *words: str) -> list[str]:
        credentials = ["--user", "--preserve-credentials"] if AS_USER else []
        return ["nsenter", "--target", str(self.holder), *credentials, "--net", *words]

    def sent_bytes(self) -> int:
        """By its interface, since the cable was made; packets as a whole."""
        for line in os.pread(self.counters, 4096, 0).decode().splitlines():
            name, _, counters = line.partition(":")
            if name.strip() == INTERFACE:
                return int(counters.split()[8])
        raise Unavailable(f"namespace of process {self.holder}: no interface {INTERFACE}")


@dataclasses.dataclass(frozen=True)
class Cable:
    shape: Shape
    delays: bool  # whether packets are delayed as the shape says
    ends: tuple[End, ...]
    far: tuple[tuple[End, str], ...]  # where the other side of each rank's cable is, and its interface

    def cut(self, rank: int) -> None:
        """Pulls the rank's plug: its interface stays, and nothing comes or goes any more."""
        end, interface = self.far[rank]
        _do(end, "ip", "link", "set", interface, "down")

    def mend(self, rank: int) -> None:
        """Puts the plug back."""
        end, interface = self.far[rank]
        _do(end, "ip", "link", "set", interface, "up")

    def is_cut(self, rank: int) -> bool:
        end, interface = self.far[rank]
        return "state DOWN" in _do(end, "ip", "link", "show", "dev", interface)

    def narrow(self, rank: int, rate_mbit: float, queue_bytes: int) -> None:
        """What the rank is sent comes at this rate; what finds the queue full is dropped. A rate without queue drops, a long
        queue delays."""
        end, interface = self.far[rank]
        _do(end, "tc", "qdisc", "replace", "dev", interface, "root", "handle", "1:", "tbf", "rate", f"{rate_mbit}mbit", "burst",
            "3000", "limit", str(queue_bytes))

    def widen(self, rank: int) -> None:
        """Gives the cable its shape again."""
        end, interface = self.far[rank]
        _do(end, "tc", "qdisc", "del", "dev", interface, "root")
        _shape(end, interface, self.shape)

    def held_up(self, rank: int) -> tuple[int, int]:
        """Packets for the rank that were dropped, and that had to wait, since its cable was given its shape."""
        end, interface = self.far[rank]
        said = _do(end, "tc", "-s", "qdisc", "show", "dev", interface)
        return tuple(int(said.split(name, 1)[1].split()[0].rstrip(",")) for name in ("dropped ", "overlimits "))

    def environment(self, rank: int) -> dict[str, str]:
        return WITH_TOOLS | {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(len(self.ends)),
                             "MASTER_ADDR": self.ends[0].address, "MASTER_PORT": str(PORT),
                             "GLOO_SOCKET_IFNAME": INTERFACE, "ACCRUE_RUN_TOKEN": RUN_TOKEN, "OMP_NUM_THREADS": "1"}

    def sent_bytes(self) -> tuple[int, ...]:
        return tuple(end.sent_bytes() for end in self.ends)


@contextlib.contextmanager
def cable(shape: Shape, ends: int = 2) -> Iterator[Cable]:
    """More than two ends meet in a switch, with a cable of that shape to each. Raises Unavailable, with the reason."""
    for tool, package in TOOLS.items():
        if shutil.which(tool, path=WITH_TOOLS["PATH"]) is None:
            raise MissingTool(f"there is no {tool}; apt-get install {package} brings it")
    with contextlib.ExitStack() as stack:
        map_user = [*AS_USER, "--map-root-user"] if AS_USER else []
        first = stack.enter_context(_namespace(["unshare", *map_user], "10.77.0.1"))
        inside = ["nsenter", "--target", str(first.holder), *AS_USER, "--preserve-credentials"] if AS_USER else []

        def another(address: str) -> End:
            return stack.enter_context(_namespace([*inside, "unshare"], address))

        ranks = [first] + [another(f"10.77.0.{number}") for number in range(2, ends + 1)]
        sockets = _join_two(*ranks) if ends == 2 else _join_by_switch(ranks, another(""))
        for rank in ranks:
            _do(rank, "ip", "address", "add", f"{rank.address}/24", "dev", INTERFACE)
            _do(rank, "ip", "link", "set", "lo", "up")
        delays = shape.delay_ms > 0
        for end, interface in sockets:
            _do(end, "ip", "link", "set", interface, "up")
            delays = _shape(end, interface, shape) and delays
        far = sockets[1::2] if ends > 2 else reversed(sockets)
        yield Cable(shape, delays, tuple(ranks), tuple(far))


def run_ranks(cable: Cable, command_of: Callable[[int], list[str]], timeout: float,
              tick: Callable[[], None] = lambda: None) -> list[str]:
    """Runs a rank at each end, each on a core of its own where there are two, and returns their standard outputs. Calls
    `tick` every 5 ms meanwhile. No rank runs after it. Raises RankFailed."""
    cores = sorted(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack:
        ranks = []
        for rank, end in enumerate(cable.ends):
            out, err = (stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2))
            command = end.enter("setpriv", "--pdeathsig", "KILL", "taskset", "--cpu-list",
                                str(cores[rank % len(cores)]), *command_of(rank))
            process = subprocess.Popen(command, env=cable.environment(rank), stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=err)
            stack.callback(_stop, process)
            ranks.append((process, out, err))
        _wait([process for process, _, _ in ranks], timeout, tick)
        if any(process.poll() != 0 for process, _, _ in ranks):
            raise RankFailed("\n".join(f"rank {i}: exit status {process.poll()}\n{_text(err)}"
                                       for i, (process, _, err) in enumerate(ranks)))
        return [_text(out) for _, out, _ in ranks]


@contextlib.contextmanager
def _namespace(unshare: list[str], address: str) -> Iterator[End]:
    """Held by a process that ends with its standard input."""
    try:
        holder = subprocess.Popen([*unshare, "--net", "sh", "-c", "echo made; exec cat"], env=WITH_TOOLS, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError as missing:
        raise MissingTool(f"there is no {missing.filename}") from missing
    try:
        if holder.stdout.readline() != "made\n":
            raise Unavailable("no network namespace can be made: " + holder.stderr.read().strip())
        counters = os.open(f"/proc/{holder.pid}/net/dev", os.O_RDONLY)
        try:
            yield End(holder.pid, address, counters)
        finally:
            os.close(counters)
    finally:
        holder.communicate()


def _join_two(first: End, second: End) -> list[tuple[End, str]]:
    """What there is to be shaped: interfaces, with where they are."""
    _do(first, "ip", "link", "add", INTERFACE, "type", "veth", "peer", "name", INTERFACE, "netns", str(second.holder))
    return [(first, INTERFACE), (second, INTERFACE)]


def _join_by_switch(ranks: list[End], switch: End) -> list[tuple[End, str]]:
    """The same, with the switch's sockets: what a rank is sent is as slow as what it sends."""
    _do(switch, "ip", "link", "add", "name", "switch", "type", "bridge")
    _do(switch, "ip", "link", "set", "switch", "up")
    sockets = []
    for number, rank in enumerate(ranks):
        socket = f"socket{number}"
        _do(rank, "ip", "link", "add", INTERFACE, "type", "veth", "peer", "name", socket, "netns", str(switch.holder))
        _do(switch, "ip", "link", "set", socket, "master", "switch")
        sockets += [(rank, INTERFACE), (switch, socket)]
    return sockets


def _do(end: End, *words: str) -> str:
    """What it printed."""
    try:
        return subprocess.run(end.enter(*words), env=WITH_TOOLS, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError as missing:
        raise MissingTool(f"there is no {missing.filename}") from missing
    except subprocess.CalledProcessError as failed:
        raise Unavailable(f"{' '.join(words)}: {failed.stderr.strip()}") from failed


def _shape(end: End, interface: str, shape: Shape) -> bool:
    """Whether the kernel also delays packets."""
    _do(end, "tc", "qdisc", "add", "dev", interface, "root", "handle", "1:", "tbf", "rate", f"{shape.rate_mbit}mbit",
        "burst", str(shape.burst_bytes), "latency", "50ms")
    if shape.delay_ms == 0:
        return True
    try:
        _do(end, "tc", "qdisc", "add", "dev", interface, "parent", "1:1", "handle", "10:", "netem", "delay",
            f"{shape.delay_ms}ms", "limit", "10000")
    except Unavailable:
        return False
    return True


def _wait(processes: list[subprocess.Popen], timeout: float, tick: Callable[[], None]) -> None:
    """Until all have ended, or some after one has failed or the time is over."""
    deadline = time.monotonic() + timeout
    while any(process.poll() is None for process in processes):
        if any(process.poll() not in (None, 0) for process in processes):
            deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
        if time.monotonic() > deadline:
            return
        tick()
        time.sleep(TICK_SECONDS)


def _stop(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def _text(file) -> str:
    file.seek(0)
    return file.read()
