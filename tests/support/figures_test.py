"""bench/e2e/write_benchmarks.py sees it if what documents say of measurements is not what bench/results has: figures are changed in
a copy. A code of kernels that changed marks what was measured with the one before. Whether the documents themselves are up to date is
a part of the long form (scripts/long_tests.py), since an edit of a kernel is enough that they are not."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("bench/e2e", "bench/micro", "bench/results", "src/kernels", "include/accrue/kernels")
FILES = ("docs/benchmarks.in.md", "docs/benchmarks.md", "docs/guide/choosing-the-batch.md", "docs/notes/accelerate.md", "docs/notes/batch.md", "docs/notes/kernels.md",
         "docs/notes/observation.md", "docs/notes/report.md", "docs/notes/unet.md", "README.md")
EARLIER = "with earlier kernels"
SPEED, PEERS = "bench/results/speed.json", "bench/results/peers.json"
NOT_MEASURED = "tuned peers not measured yet"


def write(root: pathlib.Path, *words: str) -> tuple[int, str]:
    command = [sys.executable, str(root / "bench" / "e2e" / "write_benchmarks.py"), *words]
    ended = subprocess.run(command, capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


def copied(scratch: pathlib.Path) -> pathlib.Path:
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, scratch / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("notes", "guide"):
        (scratch / "docs" / folder).mkdir(parents=True)
    for name in FILES:
        shutil.copy(ROOT / name, scratch / name)
    for plot in (ROOT / "docs" / "notes").glob("*.svg"):
        shutil.copy(plot, scratch / "docs" / "notes")
    return scratch


def edited(root: pathlib.Path, name: str, change) -> None:
    file = root / name
    text = file.read_text()
    assert change(text) != text, f"{name}: nothing was changed"
    file.write_text(change(text))


def with_another_digit(match: re.Match) -> str:
    """The last digit is one more."""
    return re.sub(r"\d(?=\D*$)", lambda digit: str((int(digit[0]) + 1) % 10), match[0])


def expect(result: tuple[int, str], status: int, *words: str) -> None:
    assert result[0] == status and all(word in result[1] for word in words), result


def with_speed(change):
    """An edit of the speed of the first model."""
    def edit(text: str) -> str:
        content = json.loads(text)
        change(content)
        return json.dumps(content, indent=2) + "\n"

    return edit


def of_kernels(version: str):
    """Speed's records as if they had been measured with these kernels."""
    return with_speed(lambda content: [record.update(kernels=version) for record in content["measured"]])


def present_kernels(root: pathlib.Path) -> str:
    return subprocess.run([sys.executable, "-c", "import results; print(results.kernels_version())"],
                          cwd=root / "bench" / "e2e", capture_output=True, text=True, check=True).stdout.strip()


def without_tcmalloc(text: str) -> str:
    """As where the peers were to run tuned, and there was no allocator to tune them with."""
    return re.sub(r'"allocator": "[^"]*"', '"allocator": "the C library\'s"', text)


def readme_row(root: pathlib.Path, model: str) -> str:
    return next(line for line in (root / "README.md").read_text().splitlines() if re.match(r"\| " + model, line))


def speed_line(root: pathlib.Path) -> str:
    return next(line for line in (root / "docs/benchmarks.md").read_text().splitlines() if line.startswith("Measured on"))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="accrue-figures-") as scratch:
        root = copied(pathlib.Path(scratch))
        expect(write(root), 0)  # with the kernels at hand
        expect(write(root, "--check"), 0)
        for name, figure in (("docs/benchmarks.md", r"\d\.\d\d \(\d\.\d\d to \d\.\d\d\)"), ("README.md", r"%2 -->-?[\d.]+%<!--"),
                             ("README.md", r"\| \d\.\d\d \(\d\.\d\d to \d\.\d\d\)"), ("bench/results/peers.md", r"\| [\d,]+ ")):
            edited(root, name, lambda text: re.sub(figure, with_another_digit, text, count=1))
            expect(write(root, "--check"), 1, name, "make bench-docs")
            expect(write(root), 0, f"{name} written")
            expect(write(root, "--check"), 0)
        edited(root, SPEED, with_speed(lambda content: (content["10.8M fp32"]["ratio"].update(median=1.5),
                                                        content["overhead"].update(accumulation_overhead=0.5))))
        expect(write(root, "--check"), 1, "docs/benchmarks.md", "README.md")
        expect(write(root), 0)

        compared = re.search(r"[\d.]+ \(.*\) \| .*, tuned.* \|$", readme_row(root, "10.8 M, .*, fp32"))
        assert compared, readme_row(root, "10.8 M, .*, fp32")
        edited(root, PEERS, without_tcmalloc)
        expect(write(root), 0)
        assert NOT_MEASURED in readme_row(root, "10.8 M, .*, fp32"), readme_row(root, "10.8 M, .*, fp32")

        edited(root, SPEED, of_kernels("others"))
        expect(write(root), 0)
        assert EARLIER in speed_line(root), speed_line(root)
        edited(root, SPEED, of_kernels(present_kernels(root)))
        expect(write(root), 0)
        assert EARLIER not in speed_line(root), speed_line(root)
        kernel = str(next(path.relative_to(root) for path in sorted((root / "src" / "kernels").rglob("*.cpp"))))
        edited(root, kernel, lambda text: "// A comment is no code.\n" + text)
        expect(write(root, "--check"), 0)
        edited(root, kernel, lambda text: text + "int another_kernel;\n")
        expect(write(root, "--check"), 1, "docs/benchmarks.md")
        expect(write(root), 0)
        assert EARLIER in speed_line(root), speed_line(root)

        template = "docs/benchmarks.in.md"
        edited(root, template, lambda text: text + "{{speed: 10.8M fp32/rat: 2}}\n")
        expect(write(root, "--check"), 1, template, "10.8M fp32/rat")
        edited(root, template, lambda text: text.replace("{{speed: 10.8M fp32/rat: 2}}\n", "{{if speed}}\n"))
        expect(write(root, "--check"), 1, template, "an end for each if")


if __name__ == "__main__":
    main()
