"""Files of results: their parts, and of each part when, where and with what it was measured.

    {"measured": [{"parts": ["10.8M fp32"], "date": "2026-11-24", "commit": "3f0c...", "kernels": "9a41...",
                   "machine": {...}, "versions": {...}}],
     "10.8M fp32": {...}}

`kernels` is the version of accrue's CPU kernels (kernels_version); None where a file was stored before this was
written down. A report marks figures that were measured with kernels which are not the present ones.
"""
import datetime
import functools
import hashlib
import json
import os
import pathlib
import platform
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
ACCRUE = ROOT / "build" / "release" / "accrue"

MEASURED = "measured"
KERNELS = ("src/kernels", "include/accrue/kernels")
SOURCES = ("src", "include", "apps")  # whose changes a commit does not name until they are committed
TELLING_FLAGS = re.compile(r"fma|avx2|avx512f|.*vnni|amx.*|.*bf16")
CODE_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/|\s+', re.S)


@functools.cache
def kernels_version(root: pathlib.Path = ROOT) -> str:
    """Of the kernels' code: comments, blanks and the build's files are no part of it, names of files are."""
    found = hashlib.sha256()
    for folder in KERNELS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                code = CODE_OR_COMMENT.sub(lambda match: match[1] or "", path.read_text())
                found.update(f"{path.relative_to(root)}\0{code}\0".encode())
    return found.hexdigest()[:16]


def git(*words: str) -> str | None:
    try:
        asked = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
    except OSError:
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None


def commit() -> str | None:
    """Of the working tree, with "+changes" where accrue's sources differ from it; None outside of a checkout."""
    head = git("rev-parse", "--short=12", "HEAD")
    return f"{head}+changes" if head and git("status", "--porcelain", "--", *SOURCES) else head


def first_line(path: str, begins: str) -> str:
    """What stands behind the colon of the first such line."""
    with open(path) as lines:
        found = (line.split(":", 1)[1].strip() for line in lines if line.startswith(begins))
        return next(found, "")


def machine() -> dict:
    flags = sorted({flag for flag in first_line("/proc/cpuinfo", "flags").split() if TELLING_FLAGS.fullmatch(flag)})
    memory = first_line("/proc/meminfo", "MemTotal")
    return {"processor": first_line("/proc/cpuinfo", "model name") or platform.machine(),
            "cores": len(os.sched_getaffinity(0)), "flags": flags,
            "memory_bytes": 1024 * int(memory.split()[0]) if memory else None,
            "system": f"{platform.system()} {platform.release()}"}


def versions_of_accrue() -> dict[str, str]:
    """As `accrue --version` tells them, a line each; none where it is not built."""
    try:
        told = subprocess.run([str(ACCRUE), "--version"], capture_output=True, text=True).stdout
    except OSError:
        return {}
    return dict(line.split(" ", 1) for line in told.splitlines())


def provenance(versions: dict[str, str] | None = None) -> dict:
    """Of what is measured now; `versions`: of what was measured beside accrue, too."""
    return {"date": datetime.date.today().isoformat(), "commit": commit(), "kernels": kernels_version(),
            "machine": machine(), "versions": versions_of_accrue() | (versions or {})}


class ResultFile:
    """A file of results; one that is not there has no parts."""

    def __init__(self, path: pathlib.Path):
        content = json.loads(path.read_text()) if path.exists() else {}
        self.path = path
        self.measured: list[dict] = content.pop(MEASURED, [])
        self.parts: dict = content

    def add(self, parts: dict, versions: dict[str, str] | None = None) -> None:
        """Parts that were measured now replace those of their names; the others stay as they are."""
        for record in self.measured:
            record["parts"] = [part for part in record["parts"] if part not in parts]
        self.measured = [record for record in self.measured if record["parts"]]
        self.measured.append({"parts": list(parts), **provenance(versions)})
        self.parts |= parts

    def record_of(self, part: str) -> dict:
        """When, where and with what the part was measured; empty where nobody wrote that down."""
        return next((record for record in self.measured if part in record["parts"]), {})

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps({MEASURED: self.measured, **self.parts}, indent=2) + "\n")


def is_of_present_kernels(record: dict) -> bool:
    return record.get("kernels") == kernels_version()


def describe(record: dict) -> str:
    """Where, when and with what, as part of a sentence."""
    if not record:
        return "nobody wrote down when and where; with earlier kernels"
    on = record.get("machine") or {}
    where = f"{on['cores']} cores of {on['processor']}" if on.get("cores") else on.get("processor", "an unknown machine")
    extras = [", ".join(word for word in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if word in on.get("flags", []))]
    extras += [f"{on['memory_bytes'] / 2**30:.0f} GiB" if on.get("memory_bytes") else "", on.get("system", "")]
    about = "; ".join(extra for extra in extras if extra)
    by = f"commit {record['commit']}" if record.get("commit") else "commit not stored"
    kernels = "" if is_of_present_kernels(record) else ", with earlier kernels"
    return f"{where}{f' ({about})' if about else ''}, {record['date']}, {by}{kernels}"


def write_all(texts: dict[pathlib.Path, str]) -> None:
    for path, text in texts.items():
        path.write_text(text)
