#!/usr/bin/env python3
"""unet_budget.py UNET: a U-Net under a memory budget, by the measurement of bench/e2e/unet.py at a small size.

With full recomputation it trains, within the budget as the operating system counts it; without, the same budget is
refused. The losses are those of a run without a budget. Only the standard library."""
import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "e2e"))
import unet  # noqa: E402

LEVELS, WIDTH = 4, 8
MIB = 2**20


def main(program):
    height, width, budget = unet.SIZES["quick"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        unet.write_images(folder, height, width)
        config = unet.config_of(folder, LEVELS, WIDTH)
        within = f"--memory.budget={budget}"
        full = unet.trained(program, config, "full", "--memory.recompute=full", within)
        none = unet.trained(program, config, "none", "--memory.recompute=none", within)
        free = unet.trained(program, config, "free", "--memory.recompute=none")
    assert "refused" not in full, full
    assert full["peak_resident_bytes"] <= int(budget.removesuffix("MiB")) * MIB, full
    assert full["peak_tensor_bytes"] <= full["peak_reserved_bytes"] < full["peak_resident_bytes"], full
    assert full["retries"] == 0 and full["micro_batches"] == unet.BATCH, full
    assert "refused" in none, f"the budget limits nothing: {none}"
    assert full["losses"] == free["losses"], (full, free)
    assert free["peak_tensor_bytes"] > 1.5 * full["peak_tensor_bytes"], (full, free)
    print(f"{full['peak_resident_bytes'] / MIB:.0f} MiB of {budget}; without recomputation {free['peak_resident_bytes'] / MIB:.0f} MiB")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
