"""Three ranks whose store is three members of etcd, real processes, of which each is killed in turn, and the first rank with one of
them.

etcd_test.py ACCRUE FAULT_POINTS. The processes are killed while a rank waits at a named step, so that they are lost in the middle
of the run. Only the standard library, and etcd of Debian's etcd-server.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(TESTS / "support"), str(TESTS / "faults")]

import launchers  # noqa: E402
import skips  # noqa: E402
import started_once  # noqa: E402
import tinyrun  # noqa: E402
from reserved_port import ReservedPort  # noqa: E402

ACCRUE = FAULT_POINTS = ""
ETCD = shutil.which("etcd")
MEMBERS = RANKS = 3
STEPS = 20
SECONDS = 60  # after which something hangs


class Member:
    """One member of a cluster. An election takes a fifth of a second instead of one to two."""

    def __init__(self, folder, number, client_ports, peer_ports):
        client, peer = (f"http://127.0.0.1:{ports[number].number}" for ports in (client_ports, peer_ports))
        peers = ",".join(f"m{i}=http://127.0.0.1:{port.number}" for i, port in enumerate(peer_ports))
        self.url = client
        self.command = [ETCD, f"--name=m{number}", f"--data-dir={folder / f'm{number}'}", f"--listen-client-urls={client}",
                        f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
                        f"--initial-cluster={peers}", "--heartbeat-interval=20", "--election-timeout=200", "--unsafe-no-fsync",
                        "--log-level=error"]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def ask(self, path, request):
        with urllib.request.urlopen(self.url + path, json.dumps(request).encode(), timeout=5) as answer:
            return json.load(answer)

    def is_leader(self):
        status = self.ask("/v3/maintenance/status", {})
        return status.get("leader") == status["header"]["member_id"]

    def answers(self):
        """A quorum agrees with it on what stands there."""
        try:
            return "header" in self.ask("/v3/kv/range", {"key": "AA=="})
        except OSError:
            return False


class Etcd(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.tiny = tinyrun.TinyRun(ACCRUE, self.folder / "run", steps=STEPS, timeout=60)
        self.ports = [[ReservedPort() for _ in range(MEMBERS)] for _ in range(2)]
        self.members = [Member(self.folder, number, *self.ports) for number in range(MEMBERS)]
        self.addCleanup(lambda: [member.kill() for member in self.members])
        self.ranks = []
        self.addCleanup(launchers.end_all, self.ranks)
        self.wait_for_answers_of_all()

    def wait_for_answers_of_all(self):
        tinyrun.wait_until(lambda: all(member.answers() for member in self.members), "not all members answered", SECONDS)

    def start(self, faults):
        """`faults` are those of each rank."""
        url = "etcd://" + ",".join(member.url.removeprefix("http://") for member in self.members)
        for rank in range(RANKS):
            environment = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "ACCRUE_STORE": url, "ACCRUE_RUN_ID": "a run"}
            if rank in faults:
                environment |= {"LD_PRELOAD": FAULT_POINTS, "ACCRUE_FAULT": faults[rank], "ACCRUE_FAULT_FOLDER": str(self.folder)}
            # By speed, a rank that was stopped might have no micro-batch in the next step, in which it is to be stopped again.
            command = self.tiny.command(self.folder / "out", "--dist.shares=equal")
            self.ranks.append(started_once.start(command, tinyrun.alone() | environment))

    def expect_bits_of_one_process(self, ranks):
        for rank in ranks:
            ended = tinyrun.wait(self.ranks[rank], SECONDS)
            self.assertEqual(ended.status, 0, ended.errors)
        alone, _ = self.tiny.undisturbed(self.folder / "alone")
        self.assertEqual(tinyrun.outcome(self.folder / "out").parameters, alone.parameters)
        # What a disturbed run must not be compared with by mistake.
        shorter = self.tiny.run(self.folder / "shorter", f"--run.steps={STEPS - 1}")
        self.assertEqual(shorter.status, 0, shorter.errors)
        self.assertNotEqual(tinyrun.outcome(self.folder / "shorter").parameters, alone.parameters)

    def test_each_member_is_lost_in_turn_and_the_bits_stay(self):
        stops = [tinyrun.Pause(self.folder, f"stop{number}") for number in range(MEMBERS)]
        self.start({1: "; ".join(f"step={4 * (number + 1)} at=micro-batch do=pause:stop{number}" for number in range(MEMBERS))})
        lost = None
        for member, stop in zip(self.members, stops):
            stop.wait(*self.ranks, seconds=SECONDS)
            # From the last stop to this one the ranks went on with two members.
            if lost:
                lost.start()
                self.wait_for_answers_of_all()
            member.kill()
            lost = member
            stop.release()
        self.expect_bits_of_one_process(range(RANKS))

    def test_the_leader_is_lost_together_with_the_first_rank(self):
        stop = tinyrun.Pause(self.folder, "stop")
        self.start({0: "step=6 at=micro-batch do=pause:stop"})
        stop.wait(*self.ranks, seconds=SECONDS)
        next(member for member in self.members if member.is_leader()).kill()
        self.ranks[0].kill()
        self.expect_bits_of_one_process(range(1, RANKS))
        worlds = [line["world"] for line in tinyrun.metrics(self.folder / "out") if "lr" in line]
        self.assertEqual((worlds[0], worlds[-1]), (RANKS, RANKS - 1))

    def test_what_a_run_wrote_has_a_lease_of_an_hour(self):
        self.start({})
        self.expect_bits_of_one_process(range(RANKS))
        leases = self.members[0].ask("/v3/lease/leases", {})["leases"]
        self.assertEqual(len(leases), 1)
        of_run = self.members[0].ask("/v3/lease/timetolive", {"ID": leases[0]["ID"], "keys": True})
        self.assertEqual(of_run["grantedTTL"], "3600")
        everything = self.members[0].ask("/v3/kv/range", {"key": "AA==", "range_end": "AA==", "keys_only": True})
        self.assertEqual(sorted(of_run["keys"]), sorted(entry["key"] for entry in everything["kvs"]))


if __name__ == "__main__":
    ACCRUE, FAULT_POINTS = sys.argv.pop(1), sys.argv.pop(1)
    if ETCD is None:
        skips.missing_in_build("etcd is not installed (etcd-server)")
    unittest.main()
