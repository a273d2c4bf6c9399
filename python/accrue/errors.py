"""The exceptions that accrue raises. Each error has the operation, what was expected, what was received, and what to try."""


class Error(RuntimeError):
    """The base class of accrue's errors. The text reads `<operation>: expected <...>, received <...>; try <...>`."""

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
    """An operation failed while it ran."""


class RefusedError(Error):
    """A request cannot be met: no micro-batch fits the memory."""


class NotJudged(Exception):
    """A check comes to no verdict: why, and what to do instead. Checks turn it into a report; it never reaches the caller."""

    def __init__(self, reason: str, instead: str = ""):
        super().__init__(reason)
        self.reason, self.instead = reason, instead
