#!/usr/bin/env python3
"""Writes the pages from which Sphinx builds the documentation:   scripts/docs_source.py [OUT]   (default: build/docs/source)

The folder has the same layout as the repository, so that links between documents work as they are. In it are:

- all Markdown documents, and the files that they link to: a source file becomes a page with its text, a folder a page with its files
- navigation: docs/README.md is the first page, and its sections with their links are the sections of the side bar
- docs/cpp/: one page for each public header, of which Doxygen supplies the text
- docs/python/: one page for the Python package, of which sphinx-autoapi supplies the text

A document that docs/README.md does not link to is in the last section of the side bar.
"""
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
INDEX = "docs/README.md"
NOTES = "docs/notes/"
NOT_PAGES = re.compile(r"docs/benchmarks\.in\.md|third_party/|bench/")
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^()\s#]+)(?P<anchor>#[^()\s]*)?\)")
FENCE = re.compile(r"^( *)(```|~~~).*?^ *\2", re.MULTILINE | re.DOTALL)
SHOWN = {".cpp": "cpp", ".h": "cpp", ".py": "python", ".sh": "bash", ".md": "markdown", "": "text"}
ROOM = re.compile(r"^\| ([\w/]+) \|", re.MULTILINE)
UNREAD_INITIALIZER = re.compile(r"\s*<initializer>(?:= *)?(?:\{\s*\.|\[).*?</initializer>", re.DOTALL)
# Folders that have a reference instead of a list of files.
REFERENCES = {"include/accrue": "docs/cpp/index", "python/accrue": "docs/python/accrue/index"}


def tracked() -> list[str]:
    return subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")[:-1]


