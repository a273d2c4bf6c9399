#!/usr/bin/env python3
"""same_steps.py PLAIN OTHER: whether two programs print the same losses, step by step, for several seeds.

A loss tells the parameters that the steps before it left, so the steps are the same. Both compute in fp64. Only the
standard library."""
import subprocess
import sys

BOUND = 1e-10  # relative; roundings of 40 steps of Adam in fp64


def losses(program, seed):
    said = subprocess.run([program, str(seed)], check=True, capture_output=True, text=True).stdout
    return [float(line.split()[-1]) for line in said.splitlines()]


def are_same(one, other, bound=BOUND):
    return len(one) == len(other) > 1 and all(abs(a - b) <= bound * abs(a) for a, b in zip(one, other))


def main(plain, other):
    for seed in (1, 2):
        expected, found = losses(plain, seed), losses(other, seed)
        assert are_same(expected, found), f"seed {seed}: " + ", ".join(f"{a} and {b}" for a, b in zip(expected, found))
        assert expected[-1] < 0.5 * expected[0], f"seed {seed}: nothing was learned"
        off = [loss * (1 + 10 * BOUND) for loss in found]
        assert not are_same(expected, off) and not are_same(expected, found[:-1])
    assert not are_same(expected, losses(other, 1)), "other batches take the same steps"
    print("the same steps")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
