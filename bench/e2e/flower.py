"""Flower's own processes on the loopback interface: a SuperLink and authenticated SuperNodes over TLS, whose bytes a relay counts."""
import contextlib
import datetime
import ipaddress
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOST = "127.0.0.1"
CONNECTION = "bench"  # in Flower's config
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "{name}"
version = "1.0.0"
license = "MIT"
dependencies = []
[tool.hatch.build.targets.wheel]
packages = ["."]
[tool.flwr.app]
publisher = "accrue"
[tool.flwr.app.components]
serverapp = "bench_app:server"
clientapp = "bench_app:client"
"""


class EndedEarly(Exception):
    """A run of Flower's that did not complete."""


def free_port() -> int:
    with socket.create_server((HOST, 0)) as probe:
        return probe.getsockname()[1]


def _json_in(told: str) -> dict:
    """Returns the JSON among other lines of flwr's output."""
    return json.JSONDecoder().raw_decode(told[told.index("{"):])[0]


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


class Authority:
    """A certificate authority in a folder: root.pem, and certificates for this host."""

    def __init__(self, folder: pathlib.Path, name: str):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._key = folder, new_key()
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
                              data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False)
        certificate = (self._builder(self._name, self._key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
                       .add_extension(usage, critical=True).sign(self._key, hashes.SHA256()))
        self.root = folder / "root.pem"
        self.root.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def certify(self) -> tuple[pathlib.Path, pathlib.Path]:
        """Returns the files of a certificate for 127.0.0.1 and of its key."""
        key, subject = new_key(), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST)), x509.DNSName("localhost")])
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (self._builder(subject, key).add_extension(names, critical=False).add_extension(authority, critical=False)
                       .sign(self._key, hashes.SHA256()))
        files = self._folder / "server.pem", self._folder / "server.key"
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        return files

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key.public_key())
                .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(minutes=5))
                .not_valid_after(now + datetime.timedelta(days=2))
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False))


class Relay:
    """Passes connections on to a port, and counts the bytes of both directions."""

    def __init__(self, port: int):
        self._to, self._lock, self.bytes = port, threading.Lock(), 0
        self._server = socket.create_server((HOST, 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._server.accept()
            with contextlib.suppress(OSError):
                far = socket.create_connection((HOST, self._to))
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
                with self._lock:
                    self.bytes += len(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Deployment:
    """A SuperLink and SuperNodes by name, each a process group of its own, until close()."""

    def __init__(self, folder: pathlib.Path, names: list[str], poll_seconds: float, wait_seconds: float):
        self.folder, self._wait = folder, wait_seconds
        self._environment = os.environ | {
            "FLWR_HOME": str(folder / "flower"), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": str(poll_seconds),
            "PATH": os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", "")])}
        self._processes: dict[str, subprocess.Popen] = {}
        authority = Authority(folder / "tls", "bench")
        certificate, key = authority.certify()
        self.root, self.port = authority.root, free_port()
        (folder / "flower").mkdir(parents=True, exist_ok=True)
        (folder / "flower" / "config.toml").write_text(
            f'[superlink]\ndefault = "{CONNECTION}"\n[superlink.{CONNECTION}]\naddress = "{HOST}:{self.port}"\nroot-certificates = "{self.root}"\n')
        self._start("superlink", ["flower-superlink", "--host", HOST, "--port", str(self.port), "--ssl-certfile", str(certificate), "--ssl-keyfile",
                                  str(key), "--ssl-ca-certfile", str(self.root), "--enable-supernode-auth", "--disable-runtime-dependency-installation"])
        self._until(lambda: "Application startup complete" in self.log("superlink"), "the SuperLink")
        self.relay = Relay(self.port)
        self.keys = {name: self.node_key(name) for name in names}
        for name in names:
            self.flwr("supernode", "register", f"{self.keys[name]}.pub", CONNECTION)
            self.start_node(name)
        self._until(lambda: all("SuperNode ID" in self.log(name) for name in names), "the SuperNodes")

    def node_key(self, name: str) -> pathlib.Path:
        """Returns the file of a new key by which a SuperNode authenticates itself; the public one has the suffix .pub."""
        key, file = new_key(), self.folder / "tls" / name
        file.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()))
        pathlib.Path(f"{file}.pub").write_bytes(key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH))
        return file

    def start_node(self, name: str, root: pathlib.Path | None = None) -> None:
        self._start(name, ["flower-supernode", "--superlink", f"{HOST}:{self.relay.port}", "--root-certificates", str(root or self.root),
                           "--auth-supernode-private-key", str(self.keys[name]), "--node-config", f'name="{name}"', "--port", str(free_port()),
                           "--max-retries", "5"])

    def kill(self, name: str) -> None:
        """Ends a node's processes at once, as a machine that loses its power."""
        process = self._processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def ended(self, name: str) -> int | None:
        return self._processes[name].poll()

    def flwr(self, *words: str) -> str:
        asked = subprocess.run(["flwr", *words], capture_output=True, text=True, env=self._environment, cwd=self.folder)
        if asked.returncode != 0:
            raise EndedEarly(f"flwr {' '.join(words)}: {asked.stdout[-2000:]}{asked.stderr[-2000:]}")
        return asked.stdout

    def submit(self, project: pathlib.Path) -> str:
        """Begins a run of a project, and returns its id."""
        told = self.flwr("run", str(project), CONNECTION, "--format", "json")
        return str(_json_in(told)["run-id"])

    def status(self, run: str) -> tuple[str, str]:
        """Returns a run's status, as Flower names it, and the reason."""
        told = self.flwr("list", CONNECTION, "--run-id", run, "--format", "json")
        row = _json_in(told)["runs"][0]
        return row["status"], row.get("status-details", "")

    def stop(self, run: str) -> None:
        with contextlib.suppress(EndedEarly):
            self.flwr("stop", run, CONNECTION)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def close(self) -> None:
        for name in list(self._processes):
            self.kill(name)

    def _start(self, name: str, command: list[str]) -> None:
        with (self.folder / f"{name}.log").open("w") as out:
            self._processes[name] = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=self._environment, cwd=self.folder,
                                                     start_new_session=True)

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        begin = time.monotonic()
        while not holds():
            if time.monotonic() - begin > self._wait or any(process.poll() is not None for process in self._processes.values()):
                logs = "\n".join(f"{name}: {self.log(name)[-2000:]}" for name in self._processes)
                self.close()
                raise EndedEarly(f"{what} did not start in {self._wait:g} seconds:\n{logs}")
            time.sleep(0.2)


def write_project(folder: pathlib.Path, app: str) -> pathlib.Path:
    """Writes a Flower project whose module bench_app has `client` and `server`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(PROJECT.format(name=folder.name))
    (folder / "bench_app.py").write_text(app)
    return folder