def code_block(language: str, text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def toctree(pages: list[str], caption: str = "", shown: bool = False) -> str:
    """Pages are paths from the root of the source, without a suffix."""
    options = ([f":caption: {caption}"] if caption else []) + ([":maxdepth: 1"] if shown else [":hidden:"])
    return "\n".join(["```{toctree}", *options, *(f"/{page}" for page in pages), "```", ""])


class Source:
    def __init__(self, out: pathlib.Path):
        self.out = out
        self.files = tracked()
        self.folders = {parent.as_posix() for name in self.files for parent in pathlib.PurePosixPath(name).parents}
        self.documents = [name for name in self.files if name.endswith(".md") and not NOT_PAGES.match(name)]
        self.linked: set[str] = set()

    def write(self, name: str, text: str) -> None:
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def with_links_to_pages(self, name: str) -> str:
        """The text of a document, whose links to source files and folders lead to the pages that they become."""
        def target_of(match: re.Match) -> str:
            target = target_from(name, match)
            if target in REFERENCES:
                return f"[{match['text']}]({posixpath.relpath(REFERENCES[target], posixpath.dirname(name) or '.')})"
            is_page = target in self.folders or (target in self.files and pathlib.PurePosixPath(target).suffix in SHOWN)
            if target in self.documents or not is_page:
                return match[0]
            self.linked.add(target)
            return f"[{match['text']}]({posixpath.relpath(target, posixpath.dirname(name) or '.')}.page.md)"

        text = (ROOT / name).read_text()
        parts, end = [], 0
        for fence in FENCE.finditer(text):
            parts += [LINK.sub(target_of, text[end:fence.start()]), fence[0]]
            end = fence.end()
        return "".join(parts) + LINK.sub(target_of, text[end:])

    def write_page_of(self, name: str) -> None:
        """A source file, or a folder with its files."""
        title = f"---\norphan: true\n---\n\n# `{name}`\n\n"
        if name.endswith(".md"):
            self.write(f"{name}.page.md", title + (ROOT / name).read_text())
        elif name in self.files:
            language = SHOWN[pathlib.PurePosixPath(name).suffix]
            self.write(f"{name}.page.md", title + code_block(language, (ROOT / name).read_text()))
        else:
            within = [file for file in self.files if file.startswith(name + "/")]
            self.write(f"{name}.page.md", title + "".join(f"- `{file[len(name) + 1:]}`\n" for file in within))

    def write_documents(self) -> None:
        listed = navigation((ROOT / INDEX).read_text())
        chosen = {page for pages in listed.values() for page in pages}
        others = [page for name in self.documents if (page := name.removesuffix(".md")) not in chosen and name != INDEX]
        trees = ""
        for caption, pages in listed.items():
            notes = [page for page in pages if page.startswith(NOTES)]
            shown = [page for page in pages if page not in notes] + (["docs/notes/index"] if notes else [])
            if notes:
                self.write("docs/notes/index.md", "# Notes on decisions\n\nEach has the measurement that made it.\n\n" + toctree(notes, shown=True))
            trees += toctree(shown, caption)
        trees += toctree(others, "More")
        for name in self.documents:
            self.write(name, self.with_links_to_pages(name) + ("\n" + trees if name == INDEX else ""))
        for name in self.files:
            if re.match(r"docs/.*\.(svg|png)$|bench/results/[^/]*\.json$", name):
                (self.out / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.out / name)
        for name in sorted(self.linked):
            self.write_page_of(name)

    def write_headers(self) -> None:
        """The rooms in the order of docs/design.md, with their headers."""
        headers = [name.removeprefix("include/") for name in self.files if re.match(r"include/.*\.h$", name)]
        order = [match[1] for match in ROOM.finditer((ROOT / "docs/design.md").read_text())]
        rooms = sorted({room_of(header) for header in headers}, key=lambda room: (room != "", order.index(room) if room in order else len(order), room))
        index = "# C++ reference\n\nThe public headers, each with its contract. A program includes `accrue/accrue.h`, or only the headers that it uses.\n"
        for room in rooms:
            of_room = [header for header in headers if room_of(header) == room]
            pages = [f"docs/cpp/{header.removesuffix('.h')}" for header in of_room]
            index += f"\n## {room or 'accrue'}\n\n" + toctree(pages, shown=True)
            for header, page in zip(of_room, pages):
                self.write(f"{page}.md", f"# `{header.removeprefix('accrue/')}`\n\n{contents_of_header(header)}")
        self.write("docs/cpp/index.md", index)


def target_from(name: str, link: re.Match) -> str:
    """The path from the root of the repository, of a link in the document `name`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), link["target"]))


def room_of(header: str) -> str:
    return header.split("/")[1] if header.count("/") > 1 else ""


def contents_of_header(header: str) -> str:
    text = (ROOT / "include" / header).read_text()
    if not re.search(r"\bnamespace\b", text):
        return code_block("cpp", text)
    return code_block("cpp", f'#include "{header}"') + f"\n```{{doxygenfile}} {header}\n:project: accrue\n```\n"


def navigation(index: str) -> dict[str, list[str]]:
    """By section of the index, the documents that its list links to."""
    sections: dict[str, list[str]] = {}
    pages: list[str] = []
    known: set[str] = set()
    for line in index.splitlines():
        if line.startswith("## "):
            pages = sections.setdefault(line[3:].strip(), [])
        for match in LINK.finditer(line):
            target = target_from(INDEX, match)
            page = REFERENCES.get(target) or (target.removesuffix(".md") if target.endswith(".md") else "")
            if page and page not in known:
                known.add(page)
                pages.append(page)
    return {caption: pages for caption, pages in sections.items() if pages}


def mend_xml(xml: pathlib.Path) -> None:
    """Doxygen's index names files without their folders, and two rooms may have a header of one name. Sphinx reads no designated
    initializers and no lambdas."""
    def named(match: re.Match) -> str:
        location = re.findall(r'<location file="([^"]*)"/>', (xml / f"{match[2]}.xml").read_text())[-1]
        return f"{match[1]}<name>{location}</name>"

    index = xml / "index.xml"
    index.write_text(re.sub(r'(<compound refid="([^"]*)" kind="file">)<name>[^<]*</name>', named, index.read_text()))
    for file in xml.glob("*.xml"):
        text = file.read_text()
        mended = UNREAD_INITIALIZER.sub("", text)
        if mended != text:
            file.write_text(mended)


def main() -> None:
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/docs/source")
    shutil.rmtree(out, ignore_errors=True)
    source = Source(out)
    source.write_documents()
    source.write_headers()
    mend_xml(ROOT / "build/docs/xml")


if __name__ == "__main__":
    main()
