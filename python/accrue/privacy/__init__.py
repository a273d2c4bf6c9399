"""Training with differential privacy for each sample (docs/guide/privacy.md): accrue's wheel with the extra `private`.

    private = accrue.privacy.Privacy(clip=1.0, noise=1.1, delta=1e-6, epsilon=8.0)
    trainer = accrue.privacy.PrivateTrainer("train.toml", private, ledger="data.spent")
    for report in trainer:
        print(report.step, report.epsilon)

    loop = accrue.privacy.PrivateLoop(model, loss_fn, private, samples=len(data), expected=256, steps=1000)   # a torch model, in your own loop
    for window in loop: ...

A step takes a Poisson sample of the data, clips the gradient of each sample's mean loss, and adds Gaussian noise to the sum.
"""

from accrue.privacy.accountant import Accountant, noise_for
from accrue.privacy.gradients import ClippedGradients
from accrue.privacy.ledger import Ledger
from accrue.privacy.loop import PrivateLoop
from accrue.privacy.randomness import SeededRandomness, SystemRandomness
from accrue.privacy.reports import PrivateReport, Unprotected
from accrue.privacy.terms import Privacy
from accrue.privacy.trainer import PrivateTrainer

__all__ = ["Accountant", "ClippedGradients", "Ledger", "Privacy", "PrivateLoop", "PrivateReport", "PrivateTrainer", "SeededRandomness", "SystemRandomness", "Unprotected", "noise_for"]
