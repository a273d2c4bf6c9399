"""What a check copies, sees and puts back: each thing by itself, of every kind, and no more than it may."""

import array
import collections
import dataclasses
import functools
import gc
import itertools
import sys
import threading
import types

import numpy
import pytest
import torch
from torch import nn

import accrue
from accrue.copies import Account
from accrue.errors import NotJudged
from accrue.reads import reads_of
from accrue.state import State
from accrue.untouched import untouched


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))


def micro_batches():
    generator = torch.Generator().manual_seed(5)
    return [[torch.randn(n, 5, generator=generator), torch.randn(n, 1, generator=generator)] for n in (1, 3, 2)]


def squares(net, micro):
    return (net(micro[0]) - micro[1]).square().sum()


def loss_fn(net, micro):
    return accrue.Loss(squares(net, micro), len(micro[0]))


def window(net, loss=loss_fn, behind_each=lambda: None, micros=None, **options):
    """A right loop around any loss."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with accrue.watch(net, optimizer, loss, **options) as w:
        for micro in w.micro_batches(micros or micro_batches()):
            (loss(net, micro).sum / 6).backward()
            behind_each()
        optimizer.step()
    return w


class Stubborn:
    """Cannot be put back."""

    def __init__(self):
        self.seen = 0

    def __getattribute__(self, name):
        if name == "__dict__" and object.__getattribute__(self, "seen") > 0:
            raise LookupError("gone")
        return object.__getattribute__(self, name)


def test_what_cannot_be_put_back_leaves_the_rest_put_back():
    net, stubborn = network(), Stubborn()
    other = nn.Linear(2, 2)

    def function():
        stubborn.seen += 1
        with torch.no_grad():
            net[0].weight.add_(1)
            other.weight.add_(1)
        return torch.rand(1)

    before = [net[0].weight.clone(), other.weight.clone(), torch.get_rng_state()]
    with untouched((function,), everything=True) as failures:
        function()
    assert torch.equal(net[0].weight, before[0]) and torch.equal(other.weight, before[1]) and torch.equal(torch.get_rng_state(), before[2])
    assert failures == ["the attributes of a Stubborn: LookupError: gone"]


@pytest.mark.parametrize("way", ["verify", "verify_loop", "watch"])
def test_what_cannot_be_put_back_is_a_reason_and_no_exception(way):
    net, numbers = network(), numpy.ones(3)
    locked = threading.Event()  # which no check looks into

    def loss(model, micro):
        if locked.is_set():
            numbers.flags.writeable = True
            numbers[0] += 1
            numbers.flags.writeable = False
        return loss_fn(model, micro)

    net.numbers = numbers
    whole = [torch.cat(part) for part in zip(*micro_batches())]
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    if way == "watch":
        optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
        with accrue.watch(net, optimizer, loss) as w:
            for micro in w.micro_batches(micro_batches()):
                (squares(net, micro) / 6).backward()
            optimizer.step()
            locked.set()  # from here on
        report = w.report
    else:
        locked.set()
        check = {"verify": lambda: accrue.verify(net, whole, loss),
                 "verify_loop": lambda: accrue.verify_loop(net, whole, loss, lambda n, micros: [(squares(n, m) / 6).backward() for m in micros])}
        report = check[way]()
    assert not report.judged and not report.conclusive and "put back" in report.conclusion and "an array [3] of float64" in report.conclusion, report
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())


def test_masks_that_are_no_numbers_and_closures_without_a_value_are_put_back():
    mask = torch.full((1, 3), float("nan")).expand(4, 3)
    early, late = 1, 2
    del late

    def function():
        nonlocal early, late
        del early
        late = 3
        return mask

    def cells():
        return dict(zip(function.__code__.co_freevars, function.__closure__))

    with untouched((function,), everything=True) as failures:
        function()
    assert failures == [] and cells()["early"].cell_contents == 1
    with pytest.raises(ValueError, match="empty"):
        cells()["late"].cell_contents  # noqa: B018
    with untouched((function,), everything=True) as failures:
        mask.data = torch.zeros(4, 3)
    assert failures == [] and mask.isnan().all() and mask.stride() == (0, 1)
    with untouched((function,), everything=True) as failures:
        mask[:1].fill_(5)
    assert failures == [] and mask.isnan().all(), "what each row shares is written once"


@pytest.mark.parametrize("layout", ["sparse", "csr", "complex", "half", "bool", "empty", "negative zero"])
def test_tensors_of_every_layout_are_put_back(layout):
    made = {"sparse": torch.eye(3).to_sparse(), "csr": torch.eye(3).to_sparse_csr(), "complex": torch.ones(3, dtype=torch.complex64).conj(),
            "half": torch.ones(3, dtype=torch.float16), "bool": torch.tensor([True, False]), "empty": torch.zeros(0),
            "negative zero": torch.tensor([-0.0])}
    tensor = made[layout]
    before = tensor.clone()

    def function():
        return tensor

    with untouched((function,), everything=True) as failures:
        if layout == "negative zero":
            tensor.abs_()
        elif layout == "bool":
            tensor.logical_not_()
        else:
            tensor.mul_(0)
    assert failures == [] and str(tensor) == str(before)
    with untouched((function,), everything=True) as failures:
        pass
    assert failures == []


class Carrying(nn.Module):
    """Puts another tensor in its buffer's place in each forward pass."""

    def __init__(self, how):
        super().__init__()
        torch.manual_seed(3)
        self.how, self.linear = how, nn.Linear(5, 1)
        self.register_buffer("hidden", torch.ones(1))

    def forward(self, x):
        y = self.linear(x) * self.hidden.clone()
        new = 0.5 * self.hidden + y.detach().mean()
        if self.how == "assigned":
            self.hidden = new
        elif self.how == "registered":
            del self.hidden
            self.register_buffer("hidden", new)
        elif self.how == "data":
            self.hidden.data = new
        elif self.how == "in place, then assigned":
            self.hidden.add_(1)
            self.hidden = new
        else:
            self.hidden.copy_(new)
        return y


