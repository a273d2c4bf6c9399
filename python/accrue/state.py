"""The state that Python objects reach, recorded at one moment and restored: tensors, attributes, containers, generators.

A loss reads more than the model: an averaged teacher, the other network of a GAN, an annealed temperature, the hidden state of the last
micro-batch. To run a micro-batch again, all of this must be as it was; and a check must leave all of it as it found it.
"""

import array
import collections
import contextlib
import functools
import gc
import itertools
import random
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import Dataset

from accrue.copies import Account, Copies
from accrue.errors import NotJudged
from accrue.generators import state_of
from accrue.kept import (Kept, KeptArray, KeptAttributes, KeptCell, KeptClass, KeptDict, KeptGenerator, KeptName, KeptSequence, KeptSet, KeptSlots,
                         KeptTensor, has_memory)
from accrue.reads import reads_of

# Packages whose objects hold no state of a training loop, or none that can be restored.
OPAQUE = {"accrue", "asyncio", "builtins", "concurrent", "datasets", "functools", "inspect", "io", "logging", "multiprocessing", "numpy",
          "pathlib", "PIL", "pyarrow", "pytest", "_pytest", "queue", "re", "threading", "tokenizers", "tqdm", "weakref"}
# Packages with functions, classes and modules whose names no training loop changes.
LIBRARIES = OPAQUE | set(sys.stdlib_module_names) | {
    "accelerate", "deepspeed", "huggingface_hub", "lightning", "lightning_fabric", "lightning_utilities", "matplotlib", "pandas", "peft",
    "pytorch_lightning", "safetensors", "scipy", "sklearn", "sympy", "torch", "torchaudio", "torchmetrics", "torchvision", "transformers",
    "triton", "trl", "wandb"}
# Elements of longer containers are not visited: they are data.
MOST_ELEMENTS = 10_000
# Larger tensors outside models and optimizers are data.
MOST_BYTES = 1 << 28
BYTES_OF_REFERENCE = 8

STATEFUL = (nn.Module, torch.optim.Optimizer, LRScheduler, torch.amp.GradScaler)
# Types whose values do not change.
ATOMIC = {bool, int, float, complex, str, bytes, range, slice, type(None), type(...), type(NotImplemented), torch.dtype, torch.device, torch.Size,
          types.BuiltinFunctionType, types.CodeType, types.GetSetDescriptorType, types.MemberDescriptorType, types.MethodDescriptorType,
          types.WrapperDescriptorType, types.ModuleType}
# Iterators that reading uses up, and that cannot be restored.
USED_UP = {types.GeneratorType, map, zip, filter, enumerate, type(iter([])), type(iter(())), type(iter(range(0))), type(iter({})), type(iter("")),
           itertools.count, itertools.cycle, itertools.chain, itertools.islice, itertools.repeat}
# Functions of a class that are called without their names.
CALLED = ("__call__", "__getattr__", "__getitem__", "__iter__", "__len__", "__next__")
# The order in which objects are restored.
PARAMETERS, TENSORS, GENERATORS, OTHERS = range(4)


class _Kind:
    """The properties of a type that decide how its objects are handled, found once per type."""

    def __init__(self, kind: type):
        package = _package(kind.__module__)
        self.is_opaque = package in OPAQUE
        self.is_library = package in LIBRARIES
        self.is_stateful = issubclass(kind, STATEFUL)
        self.is_data = issubclass(kind, Dataset)
        self.has_attributes = bool(kind.__dictoffset__)
        self.container = next((kept for of, kept in CONTAINERS.items() if issubclass(kind, of)), None)
        self.slots = () if self.is_opaque else tuple(
            member for base in kind.__mro__ if "__slots__" in vars(base) for member in vars(base).values()
            if isinstance(member, types.MemberDescriptorType))
        self.has_own = not self.is_opaque and (self.has_attributes or self.slots or not self.is_library)
        self.look = _looks_at(kind)


