"""The order of rooms is kept, and scripts/check_rooms.py sees where it is not: includes and dependencies are planted in a copy."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def check(root: pathlib.Path) -> tuple[int, str]:
    ended = subprocess.run([sys.executable, str(ROOT / "scripts" / "check_rooms.py"), str(root)], capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


def copy_of_tree(root: pathlib.Path) -> pathlib.Path:
    for folder in ("src", "include"):
        shutil.copytree(ROOT / folder, root / folder)
    (root / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "design.md", root / "docs")
    return root


def planted(root: pathlib.Path, name: str, old: str, new: str) -> tuple[int, str]:
    """What is said of the tree with `new` in place of `old`, once; it is as it was afterwards."""
    file = root / name
    text = file.read_text()
    assert old in text, f"{name} has no {old!r}"
    file.write_text(text.replace(old, new, 1))
    result = check(root)
    file.write_text(text)
    return result


def expect(result: tuple[int, str], status: int, *words: str) -> None:
    assert result[0] == status and all(word in result[1] for word in words), result


def main() -> None:
    expect(check(ROOT), 0, "each uses only rooms before it")
    with tempfile.TemporaryDirectory(prefix="accrue-rooms-") as scratch:
        root = copy_of_tree(pathlib.Path(scratch))
        include = '#include "train/pass/chain_run.h"\n'
        source = "src/train/pass/chain_run.cpp"
        expect(planted(root, source, include, include + '#include "train/run/training_loop.h"\n'), 1, source, "train/run", "comes after")
        expect(planted(root, source, include, include + '#include "accrue/train/trainer.h"\n'), 1, source, "train/run", "comes after")
        header = "include/accrue/core/loss.h"
        expect(planted(root, header, "#pragma once\n", '#pragma once\n#include "accrue/accum/window.h"\n'), 1, header, "accum")
        lists = "src/train/pass/CMakeLists.txt"
        expect(planted(root, lists, "DEPENDS core", "DEPENDS train_run core"), 1, "train/pass depends on train/run")
        expect(planted(root, lists, " models)", ")"), 1, "includes models", "does not depend on it")
        models = "src/models/CMakeLists.txt"
        expect(planted(root, models, " batch data)", " batch)"), 1, "models/files/gguf/tokenizer includes data/", "does not depend on it")
        config = "src/train/config/CMakeLists.txt"
        expect(planted(root, config, "HEADERS_OF observe kernels accum", "HEADERS_OF observe kernels"), 1, "train/config includes accum", "does not depend on it")
        expect(planted(root, config, "HEADERS_OF observe", "HEADERS_OF verify observe"), 1, "train/config depends on verify")
        expect(planted(root, "docs/design.md", "| train/pass |", "| train/passes |"), 1, source, "belongs to no room")
        expect(planted(root, "docs/design.md", "| room |", "| chamber |"), 1, "error: rooms: expected a table")


def expect_order_of_folders() -> None:
    """Each include stands in a folder that may not have it, except the last: folders of one row may use each other."""
    includes = {
        "src/kernels/gemm/linear.cpp": ("kernels/foreign/foreign_product.h", "kernels/gemm", "kernels/foreign"),
        "src/models/files/gguf/container/gguf_file.cpp": (
            "models/files/gguf/tokenizer/gguf_scores.h", "models/files/gguf/container", "models/files/gguf/tokenizer"),
        "src/models/layers/projection.cpp": ("models/files/hub/hub_weights.h", "models/layers", "models/files/hub"),
        "src/distributed/nccl/nccl_engine.cpp": ("distributed/group/membership/members.h", "distributed/nccl", "distributed/group/membership"),
        "src/distributed/group/network/addresses.cpp": ("distributed/group/handshake.h", "distributed/group/network", "distributed/group"),
        "src/data/chat/template/values/value_text.cpp": ("data/chat/template/loop_state.h", "data/chat/template/values", "data/chat/template"),
        "src/data/loader.cpp": ("data/text/sources/line_reader.h", "data", "data/text/sources"),
        "src/verify/prover.cpp": ("verify/doctor/doctor.h", "verify", "verify/doctor"),
        "src/train/config/toml/value.cpp": ("train/config/key.h", "train/config/toml", "train/config"),
        "src/kernels/rows/rotary.cpp": ("kernels/attention/attend.h", "kernels/rows", "kernels/attention"),
        "src/kernels/rows/norm.cpp": ("kernels/gemm/gemm.h", None, None)}
    with tempfile.TemporaryDirectory(prefix="accrue-rooms-") as scratch:
        root = copy_of_tree(pathlib.Path(scratch))
        for source, (header, _, _) in includes.items():
            assert (root / "src" / header).is_file(), header
            with (root / source).open("a") as file:
                file.write(f'#include "{header}"\n')
        result = check(root)
    words = [f"{room} includes {header} of {other}, which comes after it" for header, room, other in includes.values() if room]
    expect(result, 1, *words)
    assert result[1].count("comes after it") == len(words), result


if __name__ == "__main__":
    main()
    expect_order_of_folders()
