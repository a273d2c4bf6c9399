#!/usr/bin/env python3
"""How long `make demo` trains, how fast, and how good it is then.

    bench/e2e/demo.py [--rounds 3] [--quick] [--out bench/results/demo.json]

Trains examples/base/python.toml as scripts/demo.sh does, --quick a few steps of it. Only the standard library.
"""
import argparse
import pathlib
import sysconfig
import tempfile

from runs import BUILD, ROOT, lines_of, run, save, spread

QUICK_STEPS = 4


def train(folder: pathlib.Path, turn: int, also: list[str]) -> dict:
    out, library = folder / f"run-{turn}", sysconfig.get_paths()["stdlib"]
    _, resident = run([str(BUILD / "accrue"), "train", str(ROOT / "examples" / "base" / "python.toml"),
                       f'--data.train=["{library}/[_a-s]*.py", "{library}/[_a-r]*/**/*.py"]',
                       f'--data.val=["{library}/[t-z]*.py"]', f"--run.out={out}", "--observe.progress=off", *also])
    lines = lines_of(out)
    steps = [line for line in lines if "loss" in line]
    return {"steps": len(steps), "seconds": sum(step["seconds"] for step in steps), "peak_resident_bytes": resident,
            "tokens_per_second": sorted(step["tokens_per_second"] for step in steps)[len(steps) // 2],
            "eval_loss": [line["eval_loss"] for line in lines if "eval_loss" in line][-1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    rounds, also = (1, [f"--run.steps={QUICK_STEPS}"]) if options.quick else (options.rounds, [])
    with tempfile.TemporaryDirectory() as name:
        runs = [train(pathlib.Path(name), turn, also) for turn in range(rounds)]
    result = {"rounds": rounds, "steps": runs[0]["steps"],
              **{what: spread([one[what] for one in runs])
                 for what in ("seconds", "tokens_per_second", "peak_resident_bytes", "eval_loss")}}
    print(f"{result['steps']} steps in {result['seconds']['median']:.0f} s, {result['tokens_per_second']['median']:,.0f} "
          f"tokens/s, validation loss {result['eval_loss']['median']:.3f} nats per byte")
    save("demo.json", {"demo": result}, options.out, options.quick)


if __name__ == "__main__":
    main()