class State:
    """The current state of what `roots` reach.

    A function reaches its closure, its defaults, the globals that its code reads, and the attributes that it reads of other modules. An object
    reaches its attributes, its slots, and its class with the functions in it.

    Args:
        everything: also records what functions and plain containers hold. False: only models, optimizers, schedules, scalers, tensors and
            generators. A list that a user's function appends to is a result of the function, and no state of a model.
        gradients: also records `.grad`.
        spared: tensors that are left out.
        earlier: an earlier State, whose copies are shared if nothing changed.
        account: limits the copies.

    Raises:
        NotJudged: the copies exceed the limits, or memory ran out.
    """

    def __init__(self, roots: Iterable[Any], *, everything: bool = True, gradients: bool = True, spared: Iterable[torch.Tensor] = (),
                 earlier: "State | None" = None, account: Account | None = None):
        self._gradients = gradients
        self._spared = {id(tensor) for tensor in spared}
        self._account = account or Account(Copies())
        self._earlier: dict[Any, Kept] = earlier._kept if earlier is not None else {}
        self._kinds: dict[type, _Kind] = earlier._kinds if earlier is not None else {}
        self._kept: dict[Any, Kept] = {}
        self._ordered: list[list[Kept]] = [[], [], [], []]
        self._seen: dict[int, bool] = {}  # by id: whether the object is owned
        self._methods: set[int] = set()
        self._modules: set[tuple] = set()  # visits of modules, each with the names that one function uses of it
        self.used_up: set[str] = set()  # types of iterators that a loss reads and that cannot be restored
        self.reached: list[Any] = []  # keeps visited objects alive, so that their ids stay unique
        self._open: tuple[list[Any], list[Any]] = ([], [])  # objects to visit: not owned, owned
        self._open[everything].extend(roots)
        with _uncollected():
            self._walk()
        self._earlier = {}

    def _walk(self) -> None:
        seen, kinds = self._seen, self._kinds
        others, own = self._open
        while own or others:
            owned = bool(own)
            value = own.pop() if owned else others.pop()
            known = seen.get(id(value))
            if known is not None and (known or not owned):
                continue
            seen[id(value)] = owned
            if known is None:
                self.reached.append(value)
                self._account.require_objects(len(self.reached))
            try:
                kind = kinds.get(type(value))
                if kind is None:
                    kind = kinds[type(value)] = _Kind(type(value))
                kind.look(self, value, owned, kind)
            except NotJudged:
                raise
            except (MemoryError, torch.OutOfMemoryError) as error:
                raise _no_memory() from error
            except Exception as error:
                if "DefaultCPUAllocator" in str(error):  # an error of torch without its own type
                    raise _no_memory() from error
                # Proxies of other packages may raise anything when they are inspected; they are no state of a loop.

    def owned(self) -> list[Any]:
        """Returns the objects that were reached and are the user's own."""
        return [value for value in self.reached if self._seen[id(value)]]

    def restore(self) -> list[str]:
        """Restores each object, models first. Returns those that could not be restored, with the reason."""
        failures = []
        for kept in itertools.chain(*self._ordered):
            try:
                kept.restore()
            except Exception as error:
                failures.append(f"{_described(kept)}: {type(error).__name__}: {error}")
        return failures

    def _keep(self, order: int, kept: type[Kept], of: Any, *more: Any) -> None:
        key = id(of) + kept.PART
        if not self._keep_earlier(order, key):
            self._note(order, key, kept(of, *more))

    def _keep_earlier(self, order: int, key: Any) -> bool:
        """Returns whether nothing changed since the earlier state, and uses its copy if so."""
        earlier = self._earlier.get(key)
        if earlier is None or not earlier.is_current():
            return False
        self._note(order, key, earlier)
        return True

    def _note(self, order: int, key: Any, kept: Kept) -> None:
        self._kept[key] = kept
        self._ordered[order].append(kept)

    def _push(self, values: Iterable[Any], owned: bool) -> None:
        self._open[owned].extend([value for value in values if type(value) not in ATOMIC])

    def _note_used_up(self, values: Iterable[Any]) -> None:
        self.used_up.update(type(value).__name__ for value in values if type(value) in USED_UP)

    def _keep_tensor(self, tensor: torch.Tensor, owned: bool, _: _Kind) -> None:
        is_data = not owned and not tensor.requires_grad and tensor.numel() * tensor.element_size() > MOST_BYTES
        if id(tensor) in self._spared or is_data or tensor.is_meta or type(tensor).__name__.startswith(("Fake", "Functional", "Deferred")):
            return
        if isinstance(tensor, nn.parameter.UninitializedTensorMixin) or not has_memory(tensor):
            return
        earlier = self._earlier.get(id(tensor))
        order = PARAMETERS if isinstance(tensor, nn.Parameter) else TENSORS
        if not self._gradients:
            return self._keep(order, KeptTensor, tensor, earlier, False, self._account.take)
        # An earlier state may have no gradients: only its copy of the values is shared.
        self._note(order, id(tensor), KeptTensor(tensor, earlier, True, self._account.take))
        if tensor.is_leaf and tensor.grad is not None:
            self._open[owned].append(tensor.grad)

    def _keep_generator(self, value: Any, *_: Any) -> None:
        self._keep(GENERATORS, KeptGenerator, value, *state_of(value))

    def _keep_array(self, value: Any, owned: bool, _: _Kind) -> None:
        if value.dtype.hasobject:
            return self._push(value.flat if value.size <= MOST_ELEMENTS else (), owned)
        if owned and value.flags.writeable:
            self._keep(OTHERS, KeptArray, value, self._account.take)

    def _keep_container(self, value: Any, owned: bool, kind: _Kind) -> None:
        kept = kind.container
        if owned and kept is not None and not self._keep_earlier(OTHERS, id(value) + kept.PART):
            if len(value) > MOST_ELEMENTS:
                self._account.take(torch.device("cpu"), BYTES_OF_REFERENCE * len(value), f"a {type(value).__name__} of {len(value)} elements")
            self._note(OTHERS, id(value) + kept.PART, kept(value))
        if len(value) <= MOST_ELEMENTS:
            if isinstance(value, dict):
                self._push(dict.values(value), owned)
                self._push((key for key in dict.keys(value) if isinstance(key, torch.Tensor)), owned)
            else:
                self._push(value, owned)
        if kind.has_own:
            self._keep_own(value, owned, kind)

    def _keep_numbers(self, value: Any, owned: bool, _: _Kind) -> None:
        if owned:
            self._keep(OTHERS, KeptSequence, value)

    def _keep_view(self, value: types.MappingProxyType, owned: bool, _: _Kind) -> None:
        self._push(value.values(), owned)

    def _keep_cell(self, cell: types.CellType, owned: bool, _: _Kind) -> None:
        if owned:
            self._keep(OTHERS, KeptCell, cell)
        self._push((KeptCell(cell).content,), owned)

    def _keep_method(self, value: types.MethodType, owned: bool, _: _Kind) -> None:
        self._push((value.__self__, value.__func__), owned)

    def _keep_partial(self, value: functools.partial, owned: bool, _: _Kind) -> None:
        self._push((value.func, value.args, value.keywords), owned)

    def _keep_wrapped(self, value: Any, owned: bool, _: _Kind) -> None:
        self._push((value.__wrapped__,), owned)

    def _keep_function(self, function: types.FunctionType, owned: bool, _: _Kind) -> None:
        if _package(function.__module__) in LIBRARIES:
            # Globals of libraries are no state, but a decorator's closure holds the user's function.
            return self._push(function.__closure__ or (), False)
        reads, space = reads_of(function.__code__), function.__globals__
        cells = function.__closure__ or ()
        self._push(cells, owned)
        self._push(function.__defaults__ or (), owned)
        self._push((function.__kwdefaults__ or {}).values(), owned)
        self._push((function.__dict__,), owned)
        for name in reads.names:
            if name in space or name in reads.written:
                self._keep_name(space, name, reads.attributes, reads.written, owned)
        contents = [KeptCell(cell).content for cell in cells]
        if id(function) not in self._methods:  # a loss may call none of the methods
            self._note_used_up(itertools.chain(contents, (space.get(name) for name in reads.names)))
        modules = [content for content in contents if issubclass(type(content), types.ModuleType)]
        modules += [sys.modules[name] for name in reads.modules if name in sys.modules]
        for module in modules:
            self._keep_module(module, reads.attributes, reads.written, owned)

    def _keep_name(self, space: dict, name: str, attributes: frozenset[str], written: frozenset[str], owned: bool) -> None:
        key = (id(space), name)
        if owned and not self._keep_earlier(OTHERS, key):
            self._note(OTHERS, key, KeptName(space, name))
        value = space.get(name)
        if issubclass(type(value), types.ModuleType):
            self._keep_module(value, attributes, written, owned)
        else:
            self._push((value,), owned)

    def _keep_module(self, module: types.ModuleType, attributes: frozenset[str], written: frozenset[str], owned: bool) -> None:
        """Records what one function's code reads or writes of another module."""
        visit = (id(module), attributes, written, owned)
        if visit in self._modules or _package(module.__name__) in LIBRARIES:
            return
        self._modules.add(visit)
        space = vars(module)
        for name in attributes:
            if name in space or name in written:
                self._keep_name(space, name, attributes, written, owned)

    def _keep_class(self, value: type, owned: bool, _: _Kind) -> None:
        if _package(value.__module__) not in LIBRARIES:
            kept = KeptClass(value)
            if owned:
                self._keep(OTHERS, KeptClass, value)
            parts = [part for each in kept.content.values() for part in _parts_of(each)] + [vars(value).get(name) for name in CALLED]
            self._methods.update(map(id, parts))
            self._push(parts, owned)
        self._push((base for base in value.__mro__[1:] if _package(base.__module__) not in LIBRARIES), owned)

    def _keep_own(self, value: Any, owned: bool, kind: _Kind) -> None:
        """Records an object's attributes, slots and class."""
        if kind.is_opaque:
            return
        owned = owned or kind.is_stateful
        if kind.has_attributes:
            attributes = value.__dict__
            if kind.is_data:
                # Samples are data; generators that draw them are state.
                return self._push((each for each in attributes.values() if state_of(each) is not None), owned)
            if owned and attributes:
                self._keep(OTHERS, KeptAttributes, value)
            self._push((each for name, each in attributes.items() if name != "dataset") if "dataset" in attributes else attributes.values(), owned)
            if kind.is_stateful or not kind.is_library:
                self._note_used_up(attributes.values())
        if kind.slots:
            if owned:
                self._keep(OTHERS, KeptSlots, value, kind.slots)
            self._push(KeptSlots(value, kind.slots).content, owned)
        if not kind.is_library and self._seen.get(id(type(value))) is not True:
            self._open[owned].append(type(value))

    def _pass_by(self, *_: Any) -> None:
        """Does nothing: no state of such objects can be recorded."""


