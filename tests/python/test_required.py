"""Tests that are skipped fail if everything is required (tests/support/required.py)."""

import os
import pathlib
import subprocess
import sys

import pytest

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
CONFTEST = f"""
import sys

sys.path.append({str(SUPPORT)!r})
from required import pytest_make_collect_report, pytest_runtest_makereport
"""
PASSES = "def test_passes(): pass\n"
MISSING = "import pytest\n\ndef test_of_what_is_missing(): pytest.importorskip('no_such_module')\n"
MISSING_MODULE = "import pytest\n\npytest.importorskip('no_such_module')\n\ndef test_behind_it(): pass\n"
UNLESS = "import pytest\n\n@pytest.mark.skipif(True, reason='nothing names the command')\ndef test_of_the_command(): pass\n"
NOT_POSSIBLE = "import required\n\ndef test_of_a_gpu(): required.not_possible_here('there is no GPU')\n"


def run(folder, source, required):
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(source + "\n" + PASSES)
    environment = {name: value for name, value in os.environ.items() if name != "ACCRUE_REQUIRE_ALL"}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"], cwd=folder, capture_output=True, text=True,
                          env=environment | ({"ACCRUE_REQUIRE_ALL": "1"} if required else {}))
    return done.returncode, done.stdout


@pytest.mark.parametrize("source, reason", [(MISSING, "no_such_module"), (MISSING_MODULE, "no_such_module"), (UNLESS, "nothing names the command")])
def test_what_is_missing_fails_if_everything_is_required(tmp_path, source, reason):
    status, said = run(tmp_path, source, required=True)
    assert status != 0 and reason in said and "ACCRUE_REQUIRE_ALL is set" in said, said
    status, said = run(tmp_path, source, required=False)
    assert status in (0, 5) and "1 skipped" in said, said  # 5: nothing else was collected


@pytest.mark.parametrize("source, word", [(NOT_POSSIBLE, "1 skipped"), ("", "1 passed")])
def test_what_no_set_up_gives_is_skipped(tmp_path, source, word):
    status, said = run(tmp_path, source, required=True)
    assert status == 0 and word in said, said
