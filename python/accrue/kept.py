"""The current state of single objects, each of which can be restored: tensors, arrays, containers, attributes, names, generators."""

import collections
import types
from collections.abc import Callable
from operator import is_
from typing import Any

import torch

NOTHING = object()  # a name without a value

# The integer types as which numbers of a size in bytes are compared, so that NaN equals itself.
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Kept:
    """The base class. `content` is what an object held; restore() compares it with what the object holds, and writes it if it differs."""

    __slots__ = ("of", "content")
    PART = 0  # added to the object's id as the key of this part: no other object's id lies within an object's bytes

    def __init__(self, of: Any):
        self.of = of
        self.content = self.read()

    def read(self) -> Any:
        raise NotImplementedError

    def write(self) -> None:
        raise NotImplementedError

    def is_current(self) -> bool:
        raise NotImplementedError

    def restore(self) -> None:
        if not self.is_current():
            self.write()

    def describe(self) -> str:
        return f"a {type(self.of).__name__}"


class KeptTensor(Kept):
    """A tensor's memory, its values, whether it requires a gradient, and which tensor its gradient is."""

    __slots__ = ("_with_grad", "_memory", "_version", "_requires_grad", "_grad")

    def __init__(self, tensor: torch.Tensor, earlier: "KeptTensor | None", with_grad: bool, take: Callable[[torch.device, int, str], None]):
        self.of = tensor
        self._with_grad = with_grad and tensor.is_leaf
        self._memory = tensor.data
        self._version = tensor._version
        self._requires_grad = tensor.requires_grad if tensor.is_leaf else None
        self._grad = tensor.grad if self._with_grad else None
        values = _once(self._memory)
        if earlier is not None and _same_bits(earlier.content, values):
            self.content = earlier.content
        else:
            take(tensor.device, _bytes_of(values), self.describe())
            self.content = values.clone()

    def is_current(self) -> bool:
        tensor = self.of
        if self._with_grad and tensor.grad is not self._grad:
            return False
        return (self._requires_grad is None or tensor.requires_grad == self._requires_grad) and self._has_values()

    def _has_values(self) -> bool:
        if not self._is_comparable():
            return self.of._version == self._version
        return self._has_memory() and _same_bits(_once(self.of.detach()), self.content)

    def _is_comparable(self) -> bool:
        return self._memory.layout in (torch.strided, torch.sparse_coo, torch.sparse_csr) and not self._memory.is_quantized

    def _has_memory(self) -> bool:
        """Returns whether the tensor still has the same memory. Of sparse tensors, only values are compared."""
        now, then = self.of, self._memory
        if then.layout is not torch.strided or now.layout is not torch.strided:
            return now.layout is then.layout
        return (now.data_ptr() == then.data_ptr() and now.shape == then.shape and now.stride() == then.stride() and now.dtype == then.dtype
                and now.device == then.device)

    def write(self) -> None:
        """Writes without autograd's knowledge, so that a graph of the user's that holds this tensor stays valid."""
        tensor = self.of
        if not self._has_values():
            if not self._has_memory():
                tensor.data = self._memory
            if self._memory.layout is torch.sparse_coo:  # whose copy_() would give only `.data` other memory
                tensor.data = self.content.clone()
            elif not self._has_values():
                _once(tensor.data).copy_(self.content)
        if self._requires_grad is not None and tensor.requires_grad != self._requires_grad and tensor.is_leaf:
            tensor.requires_grad_(self._requires_grad)
        if self._with_grad and tensor.grad is not self._grad:
            tensor.grad = self._grad

    def describe(self) -> str:
        return f"a tensor {list(self.of.shape)} of {str(self.of.dtype).removeprefix('torch.')}"


