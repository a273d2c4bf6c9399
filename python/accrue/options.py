"""Type checks of options: a wrong option is refused by its name, before anything is changed."""

import inspect
import numbers
import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from accrue.errors import UsageError

# The types of options, as errors name them.
IN_WORDS = {int: "a whole number", float: "a number", bool: "True or False", str: "a word"}


def _is(value: Any, kind: type) -> bool:
    if kind is bool or kind is str:
        return isinstance(value, kind)
    if isinstance(value, bool):
        return False
    if kind is int:
        return isinstance(value, numbers.Integral)
    return isinstance(value, numbers.Real) or (torch.is_tensor(value) and value.numel() == 1 and not value.is_complex())


def check_options(operation: str, stated: Mapping[str, Any], **kinds: type) -> None:
    """Raises UsageError for an option whose type is not the one in `kinds`."""
    for name, kind in kinds.items():
        if not _is(stated[name], kind):
            raise UsageError(operation, f"{IN_WORDS[kind]} as {name}", f"a value of type {type(stated[name]).__name__}", f"leaving {name} out")


def check_count(operation: str, name: str, count: Any, *, required: bool = False) -> None:
    """Raises UsageError unless `count` is a whole number of at least 1, or None if it is not required."""
    if count is None and not required:
        return
    is_whole = _is(count, int)
    if not is_whole or count < 1:
        raise UsageError(operation, f"a whole number of at least 1 as {name}", str(count) if is_whole else f"a value of type {type(count).__name__}",
                         f"{name}=1 or more" if required else f"leaving {name} out, or 1 or more")


def check_tensors(operation: str, stated: Mapping[str, Any], optional: Iterable[str] = ()) -> None:
    """Raises UsageError for a value that is no tensor. Those named in `optional` may be None."""
    for name, value in stated.items():
        if not torch.is_tensor(value) and not (value is None and name in optional):
            raise UsageError(operation, f"a tensor as {name}", f"a value of type {type(value).__name__}",
                             f"leaving {name} out" if name in optional else f"torch.as_tensor({name})")


def check_function(operation: str, name: str, value: Any, second: str = "micro_batch") -> None:
    """Raises UsageError unless `value` can be called with the model and a second argument."""
    call = f"{name}(model, {second})"
    if not callable(value):
        raise UsageError(operation, f"a function as {name}", f"a value of type {type(value).__name__}", call)
    try:
        taken = inspect.signature(value)
    except (TypeError, ValueError):  # functions written in C have none
        return
    try:
        taken.bind(None, None)
    except TypeError:
        raise UsageError(operation, f"a function that takes a model and {second} as {name}", f"one that takes {taken}", call) from None


def check_callback(operation: str, name: str, value: Any) -> None:
    """Raises UsageError unless `value` can be called, or is None."""
    if value is not None and not callable(value):
        raise UsageError(operation, f"a function as {name}", f"a value of type {type(value).__name__}", f"leaving {name} out")


def path_of(operation: str, name: str, value: Any) -> str:
    """Returns a path as text. Raises UsageError for anything else."""
    if not isinstance(value, (str, os.PathLike)):
        raise UsageError(operation, f"a path as {name}", f"a value of type {type(value).__name__}", f'{name}="FILE"')
    return str(os.fspath(value))


def words_of(operation: str, name: str, values: Any) -> list[str]:
    """Returns the words of a list. Raises UsageError for anything else, a single word included."""
    if isinstance(values, str):
        raise UsageError(operation, f"a list of words as {name}", f'the text "{values}"', f'{name}=["{values}"]')
    if not isinstance(values, Iterable):
        raise UsageError(operation, f"a list of words as {name}", f"a value of type {type(values).__name__}", f"leaving {name} out")
    words = list(values)
    for word in words:
        if not isinstance(word, str):
            raise UsageError(operation, f"a list of words as {name}", f"one with a value of type {type(word).__name__}", f"leaving {name} out")
    return words


def check_range(operation: str, name: str, value: Any, least: int, most: int) -> None:
    """Raises UsageError unless `value` is a whole number from `least` to `most`."""
    check_options(operation, {name: value}, **{name: int})
    if not least <= value <= most:
        raise UsageError(operation, f"a whole number from {least} to {most} as {name}", str(value), f"leaving {name} out")


def check_group(operation: str, group: Any, kind: type) -> None:
    if group is not None and not isinstance(group, kind):
        raise UsageError(operation, "the ranks that accrue.join() returns as group", f"a value of type {type(group).__name__}", "group=accrue.join()")


def _index(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError("no whole number")
    return operator.index(value)


def whole_numbers(operation: str, name: str, values: Any) -> list[int]:
    """Returns a list, range or tensor of whole numbers as a list of int. Raises UsageError for anything else."""
    try:
        return [_index(value) for value in values]
    except TypeError:
        raise UsageError(operation, f"a list of whole numbers as {name}", f"a value of type {type(values).__name__}", f"leaving {name} out") from None


def numbers_of(operation: str, name: str, values: Any) -> list[float]:
    """Returns a list or tuple of numbers or one-element tensors as a list of float.

    Raises UsageError for anything else, or for a tensor that requires a gradient.
    """
    if not isinstance(values, Iterable) or isinstance(values, str) or not all(_is(value, float) for value in values):
        raise UsageError(operation, f"a list of numbers as {name}", f"a value of type {type(values).__name__}", f"counting {name} from the labels")
    if any(torch.is_tensor(value) and value.requires_grad for value in values):
        raise UsageError(operation, f"{name} that require no gradient", "one that depends on parameters", f"counting {name} from the labels")
    return [float(value) for value in values]