@pytest.mark.parametrize("how", ["assigned", "registered", "data", "in place, then assigned", "in place"])
def test_buffers_that_are_replaced_hold_afterwards_what_they_held(how):
    def carried(run):
        """What a loop holds that writes to what the model has left behind."""
        net = Carrying(how)
        held = [net.hidden]

        def behind_each():
            held.append(net.hidden)
            for tensor in held:
                if tensor is not net.hidden:
                    tensor.fill_(7)

        return run(net, behind_each), net, held

    def plainly(net, behind_each):
        for micro in micro_batches():
            net(micro[0])
            behind_each()

    w, net, held = carried(lambda net, behind_each: window(net, behind_each=behind_each))
    values = carried(plainly)[2]
    assert w.report.equal and w.report.conclusive, f"\n{w.report}"
    assert net.hidden is held[-1]
    assert all(torch.equal(a, b) for a, b in zip(held, values)), "those that the loop held besides, too"


@pytest.mark.parametrize("check", ["verify", "verify_loop"])
def test_buffers_that_are_replaced_are_those_that_are_written(check):
    """What a loop is called must not depend on how its model keeps its state."""
    def report(how):
        net, first = Carrying(how), None
        first = net.hidden
        whole = [torch.cat(part) for part in zip(*micro_batches())]
        told = (accrue.verify(net, whole, loss_fn) if check == "verify" else accrue.verify_loop(
            net, whole, loss_fn, lambda n, micros: [(squares(n, m) / 6).backward() for m in micros], micro_batch=2))
        assert net.hidden is first and torch.equal(first, torch.ones(1))
        return told

    written = report("in place")
    for how in ("assigned", "registered"):
        told = report(how)
        assert told.cause == written.cause and told.max_relative_error == written.max_relative_error, f"\n{told}\n{written}"


class Slotted:
    __slots__ = ("temperature", "unset")

    def __init__(self):
        self.temperature = 1.0


class Config:
    temperature = 1.0


