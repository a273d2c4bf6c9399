"""scripts/check_prose.py finds each of its patterns in each kind of text, and nothing in right sentences, code and names."""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import check_prose  # noqa: E402

# By pattern, a sentence in which it is found, and one that has its words and is right.
PLANTED = {
    "anew": ("The window is taken anew.", "The renewed lease counts."),
    "how-manieth": ("The how-manieth micro-batch it is.", "The index of the micro-batch."),
    "of one's own": ("A loop of one's\nown.", "One's own loop."),
    "tells of": ("An event tells of it.", "The tellers of the bank."),
    "a program tells": ("The step that tells its interval.", "Nobody can tell which."),
    "is told": ("The rank is told its share.", "Two runs are told apart by their names."),
    "says of": ("All that a pattern says of characters.", "The user says so."),
    "where: a condition": ("None is left where there is no room.", "The folder where it is stored."),
    "where: after a result": ("Null where the rank is lost.", "The line where a sample begins."),
    "where: begins a sentence": ("It runs. Where ranks are lost, it ends.", "It runs. The place where ranks meet, a store, is kept."),
    "nobody": ("Nobody reads it.", "No rank reads it."),
    "whoever": ("Whoever reads it waits.", "A rank that reads it waits."),
    "somebody": ("It is somebody's file.", "It is a user's file."),
    "archaic": ("A step whereby memory is freed.", "A step by which memory is freed."),
    "but for": ("All of them, but for the last.", "All of them but the last; but for a test this is enough."),
    "what is, is": ("What the stride of a dimension is, is unspecified.", "This is what the stride is."),
    "goes with ... alone": ("It goes with fp32 sums alone.", "It goes with the rank. One alone waits."),
    "deaf": ("A rank that is deaf.", "A rank that ignores messages."),
    "lives on": ("The store lives on.", "The store that lives in one process."),
    "padding": ("In order to train, it reads.", "The order to train in."),
    "what: begins a comment": ("What a plan is made within.", "What does a plan cost? What to do: plan again."),
}
KINDS = {
    "document": (check_prose.markdown, "# Title\n\n{}\n"),
    "comment": (check_prose.comments, "int a;\n\n/// {}\nint b;\n"),
    "comment behind code": (check_prose.comments, "int a;  ///< {}\n"),
    "message": (check_prose.messages, 'const char* a = "In short: {} It ends.";\n'),
    "docstring": (check_prose.docstrings, 'def a():\n    """{}"""\n'),
}
WRONG = "It is computed anew, whoever asks, where there is no room."
NOT_READ = {
    check_prose.markdown: ("```\n{}\n```\n", "It is `{}` there.\n", "<!-- {} -->\n", "A [link](https://a.example/anew).\n"),
    check_prose.comments: ('call("{}");\n', "/// As `{}` does.\n", "int nobody = 1;\n", 'const char* a = R"(// {})";\n'),
    check_prose.messages: ("// {}\n", 'call("anew");\n'),
    check_prose.docstrings: ('a = "{}"\n', "nobody = 1\n"),
}


def found(prose: str) -> set[str]:
    text = check_prose.Text(pathlib.Path("planted"), prose)
    return {finding.pattern.name for pattern in check_prose.PATTERNS for finding in check_prose.find(text, pattern)}


def check_patterns() -> None:
    assert set(PLANTED) == {pattern.name for pattern in check_prose.PATTERNS}
    for name, (wrong, right) in PLANTED.items():
        for kind, (prose_of, form) in KINDS.items():
            # On a message's or a comment's one line.
            line = (lambda sentence: sentence) if kind in ("document", "docstring") else (lambda sentence: sentence.replace("\n", " "))
            assert name in found(prose_of(form.format(line(wrong)))), (name, kind, prose_of(form.format(line(wrong))))
            assert name not in found(prose_of(form.format(line(right)))), (name, kind, right)


def check_what_is_not_read() -> None:
    for prose_of, forms in NOT_READ.items():
        for form in forms:
            assert not found(prose_of(form.format(WRONG))), (prose_of.__name__, form)


def check_lines() -> None:
    """A sentence over two lines of a comment is one, and its place is the line in which the words begin."""
    text = check_prose.Text(pathlib.Path("a.h"), check_prose.comments("int a;\n/// Nothing is left where\n/// there is no room.\nint b;  // anew\n"))
    places = {(finding.pattern.name, finding.line) for pattern in check_prose.PATTERNS for finding in check_prose.find(text, pattern)}
    assert places == {("where: a condition", 2), ("anew", 4)}, places


def program(*words: str) -> tuple[int, str]:
    ended = subprocess.run([sys.executable, str(ROOT / "scripts/check_prose.py"), *words], capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


def expect(result: tuple[int, str], status: int, *words: str) -> None:
    assert result[0] == status and all(word in result[1] for word in words), result


def git(folder: pathlib.Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words], cwd=folder, check=True, capture_output=True)


def check_program() -> None:
    with tempfile.TemporaryDirectory(prefix="accrue-prose-") as scratch:
        root = pathlib.Path(scratch)
        (root / "README.md").write_text("# A\n\nRight.\n")
        (root / "CHANGELOG.md").write_text("## 2\n\n- Right.\n\n## 1\n\n- A rank that is deaf.\n")
        expect(program(str(root)), 0)
        (root / "README.md").write_text("# A\n\nIt is computed anew.\n")
        expect(program(str(root)), 1, 'README.md:3: "anew"', 'try "again"')
        (root / "CHANGELOG.md").write_text("## 2\n\n- A rank that is deaf.\n")
        expect(program(str(root)), 1, 'CHANGELOG.md:3: "deaf"')
        expect(program(str(root), "--group", "letters"), 2, "expected a group among readme", "received letters")
        git(root, "init", "-q")
        for subject in ("First", "x" * 72):
            git(root, "commit", "-q", "--allow-empty", "-m", subject)
        expect(program(str(root), "--commits", "HEAD~1"), 0)
        git(root, "commit", "-q", "--allow-empty", "-m", "y" * 73 + "\n\nBody.")
        expect(program(str(root), "--commits", "HEAD~1"), 1, "y" * 73 + ": 73 characters")
        expect(program(str(root), "--commits", "HEAD~2..HEAD~1"), 0)
        expect(program(str(root), "--commits", "tag"), 2, "expected a tag")
        git(root, "tag", "v1")
        expect(program(str(root), "--commits", "tag"), 0)
        expect(program(str(root), "--commits", "no-such"), 2, "received", "no-such")


def main() -> None:
    check_patterns()
    check_what_is_not_read()
    check_lines()
    check_program()


if __name__ == "__main__":
    main()
