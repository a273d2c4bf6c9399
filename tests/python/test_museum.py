"""Each exhibit is found and named by one call; the same loop, mended, is not."""

import importlib
import pathlib
import re

import pytest

FOLDER = pathlib.Path(__file__).parent / "museum"
EXHIBITS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("__init__", "parts"))


def test_has_twenty_exhibits_with_their_sources():
    assert len(EXHIBITS) >= 20
    for name in EXHIBITS:
        text = (FOLDER / f"{name}.py").read_text()
        assert re.search(r"^https://github\.com/\S+ \(20\d\d\)$", text, re.M), f"{name} names no source and year"


@pytest.mark.parametrize("name", EXHIBITS)
def test_names_the_cause(name):
    exhibit = importlib.import_module(f"museum.{name}")
    report = exhibit.exhibit()
    assert not report.equal, f"{name} passed\n{report}"
    assert report.cause == exhibit.CAUSE, f"{name}\n{report}"
    assert exhibit.CAUSE in report.conclusion and report.advice
