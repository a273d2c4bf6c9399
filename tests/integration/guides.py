#!/usr/bin/env python3
"""Runs every command of the guides that say <!-- tested -->.

    guides.py PROGRAM [PAGE...]        (without pages: README.md, and those of docs/guide that carry the marker)
    guides.py PROGRAM --part 2/3       the second, fifth, eighth, ... of these pages
    guides.py PROGRAM --once FOLDER    PROGRAM is loaded once for all its starts, by what is built there (started_once.py)

In such a page, blocks between three backticks are

    toml            written to the file that its first line names: # name.toml
    sh [status=N] [needs=PROGRAM]
                    each command is run and has to end with status N (0); without PROGRAM it is left out, and the test is skipped, or
                    fails if everything is required; PROGRAM may be a service of others (OF_OTHERS), which is left out
    text output     each line is in what the block before it wrote; ... stands for anything
    cpp from=FILE   lines of that file of the repository, as they are there but for the indentation
    python [file=NAME]  compiled, and written to that file; without a file these are other systems' lines
    python from=FILE    compiled, and lines of that file of the repository
    cpp fragment    not looked at
    diff from=FILE to=FILE
                    lines of the difference between these files of the repository; ... stands for those left out

A page has a folder of its own, with texts/*.txt and answers.jsonl, and runs from its first line to its last. Before these pages, or
the first part of them, the test sees that pages with mistakes fail, each for its own. Only the standard library.
"""
import argparse
import contextlib
import dataclasses
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import skips  # noqa: E402
from started_once import StartedOnce  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARKER = "<!-- tested -->"
OF_OTHERS = {"wandb", "mlflow"}  # what no set-up of accrue installs
SECONDS = 600  # after which a command is taken to hang
LANGUAGES = {"toml", "sh", "text", "cpp", "diff", "python"}
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # in the environment of all programs
# What a reader would type, where the test does not look.
COMMAND = re.compile(r"^(    |\t)\s*(\$ )?(accrue|torchrun|mpirun|srun|make|cmake|python3?) ")
LINK = re.compile(r"\]\(([^)#:]+)(?:#([^)]*))?\)")


class Wrong(Exception):
    """What is wrong, with page and line."""


@dataclasses.dataclass
class Block:
    page: pathlib.Path
    line: int  # of its first line, counted from 1
    language: str
    tags: dict[str, str]
    lines: list[str] = dataclasses.field(default_factory=list)

    def wrong(self, what: str, line: int = 0) -> Wrong:
        return Wrong(f"{self.page.name}:{self.line + line}: {what}")


def opened(page: pathlib.Path, number: int, words: list[str]) -> Block:
    block = Block(page, number + 1, words[0] if words else "", dict(
        word.split("=", 1) if "=" in word else (word, "") for word in words[1:]))
    known = {"sh": {"status", "needs"}, "text": {"output"}, "cpp": {"from", "fragment"}, "diff": {"from", "to"},
             "python": {"file", "from"}}
    if block.language not in LANGUAGES or block.tags.keys() - known.get(block.language, set()):
        raise block.wrong(f"expected a block of {sorted(LANGUAGES)} with their own tags, received {' '.join(words)!r}", -1)
    if block.language == "cpp" and len(block.tags) != 1:
        raise block.wrong("expected cpp from=FILE or cpp fragment", -1)
    if block.language == "diff" and len(block.tags) != 2:
        raise block.wrong("expected diff from=FILE to=FILE", -1)
    return block