elsewhere = types.ModuleType("elsewhere_of_test_kept")
elsewhere.temperature = 1.0
elsewhere.deep = types.ModuleType("elsewhere_of_test_kept.deep")
elsewhere.deep.temperature = 1.0
sys.modules[elsewhere.__name__] = elsewhere
slotted, numbers, space, view = Slotted(), numpy.ones(2), types.SimpleNamespace(temperature=1.0), array.array("d", [1.0])
Named = collections.namedtuple("Named", "x y")


def by_slots():
    slotted.temperature *= 0.5
    return slotted.temperature


def by_class():
    Config.temperature *= 0.5
    return Config.temperature


def by_array():
    numbers[0] *= 0.5
    return float(numbers[0])


def by_module():
    elsewhere.temperature *= 0.5
    return elsewhere.temperature


def by_module_in_module():
    elsewhere.deep.temperature *= 0.5
    return elsewhere.deep.temperature


def by_import():
    import elsewhere_of_test_kept as other

    other.temperature *= 0.5
    return other.temperature


def by_namespace():
    space.temperature *= 0.5
    return space.temperature


def by_numbers():
    view[0] *= 0.5
    return view[0]


def by_function():
    by_function.temperature = 0.5 * getattr(by_function, "temperature", 1.0)
    return by_function.temperature


@functools.lru_cache(maxsize=0)
def by_cached():
    slotted.temperature *= 0.5
    return slotted.temperature


EVERYWHERE = [by_slots, by_class, by_array, by_module, by_module_in_module, by_import, by_namespace, by_numbers, by_function, by_cached]


@pytest.mark.parametrize("anneal", EVERYWHERE, ids=lambda each: each.__name__)
def test_state_is_seen_wherever_a_loss_keeps_it(anneal):
    def loss(net, micro):
        return accrue.Loss(squares(net, micro) / anneal(), len(micro[0]))

    start = _now(anneal)
    w = window(network(), loss)
    assert w.report.equal and w.report.judged and w.report.conclusive, f"\n{w.report}"
    assert _now(anneal) == start / 8, "what the loop left"


def _now(anneal):
    """The value that the next call halves."""
    with untouched((anneal,), everything=True):
        return 2 * anneal()


class Scaled(nn.Module):
    """Its methods read what lies outside: a global, its class, a slot."""

    scale = 1.0

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.linear = nn.Linear(5, 1)

    def forward(self, x):
        type(self).scale *= 0.5
        return self.linear(x) * type(self).scale * by_slots()


def test_state_that_a_models_own_methods_read_is_seen():
    before = Scaled.scale
    net = Scaled()
    w = window(net)
    assert w.report.equal and w.report.judged, f"\n{w.report}"
    assert Scaled.scale == before / 8


def test_what_is_used_up_as_it_is_read_is_not_judged_and_not_used_up():
    temperatures = itertools.count(1)

    def loss(net, micro):
        return accrue.Loss(squares(net, micro) / next(temperatures), len(micro[0]))

    w = window(network(), loss)
    assert not w.report.judged and not w.report.conclusive and "reads a count" in w.report.conclusion, f"\n{w.report}"
    assert next(temperatures) == 4
    model = network()  # a class of torch's, with an attribute of the user's
    model.temperatures = (each for each in (1.0, 0.5, 0.25))
    w = window(model, lambda net, micro: accrue.Loss(squares(net, micro) / next(net.temperatures), len(micro[0])))
    assert not w.report.judged and "reads a generator" in w.report.conclusion, f"\n{w.report}"


def test_only_globals_that_code_reads_are_taken():
    def function(x):
        return [each.square() for each in x.slotted] if Config else (lambda: numbers)

    reads = reads_of(function.__code__)
    assert reads.names == {"Config", "numbers"} and {"square", "slotted"} <= reads.attributes
    assert not any(each is slotted for each in State((function,)).reached)
    assert any(each is numbers for each in State((function,)).reached)


class Small:
    def __init__(self, place):
        self.place, self.name, self.items = place, str(place), [place]


