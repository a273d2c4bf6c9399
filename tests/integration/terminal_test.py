"""What a run shows on a terminal: tmux is the terminal, which wraps its lines anew when it is resized.

terminal_test.py ACCRUE
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))

import skips  # noqa: E402

ACCRUE = ""
SECONDS = 120  # after which a run is taken to hang
LABELS = ("step", "loss", "speed", "memory", "batch")
VIEW = re.compile(r"step {4}\d+/\d+  (left|\d+%)|(loss {4}|speed {3}|memory {2}|batch {3})\S")
UTF8 = {"LC_ALL": "C.UTF-8"}


class Terminal:
    """A tmux server of its own with one window, in which a command runs."""

    def __init__(self, folder: pathlib.Path, columns: int, rows: int, command: str, environment: dict[str, str]):
        # A server that was told to end may still hold its socket: each has a folder to itself.
        own = pathlib.Path(tempfile.mkdtemp(prefix="terminal-", dir=folder))
        self.socket = own / "tmux"
        self.status = own / "status"
        # Without the shell's prompt nothing but the command writes; it outlives Ctrl-C and waits for the end of the test.
        script = own / "command.sh"
        script.write_text(f"trap : INT\ncd '{folder}'\n{command}\necho $? > '{own}/status.new'; mv '{own}/status.new' '{self.status}'\n"
                          f"sleep {SECONDS}\n")
        inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TMUX", "LC_ALL")}
        self.environment = inherited | environment
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), "sh", str(script))

    def tmux(self, *words: str) -> str:
        return subprocess.run(["tmux", "-u", "-S", str(self.socket), *words], env=self.environment, check=True,
                              capture_output=True, text=True, timeout=SECONDS).stdout

    def resize(self, columns: int, rows: int) -> None:
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def press(self, key: str) -> None:
        self.tmux("send-keys", key)

    def screen(self, *options: str) -> list[str]:
        return self.tmux("capture-pane", "-p", *options).splitlines()

    def all_lines(self) -> list[str]:
        """Those that scrolled away, too."""
        return self.screen("-S", "-")

    def end(self) -> None:
        subprocess.run(["tmux", "-S", str(self.socket), "kill-server"], capture_output=True, check=False)


def view_lines(lines: list[str]) -> list[str]:
    """Those of the view, and not the log's or the result's."""
    return [line for line in lines if VIEW.match(line)]


def step_shown(lines: list[str]) -> int:
    """The step in the view; -1 where there is none."""
    shown = [re.match(r"step {4}(\d+)/\d+  (?:left|\d+%)", line) for line in lines]
    return next((int(found[1]) for found in shown if found), -1)


def small_tokenizer() -> dict:
    """Printable characters, and three special tokens."""
    letters = [chr(code) for code in range(33, 127)] + ["Ġ", "Ċ"]
    specials = [{"id": len(letters) + i, "content": word, "special": True} for i, word in enumerate(("<u>", "<a>", "<end>"))]
    bytes_of_text = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    return {"added_tokens": specials, "normalizer": None, "pre_tokenizer": bytes_of_text, "post_processor": None,
            "decoder": bytes_of_text,
            "model": {"type": "BPE", "vocab": {letter: i for i, letter in enumerate(letters)}, "merges": []}}


TEMPLATE = ("{% for m in messages %}{{ '<u>' if m.role == 'user' else '<a>' }}{{ m.content }}<end>{% endfor %}"
            "{% if add_generation_prompt %}<a>{% endif %}")


class OnATerminal(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "text.txt").write_text("".join(f"line {i * 7919 % 1000} of a small text\n" for i in range(300)))
        (self.folder / "run.toml").write_text("""
            [run]
            out = "out"
            steps = 60
            threads = 1
            eval_every = "20 steps"
            [model]
            layers = 1
            heads = 2
            width = 32
            context = 16
            [data]
            train = ["text.txt"]
            val_fraction = 0.05
            [batch]
            samples = 16
            micro = 4
            """)

    def start(self, columns=80, rows=24, words="", environment=None) -> Terminal:
        terminal = Terminal(self.folder, columns, rows, f"'{ACCRUE}' train run.toml {words}",
                            UTF8 if environment is None else environment)
        self.addCleanup(terminal.end)
        return terminal

    def start_long(self, columns=80, rows=24, environment=None) -> Terminal:
        terminal = self.start(columns, rows, "--run.steps=1000000 --run.eval_every='400 steps'", environment)
        self.wait(terminal, lambda: step_shown(terminal.screen()) > 0)
        return terminal

    def wait(self, terminal: Terminal, is_so) -> None:
        deadline = time.monotonic() + SECONDS
        while not is_so():
            if time.monotonic() > deadline:
                self.fail("the terminal does not come to what is waited for:\n" + "\n".join(terminal.screen()))
            time.sleep(0.02)

    def wait_for_end(self, terminal: Terminal) -> int:
        self.wait(terminal, terminal.status.exists)
        return int(terminal.status.read_text())

    def test_an_error_is_shown_by_its_parts(self):
        for columns in (80, 40):
            with self.subTest(columns=columns):
                terminal = self.start(columns, words="--optim.lrr=1")
                self.assertEqual(self.wait_for_end(terminal), 2)
                lines = [line for line in terminal.all_lines() if line]
                terminal.end()
                self.assertTrue(lines[0].startswith("error: config key optim.lrr"), lines)
                self.assertIn("  expected  a known key", lines)
                self.assertIn("  try       --optim.lr=1", lines)
                self.assertTrue(all(len(line) <= columns for line in lines), lines)

    def test_nothing_is_broken_in_mid_word(self):
        """Joined lines (-J) are as long as they were printed."""
        for verb in ("train", "verify"):
            with self.subTest(verb=verb):
                terminal = Terminal(self.folder, 80, 40, f"'{ACCRUE}' {verb} run.toml --run.out={verb}", UTF8)
                self.addCleanup(terminal.end)
                self.assertEqual(self.wait_for_end(terminal), 0)
                lines = [line.rstrip() for line in terminal.screen("-J", "-S", "-")]
                self.assertTrue(any(lines))
                self.assertEqual([line for line in lines if len(line) > 80], [])

    def test_a_whole_run_leaves_its_log_one_view_and_the_result(self):
        terminal = self.start()
        self.assertEqual(self.wait_for_end(terminal), 0)
        lines = terminal.all_lines()
        view = view_lines(lines)
        self.assertEqual([line.split()[0] for line in view], list(LABELS), lines)
        self.assertRegex(view[0], r"^step    60/60  left \S+  100%  +█+$|^step    60/60  100%  +█+$")
        self.assertRegex(view[1], r"^loss    \d\.\d{4}  eval \d\.\d{4} +[▁▂▃▄▅▆▇█]{20,}$")
        self.assertRegex(view[4], r"^batch   4 samples x 4 accumulation steps = 16 samples, 256 tokens$")
        text = "\n".join(lines)
        self.assertEqual(len(re.findall(r"^step 20/60  eval loss", text, re.MULTILINE)), 1, "the log is kept")
        self.assertLess(text.index("step 20/60  eval loss"), text.index("step 60/60  eval loss"))
        self.assertLess(text.index("step 60/60  eval loss"), text.index("step    60/60"))
        self.assertLess(text.index("step    60/60"), re.search(r"^run +out$", text, re.MULTILINE).start(), "the result comes last")

    @staticmethod
    def ends_with_a_view(screen: list[str], columns: int, rows: int) -> bool:
        expected = list(LABELS)[:min(len(LABELS), rows - 1)]
        view = view_lines(screen)[-len(expected):]
        last = max((i for i, line in enumerate(screen) if line), default=-1)
        return ([line.split()[0] for line in view] == expected and all(len(line) < columns for line in view)
                and screen[last] == view[-1])

    def test_a_resized_terminal_shows_one_view_that_fits(self):
        """A terminal that wraps its lines in the moment of a drawing may keep a piece of an older view above (docs/notes/terminal.md)."""
        terminal = self.start_long(120, 30)
        for columns, rows in ((40, 30), (80, 24), (80, 6), (80, 24), (24, 24), (100, 12)):
            terminal.resize(columns, rows)
            before = step_shown(terminal.screen())
            self.wait(terminal, lambda: step_shown(terminal.screen()) > before + 20)
            self.wait(terminal, lambda: self.ends_with_a_view(terminal.screen(), columns, rows))
        terminal.press("C-c")
        self.assertEqual(self.wait_for_end(terminal), 130)
        left = [line.split()[0] for line in view_lines(terminal.screen())]
        self.assertNotEqual(left[-len(LABELS):], list(LABELS), "the view is wiped")

    def test_after_ctrl_c_it_says_what_was_saved_and_how_to_go_on(self):
        terminal = self.start_long()
        terminal.press("C-c")
        self.assertEqual(self.wait_for_end(terminal), 130)
        text = " ".join("".join(terminal.screen("-J")).split())
        said = re.search(r"interrupted after step (\d+); a checkpoint was written: (out/checkpoints/step-\d+); "
                         r"continue with: accrue train run.toml .* --resume", text)
        self.assertIsNotNone(said, text)
        self.assertEqual(int(said[2].rpartition("-")[2]), int(said[1]))
        self.assertTrue((self.folder / said[2]).is_dir())
        self.assertEqual(view_lines(terminal.all_lines()), [])

    def test_at_40_columns_nothing_wraps(self):
        terminal = self.start_long(40, 24)
        screen = terminal.screen()
        view = view_lines(screen)
        self.assertEqual([line.split()[0] for line in view], list(LABELS), screen)
        self.assertIn("batch   4 x 4 = 16 samples", view)
        first = screen.index(view[0])
        self.assertEqual(screen[first:first + len(view)], view, "one below the other")

    def test_colours_are_left_out_where_somebody_says_so(self):
        coloured = self.start_long().screen("-e")
        self.assertTrue(any("\x1b[32m" in line for line in coloured), coloured)
        self.tearDown()
        self.doCleanups()
        self.setUp()
        plain = self.start_long(environment=UTF8 | {"NO_COLOR": "1"}).screen("-e")
        self.assertFalse(any("\x1b" in line for line in plain), plain)

    def test_there_is_only_ascii_where_the_locale_has_no_more(self):
        screen = self.start_long(environment={"LC_ALL": "C"}).screen()
        self.assertTrue("\n".join(screen).isascii(), screen)
        self.assertRegex(view_lines(screen)[1], r" [#*+=,._-]+$")

    def test_a_dumb_terminal_gets_lines(self):
        terminal = Terminal(self.folder, 80, 24, f"TERM=dumb '{ACCRUE}' train run.toml --run.out=dumb", UTF8)
        self.addCleanup(terminal.end)
        self.wait(terminal, terminal.status.exists)
        lines = terminal.all_lines()
        self.assertEqual(view_lines(lines), [])
        self.assertTrue(any(re.match(r"step 60/60  loss ", line) for line in lines), lines)

    def test_quiet_shows_the_result_alone(self):
        terminal = self.start(words="--quiet")
        self.assertEqual(self.wait_for_end(terminal), 0)
        lines = [line for line in terminal.all_lines() if line]
        self.assertEqual(lines[0].split(), ["run", "out"])
        self.assertTrue(all(re.match(r"\w+ +\S", line) for line in lines), lines)
        streams = subprocess.run([ACCRUE, "train", "run.toml", "--quiet", "--run.out=again"], cwd=self.folder,
                                 capture_output=True, text=True, check=True)
        self.assertEqual(streams.stderr, "")
        refused = subprocess.run([ACCRUE, "train", "run.toml", "--quiet"], cwd=self.folder, capture_output=True, text=True,
                                 check=False)
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertTrue(refused.stderr.startswith("error: "), refused.stderr)

    def test_a_conversation_asks_answers_and_ends_with_ctrl_d(self):
        words = self.folder / "words"
        words.mkdir()
        (words / "tokenizer.json").write_text(json.dumps(small_tokenizer()))
        (words / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>", "chat_template": TEMPLATE}))
        subprocess.run([ACCRUE, "train", "run.toml", "--quiet", "--run.steps=2", "--data.tokenizer=words"], cwd=self.folder,
                       check=True, capture_output=True)
        terminal = Terminal(self.folder, 80, 24, f"'{ACCRUE}' sample out --chat --tokens 8 --seed 1", UTF8)
        self.addCleanup(terminal.end)
        for turn in (1, 2):
            self.wait(terminal, lambda: [line.startswith(">") for line in terminal.all_lines()].count(True) == turn)
            terminal.press(f"hello{turn}")
            terminal.press("Enter")
        self.wait(terminal, lambda: [line.startswith(">") for line in terminal.all_lines()].count(True) == 3)
        terminal.press("C-d")
        self.assertEqual(self.wait_for_end(terminal), 0)
        lines = terminal.all_lines()
        self.assertTrue(lines[0].startswith("> hello1"), lines)
        self.assertTrue(any(re.match(r"\d+ tokens, \S+( k)? tokens/s", line) for line in lines), lines)


if __name__ == "__main__":
    ACCRUE = str(pathlib.Path(sys.argv.pop(1)).resolve())
    if shutil.which("tmux") is None:
        skips.missing_in_build("there is no tmux")
    unittest.main(verbosity=2)
