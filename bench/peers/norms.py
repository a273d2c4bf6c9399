#!/usr/bin/env python3
"""What training made of the parameters, as two numbers: norms.py INITIAL.safetensors FINAL.safetensors

parameter_norm: L2 norm of all parameters. update_norm: that of what was added to the initial ones. Both are sums in
double; a tied head that is stored a second time counts once.
"""
import json
import math
import pathlib
import sys
from collections.abc import Mapping

import numpy
from safetensors.numpy import load_file

TIED_HEAD = "lm_head.weight"


def norms(initial: Mapping[str, numpy.ndarray], final: Mapping[str, numpy.ndarray]) -> dict[str, float]:
    names = final.keys() - {TIED_HEAD}
    if names != initial.keys() - {TIED_HEAD}:
        raise ValueError(f"expected the same parameters before and after, these differ: {names ^ initial.keys()}")
    parameters = updates = 0.0
    for name in names:
        values = final[name].astype(numpy.float64)
        parameters += float(numpy.square(values).sum())
        updates += float(numpy.square(values - initial[name]).sum())
    return {"parameter_norm": math.sqrt(parameters), "update_norm": math.sqrt(updates)}


def main() -> None:
    initial, final = (load_file(pathlib.Path(name)) for name in sys.argv[1:3])
    print(json.dumps(norms(initial, final)))


if __name__ == "__main__":
    main()
