"""What accrue raises. Each error tells the operation, what was expected, what was received, and what to try."""


class Error(RuntimeError):
    """An error of accrue's. Its text reads `<operation>: expected <...>, received <...>; try <...>`."""

    def __init__(self, operation: str, expected: str, received: str, suggestion: str):
        super().__init__(f"{operation}: expected {expected}, received {received}; try {suggestion}")
        self.operation = operation
        self.expected = expected
        self.received = received
        self.suggestion = suggestion

    def __reduce__(self):
        return type(self), (self.operation, self.expected, self.received, self.suggestion)


class UsageError(Error, ValueError):
    """A call or its input is wrong; nothing was changed."""


class RunError(Error):
    """It failed while running."""


class RefusedError(Error):
    """What was asked for cannot be had: no micro-batch fits the memory."""


class NotJudged(Exception):
    """Why a check comes to no verdict, and what would make it one. Checks turn it into a report; no caller sees it."""

    def __init__(self, reason: str, instead: str = ""):
        super().__init__(reason)
        self.reason, self.instead = reason, instead
