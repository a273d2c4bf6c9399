"""System calls that fail with EPERM for a program, as an old seccomp profile of a container has it. Only the standard library.

As a program: refused_calls.py NAME[,NAME...] COMMAND...
"""
import ctypes
import os
import platform
import struct
import sys

# By machine, as Linux numbers them.
NUMBERS = {"x86_64": {"clone3": 435, "flock": 73, "fsync": 74, "getcwd": 79, "linkat": 265},
           "aarch64": {"clone3": 435, "flock": 32, "fsync": 82, "getcwd": 17, "linkat": 37}}
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, FILTER = 22, 38, 2
LOAD_NUMBER, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF
ALLOW, FAIL_WITH = 0x7FFF0000, 0x00050000
EPERM = 1


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def can_refuse() -> bool:
    return platform.machine() in NUMBERS


def refuse(names: list[str]) -> None:
    """For this process from now on, and for all that it starts."""
    numbers = [NUMBERS[platform.machine()][name] for name in names]
    lines = [(LOAD_NUMBER, 0, 0, 0), *((JUMP_IF_EQUAL, len(numbers) - i, 0, number) for i, number in enumerate(numbers)),
             (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, FAIL_WITH | EPERM)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    program = Program(len(lines), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or libc.prctl(PR_SET_SECCOMP, FILTER, ctypes.byref(program)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    refuse(sys.argv[1].split(","))
    os.execvp(sys.argv[2], sys.argv[2:])
