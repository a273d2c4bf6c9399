"""Type checks of options: a wrong option is refused by its name, before anything is changed."""

import numbers
import operator
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


def check_function(operation: str, name: str, value: Any) -> None:
    if not callable(value):
        raise UsageError(operation, f"a function as {name}", f"a value of type {type(value).__name__}", f"{name}(model, micro_batch)")


def check_group(operation: str, group: Any, kind: type) -> None:
    if group is not None and not isinstance(group, kind):
        raise UsageError(operation, "the ranks that accrue.join() returns as group", f"a value of type {type(group).__name__}", "group=accrue.join()")


def whole_numbers(operation: str, name: str, values: Any) -> list[int]:
    """Returns a list, range or tensor of whole numbers as a list of int. Raises UsageError for anything else."""
    try:
        return [operator.index(value) for value in values]
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