def anchors(page: pathlib.Path) -> set[str]:
    """What GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def blocks_of(page: pathlib.Path) -> list[Block]:
    """Raises Wrong for commands outside of blocks, too, and for links to files that are not there."""
    blocks: list[Block] = []
    inside = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            if not inside:
                blocks.append(opened(page, number, line[3:].split()))
            inside = not inside
        elif inside:
            blocks[-1].lines.append(line)
        elif COMMAND.match(line):
            raise Wrong(f"{page.name}:{number}: expected commands in blocks of sh, received {line.strip()!r}")
        else:
            for target, anchor in LINK.findall(line):
                if not (page.parent / target).exists() or anchor and anchor not in anchors(page.parent / target):
                    raise Wrong(f"{page.name}:{number}: expected a link to a file and a heading of it, received {target!r} {anchor}")
    if inside:
        raise blocks[-1].wrong("expected the end of the block", -1)
    return blocks


def commands_of(block: Block) -> list[tuple[int, str]]:
    """(line in the block, command), lines that end with a backslash joined."""
    commands, text, begin = [], "", 0
    for number, line in enumerate(block.lines):
        begin = begin if text else number
        text += line
        if text.endswith("\\"):
            text = text[:-1]
        elif text.strip() and not text.lstrip().startswith("#"):
            commands.append((begin, text))
            text = ""
        else:
            text = ""
    if text:
        raise block.wrong("expected another line after a backslash", begin)
    return commands


def write_data(folder: pathlib.Path) -> None:
    """What the pages speak of: some text, and questions with answers of very different lengths."""
    (folder / "texts").mkdir()
    words = "a batch is split into parts and each part adds its gradient to one sum before the step is taken".split()
    for part in range(3):
        numbers = (part * 40009 + i * 7919 + i * i * 31 for i in range(9000))
        lines = (" ".join(words[n * (k + 3) // 7 % len(words)] for k in range(11)) for n in list(numbers)[::12])
        (folder / "texts" / f"{part}.txt").write_text("\n".join(lines) + "\n")
    (folder / "answers.jsonl").write_text("".join(
        f'{{"prompt": "{i % 37} + {i % 23} = ", "completion": "{i % 37 + i % 23}{" indeed" * (i % 7)}"}}\n'
        for i in range(400)))


class Run:
    """A page's folder, and what its last block wrote."""

    def __init__(self, folder: pathlib.Path, programs: pathlib.Path):
        self.folder = folder
        self.output: list[str] | None = None
        self.commands = self.left_out = 0
        self.missing: set[str] = set()  # programs that a set-up would bring
        self.environment = {name: value for name, value in os.environ.items()
                            if not re.match(r"(RANK|LOCAL_RANK|WORLD_SIZE|MASTER_|TORCHELASTIC_|OMPI_|PMIX_|SLURM_|ACCRUE_RUN_)", name)}
        self.environment["PATH"] = os.pathsep.join(
            [str(programs), os.environ.get("PATH", os.defpath)])
        self.environment |= ONE_THREAD
        write_data(folder)

    def block(self, block: Block) -> None:
        if block.language == "toml":
            self.write(block)
        elif block.language == "sh":
            self.commands_in(block)
        elif block.language == "text" and "output" in block.tags:
            self.compare(block)
        elif block.language == "cpp" and "from" in block.tags:
            compare_source(block)
        elif block.language == "diff":
            compare_difference(block)
        elif block.language == "python":
            compile_python(block)
            if "from" in block.tags:
                compare_source(block)
            if "file" in block.tags:
                (self.folder / block.tags["file"]).write_text("\n".join(block.lines) + "\n")
        if block.language not in ("sh", "text"):
            self.output = None

    def write(self, block: Block) -> None:
        name = re.fullmatch(r"# ([\w-]+\.toml)\b.*", block.lines[0] if block.lines else "")
        if not name:
            raise block.wrong("expected a first line such as '# gpt.toml'")
        (self.folder / name[1]).write_text("\n".join(block.lines) + "\n")

    def commands_in(self, block: Block) -> None:
        self.output = []
        needs = block.tags.get("needs")
        if needs and not shutil.which(needs, path=self.environment["PATH"]):
            self.left_out += 1
            self.missing |= {needs} - OF_OTHERS
            return
        for line, command in commands_of(block):
            status, output = self.shell(command)
            expected = int(block.tags.get("status", 0))
            if status != expected:
                raise block.wrong(f"expected status {expected}, received {status}: {command.strip()}\n{output}", line)
            self.output += output.splitlines()
            self.commands += 1

    def shell(self, command: str) -> tuple[object, str]:
        try:
            result = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, timeout=SECONDS,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired as error:
            return "none", f"still running after {error.timeout} s"
        return result.returncode, result.stdout.decode(errors="replace")

    def compare(self, block: Block) -> None:
        if self.output is None:
            raise block.wrong("expected a block of sh before its output")
        if not self.output:
            return  # left out
        written = [" ".join(line.split()) for line in self.output]
        for number, line in enumerate(block.lines):
            pattern = ".*".join(re.escape(part) for part in " ".join(line.split()).split("..."))
            if line.strip() and not any(re.fullmatch(pattern, other) for other in written):
                raise block.wrong(f"expected this line in the output: {line}\n" + "\n".join(self.output), number)