def small(count):
    """In lists that are short enough to be looked into."""
    return [[Small(place) for place in range(100)] for _ in range(count // 100)]


def calls_of(function):
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


def test_a_walk_takes_as_long_as_there_are_objects():
    def of(count):
        objects = small(count)
        return calls_of(lambda: State((objects,))) / count

    few, many = of(1_000), of(20_000)
    assert many < 1.1 * few and many < 80, (few, many)
    assert gc.isenabled()


def test_a_later_state_shares_what_did_not_change():
    objects = small(1_000)
    first = State((objects,))
    objects[0][0].place = -1
    second = State((objects,), earlier=first)
    alike = sum(a is b for a, b in zip(first._ordered[-1], second._ordered[-1]))
    assert alike == len(first._ordered[-1]) - 1


def test_more_than_may_be_copied_or_walked_over_is_not_judged():
    table, objects = torch.randn(1000, 100), small(1_000)

    def loss(net, micro):
        return accrue.Loss(squares(net, micro) * table[0, 0].abs() + 0 * len(objects), len(micro[0]))

    assert window(network(), loss).report.conclusive
    for copies, reason in ((accrue.Copies(most_bytes=100_000), "a tensor [1000, 100] of float32, beyond the 97.66 KiB of most_bytes"),
                           (accrue.Copies(most_objects=500), "more than the 500 objects of most_objects")):
        net = network()
        report = window(net, loss, copies=copies).report
        assert not report.judged and not report.conclusive and reason in report.conclusion and "copies=accrue.Copies" in report.advice, f"\n{report}"
        assert net[0].weight.grad is not None, "the loop itself ran on"
    whole = [torch.cat(part) for part in zip(*micro_batches())]
    calls = []

    def counted(net, micro):
        calls.append(1)
        return loss(net, micro)

    for check in (lambda: accrue.verify(network(), whole, counted, copies=accrue.Copies(most_bytes=100_000)),
                  lambda: accrue.verify_loop(network(), whole, counted, lambda n, m: None, copies=accrue.Copies(most_bytes=100_000))):
        report = check()
        assert not report.judged and "beyond the 97.66 KiB" in report.conclusion and not calls, f"\n{report}"


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("no"), RuntimeError("DefaultCPUAllocator: can't allocate memory")],
                         ids=lambda each: type(each).__name__)
def test_memory_that_runs_out_as_copies_are_made_is_a_reason(monkeypatch, error):
    def raised(*_):
        raise error

    monkeypatch.setattr("accrue.state.KeptTensor", raised)
    net = network()
    net.register_buffer("table", torch.ones(3))
    report = window(net).report
    assert not report.judged and "memory ran out" in report.conclusion, f"\n{report}"
    assert net[0].weight.grad is not None, "the loop itself ran on"


def test_micro_batches_count_among_the_copies():
    report = window(network(), copies=accrue.Copies(most_bytes=60)).report
    assert not report.judged and "a micro-batch's tensor [3, 5]" in report.conclusion, f"\n{report}"


def test_the_default_is_half_of_what_is_free(monkeypatch):
    monkeypatch.setattr("accrue.copies.bytes_at_hand", lambda device: 1000)
    account = Account(accrue.Copies())
    account.take(torch.device("cpu"), 500, "a tensor")
    with pytest.raises(NotJudged, match="501 bytes with another, beyond the 500 bytes of half of what is free on cpu"):
        account.take(torch.device("cpu"), 1, "another")
    account.take(torch.device("meta"), 500, "one on another device")


@pytest.mark.parametrize("option, value", [("most_bytes", "2GiB"), ("most_objects", None), ("most_objects", 1.5)])
def test_wrong_copies_are_refused_by_name(option, value):
    with pytest.raises(accrue.UsageError, match=f"Copies.*{option}"):
        accrue.Copies(**{option: value})
    net = network()
    with pytest.raises(accrue.UsageError, match="watch: expected accrue.Copies as copies, received a value of type int"):
        accrue.watch(net, torch.optim.SGD(net.parameters(), lr=0.1), loss_fn, copies=5)


