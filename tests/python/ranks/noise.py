"""Run by test_ranks.py on two ranks: each rank's first micro-batch tells of the noise, and all decide about the batch alike."""

import sys

import torch

import accrue

ELEMENTS, SPREAD, DISTANCE, WINDOWS = 40, 2.0, 0.5, 300
TRUTH = (SPREAD / DISTANCE) ** 2


def main():
    group = accrue.join()
    p = torch.full((ELEMENTS,), DISTANCE, requires_grad=True)
    optimizer = torch.optim.SGD([p], lr=0.0)
    generator = torch.Generator().manual_seed(7 + group.rank)
    acc = accrue.Accumulator([p], measure_noise=True, group=group)
    controller = accrue.BatchController("noise-scale", batch=4, most=64)
    for _ in range(WINDOWS):
        for samples in [2, 3] if group.rank == 0 else [4]:
            x = torch.randn(samples, ELEMENTS, generator=generator) * SPREAD
            acc.backward(accrue.Loss(((p - x) ** 2).sum() / 2, samples))
        report = acc.step(optimizer)
        controller.step(report, size=9)
    assert abs(report.noise_scale / TRUTH - 1) < 0.15, report.noise_scale
    assert report.noise_scale_low < TRUTH < report.noise_scale_high
    assert controller.batch > 4
    sys.stdout.write(f"decided {report.noise_scale!r} {controller.batch}\n")


main()