def lines_of(block: Block, file: str) -> list[str]:
    if not (ROOT / file).is_file():
        raise block.wrong(f"expected a file of the repository, received {file}", -1)
    return (ROOT / file).read_text().splitlines()


def compare_difference(block: Block) -> None:
    before, after = lines_of(block, block.tags["from"]), lines_of(block, block.tags["to"])
    whole = list(difflib.unified_diff(before, after, lineterm="", n=len(before)))[3:]
    place = 0
    for number, line in enumerate(block.lines):
        if line.strip() == "...":
            continue
        follows = number > 0 and block.lines[number - 1].strip() != "..."
        found = [i for i in range(place, place + 1 if follows else len(whole)) if whole[i:i + 1] == [line]]
        if not found:
            raise block.wrong(f"expected lines of the difference, in their order, received {line}", number)
        place = found[0] + 1


def compare_source(block: Block) -> None:
    shown = textwrap.dedent("\n".join(block.lines)).splitlines()
    lines = lines_of(block, block.tags["from"])
    for begin in range(len(lines) - len(shown) + 1):
        if textwrap.dedent("\n".join(lines[begin:begin + len(shown)])).splitlines() == shown:
            return
    raise block.wrong(f"expected lines of {block.tags['from']} as they are there")


def compile_python(block: Block) -> None:
    try:
        compile("\n".join(block.lines), str(block.page), "exec")
    except SyntaxError as error:
        raise block.wrong(f"expected Python, received {error.msg}", (error.lineno or 1) - 1) from error


def write_programs(folder: pathlib.Path) -> None:
    """python and torchrun by the tests' Python, which has all that torch imports; none where it is not there."""
    python = ROOT / ".venv-test" / "bin" / "python"
    for name, words in (("python", ""), ("torchrun", "-m torch.distributed.run ")):
        if python.exists():
            (folder / name).write_text(f'#!/bin/sh\nexec "{python}" {words}"$@"\n')
            (folder / name).chmod(0o755)


def run_page(page: pathlib.Path, programs: pathlib.Path) -> Run:
    with tempfile.TemporaryDirectory(prefix="accrue_guides_") as folder:
        blocks = blocks_of(page)
        run = Run(pathlib.Path(folder), programs)
        for block in blocks:
            run.block(block)
        return run


SOUND = """
```toml
# tiny.toml
[run]
out = "run"
steps = 1
threads = 1
[model]
layers = 1
heads = 1
width = 16
context = 16
[data]
train = ["texts/*.txt"]
[batch]
samples = 4
micro = 2
```
```sh
# a comment
accrue train tiny.toml \\
  --dry-run
```
```text output
effective batch 2 samples x 2 accumulation steps = 4 samples, ...
```
```sh status=2
accrue train tiny.toml --batch.samples=0
```
```cpp from=examples/cmake_project/main.cpp
int main() {
  torch::manual_seed(0);
```
```diff from=examples/by_feature/gan_plain.cpp to=examples/by_feature/gan.cpp
+  accrue::Accumulator acc_g(g), acc_d(d);
...
-    g_adam.zero_grad();
-    g_loss.backward();
```
```python
loss.backward()
```
```python from=tests/integration/guides.py
SECONDS = 600  # after which a command is taken to hang
```
```python file=hello.py
print("hello")
```
```sh status=0
python3 hello.py
```
```text output
hello
```
"""
# (what is put in the place of what, what the failure has to say)
MISTAKES = [
    ("tiny.toml \\\n  --dry-run", "missing.toml \\\n  --dry-run", "page.md:21: expected status 0, received 2"),
    ("sh status=2", "sh", "page.md:28: expected status 0, received 2"),
    ("sh status=2", "sh status=3", "page.md:28: expected status 3, received 2"),
    ("2 accumulation steps", "3 accumulation steps", "page.md:25: expected this line in the output"),
    ("width = 16", "width = 16\nbreadth = 16", "page.md:22: expected status 0, received 2"),
    ("manual_seed(0)", "manual_seed(1)", "page.md:31: expected lines of examples/cmake_project/main.cpp"),
    ("cpp from=examples/cmake_project/main.cpp", "cpp", "page.md:30: expected cpp from=FILE"),
    ("# tiny.toml\n", "", "page.md:3: expected a first line such as"),
    ("```sh\n", "```\n", "page.md:19: expected a block of"),
    ("```sh\n", "    accrue train tiny.toml\n\n```sh\n", "page.md:19: expected commands in blocks of sh"),
    ("```sh\n", "[a page](none.md)\n```sh\n", "page.md:19: expected a link to a file"),
    ("```sh\n", "# A heading\n[a place](page.md#another-heading)\n```sh\n", "page.md:20: expected a link to a file"),
    ("-    g_loss.backward();\n", "-    g_loss.forward();\n", "page.md:38: expected lines of the difference"),
    ("...\n-    g_adam", "-    g_adam", "page.md:36: expected lines of the difference"),
    (" to=examples/by_feature/gan.cpp", "", "page.md:34: expected diff from=FILE to=FILE"),
    ("loss.backward()\n", "\nloss.backward() if\n", "page.md:42: expected Python"),
    ("SECONDS = 600 ", "SECONDS = 500 ", "page.md:44: expected lines of tests/integration/guides.py"),
    ('print("hello")', 'print("goodbye")', "page.md:53: expected this line in the output"),
    ("output\nhello\n```", "output\nhello", "page.md:52: expected the end of the block"),
    ("file=hello.py", "file=other.py", "page.md:50: expected status 0, received 2"),
]


