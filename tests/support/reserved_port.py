"""A port for programs that a script starts. Only the standard library."""
import socket


class ReservedPort:
    """A port of the loopback interface that the system chose. It stays reserved while this lives: the system gives it to nobody
    else, and a program that is told of it can listen at it, because both set SO_REUSEADDR and this one does not listen."""

    def __init__(self):
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]

    def __del__(self):
        self._socket.close()
