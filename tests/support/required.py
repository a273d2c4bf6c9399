"""For a conftest.py: a test that is skipped fails if everything is required, as tests/support/skips.py has it for programs. What no
set-up can give the machine is skipped by `not_possible_here`."""
import os

import pytest
from skips import REQUIRE_ALL

NOT_POSSIBLE = "not possible here: "


def not_possible_here(reason):
    pytest.skip(NOT_POSSIBLE + reason, allow_module_level=True)


def _as_required(report):
    """Skips have the file, the line and the reason."""
    if not os.environ.get(REQUIRE_ALL) or report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2].removeprefix("Skipped: ")
    if not reason.startswith(NOT_POSSIBLE):
        report.outcome, report.longrepr = "failed", f"{reason}, and {REQUIRE_ALL} is set"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    report = yield
    _as_required(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    report = yield
    _as_required(report)
    return report
