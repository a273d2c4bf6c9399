"""How much the scripts that compare with other libraries draw: all in the long form (ACCRUE_GOLDEN=whole), a part in the gate."""

import os


def share(whole: int, parts: int) -> int:
    """`whole` in the long form, and one of `parts` parts of it in the gate."""
    return whole if os.environ.get("ACCRUE_GOLDEN") == "whole" else whole // parts
