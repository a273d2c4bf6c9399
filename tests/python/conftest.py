"""Tests import `museum` from here, and accrue from PYTHONPATH or as it is installed."""

import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from required import pytest_make_collect_report, pytest_runtest_makereport  # noqa: E402, F401


@pytest.fixture(autouse=True)
def two_threads_and_a_seed():
    torch.set_num_threads(2)
    torch.manual_seed(11)
