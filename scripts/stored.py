"""Results that scripts keep in the repository: which commit they are of, and how they are written."""
import os
import pathlib
import subprocess


def commit_of(root: pathlib.Path, own: set[str]) -> str:
    """The commit that is checked out; "+" marks a tree with changes beside `own`, what the caller itself writes."""
    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout
    changed = {line[3:] for line in git("status", "--porcelain", "--untracked-files=no").splitlines()}
    return git("rev-parse", "--short=10", "HEAD").strip() + ("+" if changed - own else "")


def write(path: pathlib.Path, text: str) -> None:
    """Whole or not at all, whoever is killed meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}-{os.getpid()}.partial")
    try:
        with open(partial, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
