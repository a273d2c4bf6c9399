"""Machines in namespaces of this one: nothing of them is seen outside, and everything in them ends with the program that runs inside.
Only the standard library; needs iproute2, util-linux and hostname."""
import dataclasses
import os
import pathlib
import shutil
import subprocess

PROGRAMS = {"ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux", "setpriv": "util-linux", "hostname": "hostname", "mount": "mount"}
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
INTERFACE = "wire"  # of each host


class Unavailable(Exception):
    """This machine has no such namespaces; says why."""


def missing_programs(programs: dict[str, str]) -> list[str]:
    """The packages of those programs that are not installed."""
    return sorted({package for program, package in (PROGRAMS | programs).items() if shutil.which(program, path=PATH) is None})


def inside(command: list[str]) -> list[str]:
    """The command that runs `command` in namespaces, in which hosts can be made, or this one changed. They end with who starts it."""
    as_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["setpriv", "--pdeathsig", "KILL", "unshare", *as_user, "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *command]


def check() -> None:
    """Raises Unavailable."""
    tried = subprocess.run(inside(["true"]), capture_output=True, text=True, env=os.environ | {"PATH": PATH})
    if tried.returncode != 0:
        raise Unavailable(tried.stderr.strip())


def run(words: list[str]) -> None:
    subprocess.run(words, check=True, env=os.environ | {"PATH": PATH}, stdout=subprocess.DEVNULL)


@dataclasses.dataclass(frozen=True)
class Host:
    """A machine with an address, a name and a table of names of its own, which shares files and processes with the others."""
    name: str
    address: str
    holder: subprocess.Popen  # a process in it

    def enter(self, words: list[str]) -> list[str]:
        """The command that becomes `words` on this host."""
        return ["nsenter", "--target", str(self.holder.pid), "--net", "--uts", "--mount", f"--wd={os.getcwd()}", *words]


def two_hosts(folder: pathlib.Path) -> tuple[Host, Host]:
    """Two hosts, joined by a cable, that know each other by name. To be called inside; they end with the namespaces."""
    names = {"first": "10.77.0.1", "second": "10.77.0.2"}
    table = folder / "hosts"
    table.write_text("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in names.items()))
    first, second = (Host(name, address, _holder(name, table)) for name, address in names.items())
    run(first.enter(["ip", "link", "add", INTERFACE, "type", "veth", "peer", "name", INTERFACE, "netns", str(second.holder.pid)]))
    for host in (first, second):
        run(host.enter(["ip", "address", "add", f"{host.address}/24", "dev", INTERFACE]))
        run(host.enter(["ip", "link", "set", INTERFACE, "up"]))
    return first, second


def _holder(name: str, table: pathlib.Path) -> subprocess.Popen:
    begin = f'hostname {name} && ip link set lo up && mount --bind "$0" /etc/hosts && echo made && exec cat'
    holder = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sh", "-c", begin, str(table)], env=os.environ | {"PATH": PATH},
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if holder.stdout.readline() != "made\n":
        raise Unavailable(f"no host can be made: {holder.stderr.read().strip()}")
    return holder
