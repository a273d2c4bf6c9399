#!/usr/bin/env python3
"""Whether rooms use only rooms before them:   scripts/check_rooms.py [ROOT]

The order is the table of rooms in docs/design.md, from the first row to the last. A row is a room, a folder inside one, or
several folders ("kernels/gemm, kernels/rows"), which may use each other. Checked are the includes of src/ and
include/, and what each room's CMakeLists.txt says that it depends on: that these rooms come before it, and that they are
all whose headers it includes. Prints each include that breaks the order; the exit status is 1 then.
"""
import dataclasses
import functools
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^">]+)[">]')
TARGET = re.compile(r"accrue_add_room\(\s*(\w+)(.*?)\)", re.S)
GROUP = re.compile(r"accrue_add_group\(\s*(\w+)(.*?)\)", re.S)


def fail(operation: str, expected: str, received: str, suggestion: str) -> None:
    sys.exit(f"error: {operation}: expected {expected}, received {received}; try {suggestion}")


@dataclasses.dataclass(frozen=True)
class Room:
    place: int  # of its row
    headers: set[str]  # that its row claims by name


def rooms_of(design: pathlib.Path) -> dict[str, Room]:
    """The folders in the first column of the table."""
    rows: dict[str, Room] = {}
    in_table = False
    for line in design.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[0] == "room":
            in_table = True
        elif in_table and not line.startswith("|"):
            break
        elif in_table and not cells[0].startswith("-"):
            place = len(rows)
            for room in cells[0].replace("`", "").split(", "):
                rows[room] = Room(place, set(re.findall(r"`(\w+\.h)`", line)))
    if not rows:
        fail("rooms", "a table whose first column is called room", f"none in {design}", "docs/design.md of this version")
    return rows


class Tree:
    def __init__(self, root: pathlib.Path):
        self.root = root
        self.rows = rooms_of(root / "docs" / "design.md")
        self.files = sorted(path.relative_to(root) for folder in ("src", "include") for path in (root / folder).rglob("*")
                            if path.suffix in (".h", ".cpp"))
        self.known = {str(path): path for path in self.files}

    def room_of_source(self, path: pathlib.Path) -> str | None:
        """The longest row that is a folder above it, of a path from src/."""
        parts = path.parts[1:-1]
        return next(("/".join(parts[:n]) for n in range(len(parts), 0, -1) if "/".join(parts[:n]) in self.rows), None)

    def room_of_header(self, path: pathlib.Path) -> str | None:
        """Of a public header: the room that its path names, or the part of it that has its source or names it."""
        room = path.parts[2] if len(path.parts) > 3 else None
        if room in self.rows or room is None:
            return room
        for source in self.files:
            if source.stem == path.stem and source.suffix == ".cpp" and source.parts[:2] == ("src", room):
                return self.room_of_source(source)
        return next((name for name, row in self.rows.items() if name.startswith(room + "/") and path.name in row.headers), None)

    @functools.cache
    def room_of(self, path: pathlib.Path) -> str | None:
        return self.room_of_source(path) if path.parts[0] == "src" else self.room_of_header(path)

    def is_before(self, room: str, other: str) -> bool:
        return self.rows[room].place < self.rows[other].place

    def included_by(self, path: pathlib.Path, name: str) -> pathlib.Path | None:
        """The file of this tree that it is; none for all others."""
        folders = ["include", "src", *map(str, path.parents if path.parts[0] == "src" else [path.parent])]
        return next((file for folder in folders if (file := self.known.get(f"{folder}/{name}"))), None)


def check_includes(tree: Tree) -> tuple[list[str], dict[str, dict[str, str]]]:
    """What breaks the order; and by room, the rooms that it includes, each with a place where it does."""
    broken: list[str] = []
    used: dict[str, dict[str, str]] = {room: {} for room in tree.rows}
    for path in tree.files:
        room = tree.room_of(path)
        if path.parent == pathlib.Path("include/accrue"):  # includes of rooms' headers, above all of them
            continue
        if room is None:
            broken.append(f"{path}: belongs to no room of docs/design.md")
            continue
        for number, line in enumerate((tree.root / path).read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            target = tree.included_by(path, found[1]) if found else None
            other = tree.room_of(target) if target else None
            if other is None or other == room:
                continue
            used[room].setdefault(other, f"{path}:{number}")
            if tree.is_before(room, other):
                broken.append(f"{path}:{number}: {room} includes {found[1]} of {other}, which comes after it in docs/design.md")
    return broken, used


def declared_dependencies(tree: Tree, keyword: str) -> dict[str, list[str]]:
    """By row, what the CMakeLists.txt of its folder names after `keyword`; a group by its own name, with what it stands for."""
    row_of_target = {row.replace("/", "_"): row for row in tree.rows} | {"config": "train/config"}
    declared: dict[str, list[str]] = {}
    for path in sorted((tree.root / "src").rglob("CMakeLists.txt")):
        text = path.read_text()
        found = [(name, rooms[1]) for name, body in TARGET.findall(text)
                 if (rooms := re.search(keyword + r"([\w\s]*?)(?:SOURCES|DEPENDS|HEADERS_OF|NO_TORCH|$)", body))] + GROUP.findall(text)
        for name, words in found:
            declared[row_of_target.get(name, name)] = [row_of_target.get(word, word) for word in words.split()]
    return declared


def closure(room: str, declared: dict[str, list[str]]) -> set[str]:
    """It, and all that it depends on."""
    reached = {room}
    waiting = [room]
    while waiting:
        new = set(declared.get(waiting.pop(), [])) - reached
        reached |= new
        waiting += new
    return reached


def check_targets(tree: Tree, used: dict[str, dict[str, str]]) -> list[str]:
    broken = []
    declared = declared_dependencies(tree, "DEPENDS")
    headers_of = declared_dependencies(tree, "HEADERS_OF")
    for room, others in declared.items():
        for other in others + headers_of.get(room, []):
            if room in tree.rows and other in tree.rows and tree.is_before(room, other):
                broken.append(f"CMake: {room} depends on {other}, which comes after it in docs/design.md")
    built = set(declared) | {other for others in declared.values() for other in others}
    for room, others in used.items():
        target = built_in(room, built)
        for other, place in others.items():
            if target and built_in(other, built) and built_in(other, built) not in closure(target, declared) | set(headers_of.get(target, [])):
                broken.append(f"{place}: {room} includes {other}, and its CMakeLists.txt does not depend on it")
    return broken


def built_in(room: str, built: set[str]) -> str | None:
    """The row whose target has its sources: it, or the nearest one above; none of headers only."""
    parts = room.split("/")
    return next((row for n in range(len(parts), 0, -1) if (row := "/".join(parts[:n])) in built), None)


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1])
    tree = Tree(root)
    broken, used = check_includes(tree)
    broken += check_targets(tree, used)
    for line in broken:
        print(line)
    if not broken:
        print(f"{len(tree.files)} files in {len(tree.rows)} rooms: each uses only rooms before it")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
