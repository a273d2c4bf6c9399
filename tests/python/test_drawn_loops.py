"""A few of the loops that scripts/sound_loops.py draws: right ones are not blamed, wrong ones do not pass, and a watch leaves what a twin
without one leaves. ACCRUE_DRAWN_LOOPS: how many right ones (30); a third as many wrong ones."""

import os

import pytest
import torch
from drawn_loops import FAULTS, drawn, kept, left_by, same, watched

COUNT = int(os.environ.get("ACCRUE_DRAWN_LOOPS", "30"))


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.mark.parametrize("seed", range(COUNT))
def test_right_loops_are_not_blamed(seed):
    outcome = watched(seed)
    assert outcome.verdict != "raised" and not outcome.is_false_alarm, f"{outcome.told}\n{outcome.report}"
    assert not outcome.differs, f"{outcome.told}"


@pytest.mark.parametrize("seed", range(COUNT // 3))
def test_wrong_loops_do_not_pass(seed):
    outcome = watched(seed, list(FAULTS)[seed % len(FAULTS)])
    assert outcome.verdict != "raised" and not outcome.is_missed, f"{outcome.told}\n{outcome.report}"
    assert not outcome.differs, f"{outcome.told}"


def test_most_loops_are_judged():
    verdicts = [watched(seed).verdict for seed in range(1000, 1012)]
    assert verdicts.count("equal") >= 8, verdicts


def test_a_twin_that_differs_is_seen():
    """The comparison itself: a parameter, a mode, a hook, a generator and an optimizer's moment that are off by little."""
    loop = drawn(7)
    loop.run(None)

    def disturb_moment():
        state = loop.plain.state[next(iter(loop.model.parameters()))]
        state["new"] = torch.ones(1)

    for disturb in (lambda: loop.model.head.bias.data.add_(1e-6), lambda: loop.model.train(not loop.model.training),
                    lambda: loop.model.head.weight.register_hook(lambda gradient: gradient), lambda: torch.rand(1), disturb_moment):
        before = kept(loop)
        assert all(same(a, b) for (_, a), (_, b) in zip(before, left_by(loop)))
        disturb()
        assert not all(same(a, b) for (_, a), (_, b) in zip(before, left_by(loop)))
