"""Checks that the installed torch is the version that accrue's native module was built against.

torch promises no binary interface between minor versions, so another version is refused before anything is loaded.
"""

from accrue._build import TORCH_VERSION

ADVICE = (
    "build accrue against it, which takes a C++ compiler: "
    "pip install --no-build-isolation --force-reinstall --no-deps PATH_OF_A_CLONE; "
    f"or: pip install torch=={TORCH_VERSION}"
)


def minor_of(version: str) -> str:
    """Returns the version without patch number and suffix: "2.13.0+cpu" -> "2.13"."""
    return ".".join(version.split("+")[0].split(".")[:2])


def check() -> None:
    """Raises ImportError, with what to do, if torch is missing or has another minor version."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"import accrue: expected torch {TORCH_VERSION}, received none; try pip install torch=={TORCH_VERSION}") from error
    if minor_of(torch.__version__) != minor_of(TORCH_VERSION):
        raise ImportError(f"import accrue: expected torch {minor_of(TORCH_VERSION)}, received torch {torch.__version__}; try to {ADVICE}")
