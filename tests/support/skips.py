"""How tests in Python are skipped, as tests/support/skip.h has it for those in C++."""
import os
import sys

REQUIRE_ALL = "ACCRUE_REQUIRE_ALL"  # set and not empty: what is not set up is a failure (`make test`)
SKIPPED = 77  # the exit status that ctest takes for a skip


def missing_in_build(reason):
    """What the test needs was not set up: ends as skipped, or as failed where everything is required."""
    if os.environ.get(REQUIRE_ALL):
        sys.exit(f"failed: {reason}, and {REQUIRE_ALL} is set")
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def not_possible_here(reason):
    """The machine cannot have what the test needs, whatever is installed."""
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)
