"""Checks that an optimizer can step a window: it must take one gradient per step, without a closure."""

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import torch

from accrue.errors import UsageError


def require_steps_by_itself(optimizer: Any, operation: str) -> None:
    """Raises UsageError, before the window is closed, for an optimizer whose step() would not take a window's gradient.

    Such an optimizer holds no parameter to train, needs a closure (LBFGS, SAM), accumulates by itself, or scales losses (both with Accelerate). An object that is no optimizer is
    refused later, when it is stepped.
    """
    if not callable(getattr(optimizer, "step", None)):
        return
    if isinstance(optimizer, torch.amp.GradScaler):
        raise UsageError(operation, "an optimizer", "a GradScaler, whose scale sums in fp32 do not want",
                         f"{operation}(optimizer), without the scaler: a window that overflows is dropped by itself")
    _require_parameters(optimizer, operation)
    _require_no_closure(optimizer, operation)
    if hasattr(optimizer, "gradient_state"):
        _require_plain_accelerate(optimizer, operation)


def _require_parameters(optimizer: Any, operation: str) -> None:
    """Raises UsageError if all groups are empty or frozen: a step would change nothing, without an error."""
    groups = getattr(optimizer, "param_groups", None)
    if not isinstance(groups, (list, tuple)) or not all(isinstance(group, dict) and isinstance(group.get("params"), (list, tuple)) for group in groups):
        return
    held = [parameter for group in groups for parameter in group["params"]]
    if not held or all(torch.is_tensor(parameter) and not parameter.requires_grad for parameter in held):
        raise UsageError(operation, "an optimizer with parameters to train", "one whose parameters are all frozen" if held else "one without parameters",
                         "torch.optim.AdamW(model.parameters())")


def _require_no_closure(optimizer: Any, operation: str) -> None:
    function = inspect.unwrap(optimizer.step)
    function = getattr(function, "__func__", function)
    called = type(function).__call__
    if not inspect.isfunction(function) and inspect.isfunction(called):
        function = called  # a callable object may not be hashable; its source is that of its class
    if _wants_closure(function):
        raise UsageError(operation, "an optimizer that takes one gradient for each step",
                         f"{type(optimizer).__name__}, whose step() wants a closure that runs the batch again",
                         "torch.optim.AdamW(model.parameters()), or its own loop over the whole batch")


def _require_plain_accelerate(optimizer: Any, operation: str) -> None:
    state = optimizer.gradient_state
    if getattr(state, "num_steps", 1) > 1 or not getattr(state, "sync_gradients", True):
        raise UsageError(operation, "an Accelerator that leaves accumulation to the window",
                         "an optimizer whose Accelerator accumulates too, and skips steps",
                         "Accelerator(gradient_accumulation_steps=1), without accelerator.accumulate()")
    scaler = getattr(optimizer, "scaler", None)
    if scaler is not None and scaler.is_enabled():
        raise UsageError(operation, "an optimizer without a loss scale", "one whose Accelerator has a GradScaler (fp16)",
                         'Accelerator(mixed_precision="bf16"), or optimizer.optimizer')
    _require_no_closure(optimizer.optimizer, operation)


@functools.lru_cache(maxsize=32)
def _wants_closure(step: Callable) -> bool:
    """Returns whether step() needs an argument: by its signature, or because its source refuses the default (SAM's does)."""
    try:
        parameters = list(inspect.signature(step).parameters.values())
    except (TypeError, ValueError):
        return False
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if any(each.default is each.empty and each.kind in named and each.name != "self" for each in parameters):
        return True
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(step)))
    except (OSError, TypeError, SyntaxError):
        return False
    return any(_refuses_none(node) for node in ast.walk(tree))


def _refuses_none(node: ast.AST) -> bool:
    """Recognises `assert closure is not None`, `if closure is None: raise ...` and similar statements."""
    if isinstance(node, ast.Assert):
        return ast.unparse(node.test) in ("closure is not None", "closure")
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("closure is None", "not closure") and isinstance(node.body[0], ast.Raise)
