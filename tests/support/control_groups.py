"""Control groups of this machine, of version 1 or 2, for a process that enters them before it begins. Only the standard library."""
import os
import pathlib
import time

ROOT = pathlib.Path("/sys/fs/cgroup")
SECONDS = 30  # after which a group is taken not to become empty


def is_unified(controller: str) -> bool:
    """Whether it is one of version 2."""
    controllers = ROOT / "cgroup.controllers"
    return controllers.exists() and controller in controllers.read_text().split()


class Group:
    """Control groups in one another, the innermost last, each with limits by the names of their files. They end with the block."""

    def __init__(self, controller: str, limits: list[dict[str, str]]):
        """Raises OSError if this machine lets nobody make them."""
        unified = is_unified(controller)
        folder = ROOT if unified else ROOT / controller
        self._folders: list[pathlib.Path] = []
        try:
            for level, files in enumerate(limits):
                enabled = folder / "cgroup.subtree_control"
                if unified and controller not in enabled.read_text().split():
                    enabled.write_text(f"+{controller}")
                folder = folder / f"accrue_{controller}_{os.getpid()}_{level}"
                folder.mkdir()
                self._folders.append(folder)
                for name, value in files.items():
                    (folder / name).write_text(value)
        except OSError:
            self.__exit__()
            raise

    @property
    def folder(self) -> pathlib.Path:
        return self._folders[-1]

    def enter(self) -> None:
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        for folder in reversed(self._folders):
            deadline = time.monotonic() + SECONDS
            while (folder / "cgroup.procs").read_text():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{folder} does not become empty")
                time.sleep(0.02)
            folder.rmdir()
