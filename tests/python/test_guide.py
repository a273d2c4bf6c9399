"""What docs/guide/python.md and the recipe of a Python loop show runs, block after block."""

import pathlib
import re

import pytest

import accrue

GUIDES = pathlib.Path(__file__).parents[2] / "docs" / "guide"


@pytest.mark.parametrize("name", ["python.md", "recipes/python_loop.md"])
def test_blocks_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = GUIDES / name
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)
    assert len(blocks) > 5
    names = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)


def test_the_readme_shows_what_its_loop_prints(capsys):
    """The words are equal. Rounding, and with it the bound, differs between machines."""
    block = re.search(r"^```python\n(.*?)^```$", (GUIDES / "python.md").read_text(), re.M | re.S)[1]
    shown = re.search(r"^```text\n(Not equal: .*?)^```$", (GUIDES.parents[1] / "README.md").read_text(), re.M | re.S)[1]
    exec(compile(block, "python.md", "exec"), {"__name__": "guide"})
    printed = capsys.readouterr().out
    number = r"\b\d+\.\d+(?:e-\d+)?"
    assert re.sub(number, "#", printed) == re.sub(number, "#", shown)
    error, bound, difference, digits = map(float, re.findall(number, printed))
    assert (error, difference) == (0.415, 0.415)
    assert [error, bound, difference, digits] == [pytest.approx(float(there), rel=0.2) for there in re.findall(number, shown)]


def test_translations_are_python():
    """Their lines and ours are shown, and not run: they want the other systems."""
    pages = sorted((GUIDES / "from").glob("*.md"))
    assert len(pages) == 6
    for page in pages:
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S):
            compile(block, str(page), "exec")
        for name in re.findall(r"`accrue\.(\w+)", page.read_text()):
            assert hasattr(accrue, name), f"{page.name} names accrue.{name}"
