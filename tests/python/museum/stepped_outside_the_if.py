"""In a tutorial, optimizer.step() is outside the condition that ends the window.

https://github.com/thunlp/OpenPrompt/issues/106 (2022)
"""

from museum.parts import Window, mean

CAUSE = "stepped-mid-window"


def exhibit():
    window = Window()
    with window.watch() as watched:
        for micro in window.micro_batches:
            mean(window.model, micro).backward()
            window.optimizer.step()
            window.optimizer.zero_grad()
    return watched.report
