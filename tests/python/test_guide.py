"""What docs/guide/python.md shows runs, block after block."""

import pathlib
import re

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "python.md"


def test_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)
    assert len(blocks) > 5
    names = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
