"""How a peer is run: as it installs, or tuned in the ways that PyTorch's tuning guide for CPUs advises.

Tuned: tcmalloc instead of the C library's allocator, denormals flushed to zero, and in bf16 one autocast context around
a window, so that weights are cast once a window and not once a micro-batch. Compiled: also torch.compile, in the way
that the peer documents. As many threads as accrue has, on the same cores, gradients that are set to None between windows
and the fused AdamW are there in either case. The guide's channels-last layout is for convolutions, of which GPT-2 has
none.
"""
import dataclasses
import pathlib


@dataclasses.dataclass(frozen=True)
class Tuning:
    name: str
    tuned: bool = False
    compiled: bool = False


AS_INSTALLED = Tuning("as installed")
TUNED = Tuning("tuned", tuned=True)
COMPILED = Tuning("tuned and compiled", tuned=True, compiled=True)
TUNINGS = {tuning.name: tuning for tuning in (AS_INSTALLED, TUNED, COMPILED)}


def tcmalloc(environment: pathlib.Path) -> pathlib.Path | None:
    """The library as scripts/setup.sh unpacked it into the peers' virtual environment, or the system's."""
    places = [environment / "tcmalloc", *pathlib.Path("/usr/lib").glob("*-linux-gnu")]
    found = (path for place in places for path in place.glob("**/libtcmalloc_minimal.so.4"))
    return next(found, None)


def variables(tuning: Tuning, environment: pathlib.Path) -> dict[str, str]:
    """What the process finds in its environment, beside the number of threads, which all systems are told."""
    if not tuning.tuned:
        return {}
    allocator = tcmalloc(environment)
    return {"LD_PRELOAD": str(allocator)} if allocator else {}
