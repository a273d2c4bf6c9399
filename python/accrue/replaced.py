"""Replaces torch's functions while a check records."""

import functools
from collections.abc import Callable
from typing import Any


class Replaced:
    """A replaced function of torch. Several replacements of one function may nest, and be removed in any order."""

    def __init__(self, owner: Any, name: str, make: Callable[[Callable], Callable]):
        """`make(original)` returns the replacement."""
        self._owner, self._name = owner, name
        self._original = getattr(owner, name)

        def original(*args, **kwargs):
            return self._original(*args, **kwargs)

        self._now = functools.wraps(self._original)(make(original))
        self._now.accrue_replaced = self
        setattr(owner, name, self._now)

    def put_back(self) -> None:
        """Removes the replacement. If another one surrounds it, it stays and only passes calls on."""
        outermost = getattr(self._owner, self._name)
        if outermost is self._now:
            setattr(self._owner, self._name, self._original)
            return
        around = getattr(outermost, "accrue_replaced", None)
        while around is not None and around._original is not self._now:
            around = getattr(around._original, "accrue_replaced", None)
        if around is not None:
            around._original = self._original
