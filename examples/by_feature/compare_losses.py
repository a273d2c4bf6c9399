"""compare_losses.py PROGRAM OTHER: runs both, which print the loss of each step, and compares these.

They are to agree to 1e-12: in fp64 sums of micro-batches round by 1e-16 of their size, and forty steps carry that on. To
be seen as wrong, a loss has to differ by more than that; that the losses fall at all is checked, too.
"""
import subprocess
import sys

BOUND = 1e-12


def losses_of(program):
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return [float(line) for line in printed.splitlines()]


def worst_difference(losses, others):
    return max(abs(one - other) / abs(other) for one, other in zip(losses, others, strict=True))


first, second = (losses_of(program) for program in sys.argv[1:3])
worst = worst_difference(first, second)
print(f"{len(first)} steps, from a loss of {first[0]:.4f} to {first[-1]:.4f}; worst relative difference {worst:.1e}")
if first[-1] > 0.5 * first[0]:
    sys.exit("the loss did not fall")
if worst > BOUND:
    sys.exit("the two do not take the same steps")
if worst_difference(first[1:], second[:-1]) <= BOUND:
    sys.exit("the comparison would not see other steps")