def _once(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor with each element once, if expand() repeats elements."""
    if tensor.layout is torch.strided:
        for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride())):
            if stride == 0 and size > 1:
                tensor = tensor.narrow(dim, 0, 1)
    return tensor


def _bytes_of(tensor: torch.Tensor) -> int:
    return (tensor._nnz() if tensor.layout is torch.sparse_coo else tensor.numel()) * tensor.element_size()


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Returns whether all bits are equal, NaN included. Different dtypes, devices and layouts are different."""
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device or a.layout != b.layout:
        return False
    if a.layout is torch.sparse_coo:
        return (a.is_coalesced() == b.is_coalesced() and _same_bits(a._indices(), b._indices()) and _same_bits(a._values(), b._values()))
    if a.layout is torch.sparse_csr:
        return all(_same_bits(of(a), of(b)) for of in (torch.Tensor.crow_indices, torch.Tensor.col_indices, torch.Tensor.values))
    if a.layout is not torch.strided:
        return False
    if a.is_complex():
        a, b = torch.view_as_real(a.resolve_conj()), torch.view_as_real(b.resolve_conj())
    bits = BITS[a.element_size()]
    return torch.equal(a.resolve_neg().view(bits), b.resolve_neg().view(bits))


def has_memory(tensor: torch.Tensor) -> bool:
    """Returns whether a tensor's elements exist: frameworks free the memory of tensors that wait (resize_(0) of the storage)."""
    if tensor.layout is not torch.strided or tensor.numel() == 0:
        return True
    last = tensor.storage_offset() + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.element_size() <= tensor.untyped_storage().nbytes()


class KeptDict(Kept):
    """Names and values of a dict. Uses the base class's methods, because a Counter's update() adds, and other classes refuse it."""

    __slots__ = ("_names",)

    def _items(self) -> dict:
        return self.of

    def read(self) -> tuple:
        """Returns a tuple, which the garbage collector does not track if it holds only numbers and strings."""
        items = self._items()
        self._names = tuple(dict.keys(items))
        return tuple(dict.values(items))

    def is_current(self) -> bool:
        items = self._items()
        return len(items) == len(self._names) and all(map(is_, dict.values(items), self.content)) and all(map(is_, dict.keys(items), self._names))

    def write(self) -> None:
        items = self._items()
        plain = collections.OrderedDict if isinstance(items, collections.OrderedDict) else dict
        if len(items) != len(self._names) or not all(map(is_, dict.keys(items), self._names)):
            plain.clear(items)
        for name, value in zip(self._names, self.content):
            if dict.get(items, name, NOTHING) is not value:
                plain.__setitem__(items, name, value)


class KeptAttributes(KeptDict):
    """An object's `__dict__`."""

    __slots__ = ()
    PART = 1

    def _items(self) -> dict:
        return self.of.__dict__

    def describe(self) -> str:
        return f"the attributes of a {type(self.of).__name__}"


class KeptSlots(Kept):
    """The `__slots__` of an object's classes."""

    __slots__ = ("_slots",)
    PART = 2

    def __init__(self, of: Any, slots: tuple[types.MemberDescriptorType, ...]):
        self._slots = slots
        super().__init__(of)

    def read(self) -> tuple:
        return tuple([_slot(slot, self.of) for slot in self._slots])

    def is_current(self) -> bool:
        return all(map(is_, self.read(), self.content))

    def write(self) -> None:
        for slot, value in zip(self._slots, self.content):
            now = _slot(slot, self.of)
            if now is value:
                continue
            if value is NOTHING:
                slot.__delete__(self.of)
            else:
                slot.__set__(self.of, value)

    def describe(self) -> str:
        return f"the slots of a {type(self.of).__name__}"


def _slot(slot: types.MemberDescriptorType, of: Any) -> Any:
    try:
        return slot.__get__(of)
    except AttributeError:
        return NOTHING


class KeptClass(Kept):
    """A class's own attributes, except those of the interpreter."""

    __slots__ = ()

    def read(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self.of).items() if not name.startswith("__") and name != "_abc_impl"}

    def is_current(self) -> bool:
        now = self.read()
        return len(now) == len(self.content) and all(now.get(name, NOTHING) is value for name, value in self.content.items())

    def write(self) -> None:
        now = self.read()
        for name in now.keys() - self.content.keys():
            type.__delattr__(self.of, name)
        for name, value in self.content.items():
            if now.get(name, NOTHING) is not value:
                type.__setattr__(self.of, name, value)

    def describe(self) -> str:
        return f"the attributes of class {self.of.__name__}"


class KeptSequence(Kept):
    """A list, a deque, or the numbers in a bytearray or an array."""

    __slots__ = ()

    def read(self) -> tuple:
        return tuple(self.of)

    def is_current(self) -> bool:
        if len(self.of) != len(self.content):
            return False
        return all(map(is_, self.of, self.content)) if isinstance(self.of, (list, collections.deque)) else tuple(self.of) == self.content

    def write(self) -> None:
        if isinstance(self.of, collections.deque):
            self.of.clear()
            self.of.extend(self.content)
        elif isinstance(self.of, (list, bytearray)):
            self.of[:] = self.content
        else:
            self.of[:] = type(self.of)(self.of.typecode, self.content)


class KeptSet(Kept):
    __slots__ = ()

    def read(self) -> set:
        return set(self.of)

    def is_current(self) -> bool:
        return self.of == self.content

    def write(self) -> None:
        self.of.clear()
        self.of.update(self.content)


class KeptArray(Kept):
    """A numpy array."""

    __slots__ = ()

    def __init__(self, of: Any, take: Callable[[torch.device, int, str], None]):
        take(torch.device("cpu"), of.nbytes, f"an array {list(of.shape)} of {of.dtype}")
        super().__init__(of)

    def read(self) -> Any:
        return self.of.copy()

    def is_current(self) -> bool:
        now, then = self.of, self.content
        return now.shape == then.shape and now.dtype == then.dtype and now.tobytes() == then.tobytes()

    def write(self) -> None:
        self.of[...] = self.content

    def describe(self) -> str:
        return f"an array {list(self.content.shape)} of {self.content.dtype}"


class KeptCell(Kept):
    """A variable of a closure, which may have no value."""

    __slots__ = ()

    def read(self) -> Any:
        try:
            return self.of.cell_contents
        except ValueError:
            return NOTHING

    def is_current(self) -> bool:
        return self.read() is self.content

    def write(self) -> None:
        if self.content is NOTHING:
            del self.of.cell_contents
        else:
            self.of.cell_contents = self.content

    def describe(self) -> str:
        return "a variable of a closure"


class KeptName(Kept):
    """One name of a module: a global that a function reads, or a name that it reads of another module."""

    __slots__ = ("_name",)

    def __init__(self, of: dict, name: str):
        self._name = name
        super().__init__(of)

    def read(self) -> Any:
        return self.of.get(self._name, NOTHING)

    def is_current(self) -> bool:
        return self.read() is self.content

    def write(self) -> None:
        if self.content is NOTHING:
            self.of.pop(self._name, None)
        else:
            self.of[self._name] = self.content

    def describe(self) -> str:
        return f"the name '{self._name}' of module {self.of.get('__name__', '')}"


class KeptGenerator(Kept):
    __slots__ = ("_put_back",)

    def __init__(self, of: Any, state: Any, put_back: Callable[[Any], None]):
        self.of, self.content, self._put_back = of, state, put_back

    def restore(self) -> None:
        self._put_back(self.content)

    def is_current(self) -> bool:
        return False
