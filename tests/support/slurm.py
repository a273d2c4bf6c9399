"""A Slurm of two nodes on this machine, in namespaces of its own: nothing of it is seen outside, and all of it ends with the program
that runs inside. Its daemons are the real ones. Only the standard library; needs slurm-wlm, iproute2 and util-linux."""
import os
import pathlib
import shutil
import subprocess
import time

PROGRAMS = {"slurmctld": "slurm-wlm", "slurmd": "slurm-wlm", "srun": "slurm-wlm", "ip": "iproute2", "unshare": "util-linux",
            "hostname": "hostname", "mount": "mount"}
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
ADDRESS = "10.77.0.1"  # of both nodes
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
NodeName=first NodeHostname=first NodeAddr={address} Port=17001 CPUs=8
NodeName=second NodeHostname=first NodeAddr={address} Port=17002 CPUs=8
PartitionName=all Nodes=first,second Default=YES MaxTime=INFINITE State=UP
"""


class Unavailable(Exception):
    """This machine has no such namespaces; says why."""


def missing_programs() -> list[str]:
    """The packages of programs that are not installed."""
    return sorted({package for program, package in PROGRAMS.items() if shutil.which(program, path=PATH) is None})


def inside(command: list[str]) -> list[str]:
    """The command that runs `command` in namespaces for `start`."""
    as_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *as_user, "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *command]


def check_namespaces() -> None:
    tried = subprocess.run(inside(["true"]), capture_output=True, text=True, env=os.environ | {"PATH": PATH})
    if tried.returncode != 0:
        raise Unavailable(tried.stderr.strip())


def start(folder: pathlib.Path) -> dict[str, str]:
    """To be called in such namespaces. Returns the variables that Slurm's commands need."""
    environment = os.environ | {"PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf")}
    # An address that is not the loopback interface's: without one Slurm resolves no address at all.
    for words in ("link set lo up", "link add wire type veth peer name far", f"address add {ADDRESS}/24 dev wire",
                  "link set wire up", "link set far up"):
        subprocess.run(["ip", *words.split()], check=True, env=environment)
    subprocess.run(["hostname", "first"], check=True, env=environment)
    # No server of names can be reached from here.
    hosts = folder / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{ADDRESS} first second\n")
    subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True, env=environment)
    for name in ("state", "first", "second"):
        (folder / name).mkdir()
    (folder / "slurm.conf").write_text(CONFIG.format(address=ADDRESS, folder=folder))
    for daemon in (["slurmctld", "-c", "-i"], ["slurmd", "-N", "first"], ["slurmd", "-N", "second"]):
        subprocess.run(daemon, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + SECONDS
    while True:
        states = subprocess.run(["sinfo", "--noheader", "--format=%D %t"], capture_output=True, text=True, env=environment).stdout
        if states.split() == ["2", "idle"]:
            return environment
        if time.monotonic() > deadline:
            logs = "\n".join(log.read_text()[-2000:] for log in folder.glob("*.log"))
            raise Unavailable(f"Slurm's nodes do not come: {states}\n{logs}")
        time.sleep(0.1)