def test_a_table_is_copied_once_in_a_window():
    table = torch.randn(1000, 1000)

    def loss(net, micro):
        return accrue.Loss(squares(net, micro) * table[0, 0].abs(), len(micro[0]))

    report = window(network(), loss, copies=accrue.Copies(most_bytes=4_100_000)).report
    assert report.equal and report.judged, f"4,000,000 bytes once, and no more\n{report}"


def bytes_in_tensors():
    gc.collect()
    storages = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in gc.get_objects()
                if type(each) in (torch.Tensor, nn.Parameter) and each.layout is torch.strided}
    return sum(storages.values())


@pytest.mark.parametrize("ends", ["judged", "refused", "raised"])
def test_a_watch_keeps_no_copies_behind_its_window(ends):
    net = nn.Linear(1000, 100)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    micros = [torch.randn(2, 1000) for _ in range(3)]
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.zero_grad(set_to_none=False)
    before = bytes_in_tensors()
    w = accrue.watch(net, optimizer, lambda n, m: accrue.Loss(n(m).square().sum(), len(m)))
    try:
        with w:
            for micro in w.micro_batches(micros):
                (net(micro).square().sum() / 6).backward()
                if ends == "refused":
                    break
            if ends == "raised":
                raise ZeroDivisionError
            optimizer.step()
    except (ZeroDivisionError, accrue.UsageError):
        assert ends != "judged"
    assert bytes_in_tensors() - before <= sum(micro.nbytes for micro in micros), "its micro-batches alone"
    assert len(w.seen_micro_batches) == (1 if ends == "refused" else 3)


@dataclasses.dataclass(frozen=True)
class Pair:
    x: torch.Tensor
    y: torch.Tensor


class Fields(collections.UserDict):
    """As transformers' BatchEncoding: its items are attributes."""

    def __init__(self, data=None, note=""):
        super().__init__(data or {})
        self.note = note

    def __getattr__(self, name):
        try:
            return self.__dict__["data"][name]
        except KeyError:
            raise AttributeError(name) from None


KINDS = {"namedtuple": Named, "dataclass": Pair, "userdict": lambda x, y: Fields({"x": x, "y": y}, "note"),
         "proxy": lambda x, y: types.MappingProxyType({"x": x, "y": y})}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("called", [False, True])
def test_micro_batches_keep_their_type_and_their_values(kind, called):
    """A loop may fill the same tensors again for each micro-batch."""
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.linear = nn.Linear(5, 1)

        def forward(self, micro):
            x, y = (micro["x"], micro["y"]) if kind == "proxy" else (micro.x, micro.y)
            return (self.linear(x) - y).square().sum(1)

    made = KINDS[kind](torch.zeros(2, 5), torch.zeros(2, 1))
    generator = torch.Generator().manual_seed(5)

    def filled():
        for _ in range(3):
            parts = (made["x"], made["y"]) if kind == "proxy" else (made.x, made.y)
            for part in parts:
                part.copy_(torch.randn(part.shape, generator=generator))
            yield made

    net = Whole()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with accrue.watch(net, optimizer, lambda n, m: accrue.Loss(n(m).sum(), 2)) as w:
        for micro in (filled() if called else w.micro_batches(filled())):
            (net(micro).sum() / 6).backward()
        optimizer.step()
    assert w.report.equal and w.report.judged, f"\n{w.report}"
    kept = w.seen_micro_batches
    assert all(type(each) is type(made) for each in kept)
    assert kind != "userdict" or kept[0].note == "note"


def test_slices_of_a_mapping_keep_its_type():
    whole = Fields({"x": torch.arange(4.0), "names": ["a", "b", "c", "d"]}, "note")
    part = accrue.batch_slice(whole, 1, 3)
    assert type(part) is Fields and part.note == "note" and part.names == ["b", "c"] and part.x.tolist() == [1, 2]
    assert len(whole.names) == 4
    transformers = pytest.importorskip("transformers")
    part = accrue.batch_slice(transformers.BatchEncoding({"input_ids": torch.arange(8).view(4, 2)}), 1, 3)
    assert type(part) is transformers.BatchEncoding and part.input_ids.tolist() == [[2, 3], [4, 5]]
