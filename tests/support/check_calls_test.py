"""Files are opened and text is printed in one way, and scripts/check_calls.py sees where not: calls are planted in a folder of their own."""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

SEEN = [
    "  int file = ::open(path.c_str(), O_RDONLY);",
    "  std::ifstream file(path);",
    "  std::ofstream(path) << text;",
    "  std::fstream file{path};",
    "  FILE* file = std::fopen(path.c_str(), \"r\");",
    "  std::printf(\"%s\", name.c_str());",
    "  std::fprintf(stderr, \"%s\", name.c_str());",
    "  std::puts(name.c_str());",
]
UNSEEN = [
    "  // std::ifstream file(path) would wait for a pipe",
    "  std::ifstream file = stream_to_read(path);",
    "  return std::ifstream();",
    "  void copy(std::ifstream& from);",
    "  std::snprintf(text, sizeof text, \"%d\", 5);",
    "  window_.open(0);",
    "  device::open(name);",
]


def check(root: pathlib.Path) -> tuple[int, str]:
    ended = subprocess.run([sys.executable, str(ROOT / "scripts" / "check_calls.py"), str(root)], capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


def main() -> None:
    status, text = check(ROOT)
    assert status == 0, text
    with tempfile.TemporaryDirectory(prefix="accrue-calls-") as scratch:
        root = pathlib.Path(scratch)
        file = root / "src/data/planted.cpp"
        file.parent.mkdir(parents=True)
        for line, expected in [(line, 1) for line in SEEN] + [(line, 0) for line in UNSEEN]:
            file.write_text(line + "\n")
            status, text = check(root)
            assert status == expected and ("src/data/planted.cpp:1" in text) == bool(expected), (line, text)


if __name__ == "__main__":
    main()