CONTAINERS: dict[Any, type[Kept]] = {dict: KeptDict, (list, collections.deque): KeptSequence, set: KeptSet}


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Disables garbage collection during a walk: the walk makes no garbage, and a collection takes longer than the walk."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _looks_at(kind: type) -> Callable:
    """Returns the method by which State handles objects of a type."""
    numpy = sys.modules.get("numpy")
    ways: list[tuple[Any, Callable]] = [
        (torch.Tensor, State._keep_tensor), ((torch.Generator, random.Random), State._keep_generator), (types.CellType, State._keep_cell),
        ((dict, list, tuple, set, frozenset, collections.deque), State._keep_container), ((bytearray, array.array), State._keep_numbers),
        (types.MappingProxyType, State._keep_view), (types.MethodType, State._keep_method), (functools.partial, State._keep_partial),
        (functools._lru_cache_wrapper, State._keep_wrapped), (types.FunctionType, State._keep_function), (type, State._keep_class),
        (types.ModuleType, State._pass_by)]
    if numpy is not None:
        ways += [((numpy.random.RandomState, numpy.random.Generator), State._keep_generator), (numpy.ndarray, State._keep_array)]
    return next((way for of, way in ways if issubclass(kind, of)), State._pass_by if _package(kind.__module__) in OPAQUE else State._keep_own)


def _parts_of(value: Any) -> tuple:
    """Returns the functions inside an attribute of a class (staticmethod, property and others)."""
    if isinstance(value, (staticmethod, classmethod)):
        return (value.__func__,)
    if isinstance(value, property):
        return tuple(each for each in (value.fget, value.fset, value.fdel) if each is not None)
    return (value.func,) if isinstance(value, functools.cached_property) else (value,)


def _no_memory() -> NotJudged:
    return NotJudged("memory ran out as what the model and loss_fn reach was copied", "a smaller model, or a loss_fn that reaches less")


def _described(kept: Kept) -> str:
    try:
        return kept.describe()
    except Exception:
        return "an object"


def _package(module: Any) -> str:
    return module.split(".")[0] if isinstance(module, str) else ""
