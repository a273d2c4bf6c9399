"""A Slurm of two nodes, on one machine in namespaces or on two (namespaces.py). Its daemons are the real ones."""
import os
import pathlib
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

import namespaces

PROGRAMS = {"slurmctld": "slurm-wlm", "slurmd": "slurm-wlm", "srun": "slurm-wlm"}
ADDRESS = "10.77.0.1"  # of both nodes, if they are on one machine
SECONDS = 120  # after which the daemons are taken to hang
CONFIG = """
ClusterName=test
SlurmctldHost=first({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
KillWait=60
{nodes}
PartitionName=all Nodes=first,second Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class Node:
    name: str
    machine: str
    address: str
    port: int
    enter: Callable[[list[str]], list[str]]  # the command that becomes another on its machine

    @property
    def config(self) -> str:
        return f"NodeName={self.name} NodeHostname={self.machine} NodeAddr={self.address} Port={self.port} CPUs=8"


def start(folder: pathlib.Path) -> dict[str, str]:
    """Both nodes on this machine. To be called inside. Returns the variables that Slurm's commands need."""
    # An address that is not the loopback interface's: without one Slurm resolves no address at all.
    for words in ("link set lo up", "link add wire type veth peer name far", f"address add {ADDRESS}/24 dev wire",
                  "link set wire up", "link set far up"):
        namespaces.run(["ip", *words.split()])
    namespaces.run(["hostname", "first"])
    # No server of names can be reached from here.
    hosts = folder / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{ADDRESS} first second\n")
    namespaces.run(["mount", "--bind", str(hosts), "/etc/hosts"])
    return _start(folder, [Node(name, "first", ADDRESS, port, lambda words: words) for name, port in (("first", 17001), ("second", 17002))])


def start_on(hosts: tuple[namespaces.Host, namespaces.Host], folder: pathlib.Path) -> dict[str, str]:
    """The same with a node on each host; the commands are for the first one."""
    return _start(folder, [Node(host.name, host.name, host.address, 17001, host.enter) for host in hosts])


def _start(folder: pathlib.Path, nodes: list[Node]) -> dict[str, str]:
    environment = os.environ | {"PATH": namespaces.PATH, "SLURM_CONF": str(folder / "slurm.conf")}
    first = nodes[0]
    for name in ("state", *(node.name for node in nodes)):
        (folder / name).mkdir()
    (folder / "slurm.conf").write_text(CONFIG.format(address=first.address, folder=folder, nodes="\n".join(node.config for node in nodes)))
    for daemon in (first.enter(["slurmctld", "-c", "-i"]), *(node.enter(["slurmd", "-N", node.name]) for node in nodes)):
        subprocess.run(daemon, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + SECONDS
    while True:
        states = subprocess.run(first.enter(["sinfo", "--noheader", "--format=%D %t"]), capture_output=True, text=True, env=environment).stdout
        if states.split() == ["2", "idle"]:
            return environment
        if time.monotonic() > deadline:
            logs = "\n".join(log.read_text()[-2000:] for log in folder.glob("*.log"))
            raise namespaces.Unavailable(f"Slurm's nodes do not come: {states}\n{logs}")
        time.sleep(0.1)
