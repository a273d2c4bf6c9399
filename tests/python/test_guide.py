"""What docs/guide/python.md shows runs, block after block."""

import pathlib
import re

import accrue

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "python.md"


def test_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)
    assert len(blocks) > 5
    names = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)


def test_translations_are_python():
    """Their lines and ours are shown, and not run: they want the other systems."""
    pages = sorted((GUIDE.parent / "from").glob("*.md"))
    assert len(pages) == 6
    for page in pages:
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S):
            compile(block, str(page), "exec")
        for name in re.findall(r"`accrue\.(\w+)", page.read_text()):
            assert hasattr(accrue, name), f"{page.name} names accrue.{name}"
