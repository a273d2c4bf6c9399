"""Prints, as requirements, what libtorch_cpu.so loads of its wheel's dependencies: nothing of a CPU build.

A CUDA wheel states either packages (nvidia-cuda-runtime-cu12==12.8.90) or parts of the toolkit
(cuda-toolkit[cublas,cudart,cupti,...]==13.2.2).
"""
import importlib.metadata
import re

PACKAGE = re.compile(r"nvidia-cuda-(runtime|cupti)(-cu\d+)?==[^;]+")
TOOLKIT = re.compile(r"cuda-toolkit\[([^]]*)\](==[^;]+)")
PARTS = {"cudart", "cupti"}


def needed(requirements: list[str]) -> list[str]:
    found = []
    for line in (requirement.replace(" ", "") for requirement in requirements):
        if package := PACKAGE.match(line):
            found.append(package[0])
        elif toolkit := TOOLKIT.match(line):
            parts = sorted(PARTS & set(toolkit[1].split(",")))
            found.append(f"cuda-toolkit[{','.join(parts)}]{toolkit[2]}")
    return found


if __name__ == "__main__":
    print("".join(line + "\n" for line in needed(importlib.metadata.requires("torch") or [])), end="")
