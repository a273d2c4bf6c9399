"""Finds the names outside itself that a function's code reads or writes, from its bytecode."""

import dis
import functools
import types
from dataclasses import dataclass


@dataclass(frozen=True)
class Reads:
    """The names that a function and all functions within it use."""

    names: frozenset[str]  # globals
    written: frozenset[str]  # globals and attributes that it writes
    attributes: frozenset[str]
    modules: frozenset[str]  # modules that it imports when it runs


GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "STORE_GLOBAL", "DELETE_GLOBAL"}
ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "IMPORT_FROM"}
WRITES = {"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR"}


@functools.lru_cache(maxsize=1 << 14)
def reads_of(code: types.CodeType) -> Reads:
    found: dict[str, set[str]] = {"names": set(), "written": set(), "attributes": set(), "modules": set()}
    open_ = [code]
    while open_:
        each = open_.pop()
        open_ += [constant for constant in each.co_consts if isinstance(constant, types.CodeType)]
        for instruction in dis.get_instructions(each):
            name, value = instruction.opname, instruction.argval
            if name in GLOBALS:
                found["names"].add(value)
            elif name in ATTRIBUTES:
                found["attributes"].add(value)
            elif name == "IMPORT_NAME":
                found["modules"].add(value)
            if name in WRITES:
                found["written"].add(value)
    return Reads(**{kind: frozenset(names) for kind, names in found.items()})
