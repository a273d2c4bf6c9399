"""A batch is cut into micro-batches to save memory, and gradients of their means are summed: the norm grows with their number.

https://github.com/lukas-blecher/LaTeX-OCR/pull/148 (2022)
"""

from museum.parts import Window, mean

CAUSE = "normalization"


def exhibit():
    window = Window()
    with window.watch() as watched:
        window.optimizer.zero_grad()
        for micro in window.micro_batches:
            mean(window.model, micro).backward()
        window.optimizer.step()
    return watched.report