def check_controls(folder: pathlib.Path, programs: pathlib.Path) -> None:
    page = folder / "page.md"
    page.write_text(SOUND)
    if run_page(page, programs).commands != 3:
        raise Wrong("the control page: expected 3 commands to be run")
    page.write_text(SOUND + "\n```sh needs=no-such-program\ntrue\n```\n\n```sh needs=" + min(OF_OTHERS) + "\ntrue\n```\n")
    if run_page(page, programs).missing != {"no-such-program"}:
        raise Wrong("the control page: expected a program to be missing")
    for part, mistake, expected in MISTAKES:
        if SOUND.count(part) != 1:
            raise Wrong(f"control {expected!r}: {part!r} is not in the page once")
        page.write_text(SOUND.replace(part, mistake))
        try:
            run_page(page, programs)
        except Wrong as wrong:
            if not str(wrong).startswith(expected):
                raise Wrong(f"control {mistake!r}: expected {expected!r}, received {str(wrong)!r}") from wrong
        else:
            raise Wrong(f"control {mistake!r}: expected {expected!r}, and the page passed")


def part_of(text: str) -> tuple[int, int]:
    part, parts = (int(number) for number in text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError
    return part, parts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("pages", type=pathlib.Path, nargs="*")
    parser.add_argument("--part", type=part_of, default=(1, 1))
    parser.add_argument("--once", type=pathlib.Path)
    arguments = parser.parse_args()
    pages = arguments.pages or [page for page in (ROOT / "README.md", *sorted((ROOT / "docs" / "guide").rglob("*.md")))
                                if MARKER in page.read_text().splitlines()[:3]]
    if not pages:
        print("error: no page of docs/guide says", MARKER)
        return 1
    part, parts = arguments.part
    pages = pages[part - 1::parts]
    failed, missing = 0, set()
    with tempfile.TemporaryDirectory(prefix="accrue_guides_") as name, contextlib.ExitStack() as open_until_the_end:
        programs = pathlib.Path(name)
        program = arguments.program.resolve()
        if arguments.once:
            program = open_until_the_end.enter_context(StartedOnce(program, arguments.once, os.environ | ONE_THREAD)).program
        (programs / "accrue").symlink_to(program)
        write_programs(programs)
        for example in ("own_command", "unet"):
            built = arguments.program.resolve().parent / "examples" / "by_feature" / example
            if built.exists():
                (programs / example).symlink_to(built)
        try:
            if part == 1:  # of the test itself, whatever the pages are
                check_controls(programs, programs)
        except Wrong as wrong:
            print("error: the test itself:", wrong)
            return 1
        for page in pages:
            try:
                run = run_page(page, programs)
                missing |= run.missing
                print(f"{page.name}: {run.commands} commands" + (
                    f", {run.left_out} blocks left out for want of a program" if run.left_out else ""))
            except Wrong as wrong:
                print("error:", wrong)
                failed += 1
    if failed:
        return 1
    if missing:
        skips.missing_in_build(f"blocks were left out, since there is no {', no '.join(sorted(missing))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
