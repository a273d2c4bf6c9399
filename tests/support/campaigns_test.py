"""A campaign that cannot run is no campaign that passed: the statuses of campaigns.py, with small campaigns in place of the real ones."""
import contextlib
import dataclasses
import io
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "faults"))
import campaigns  # noqa: E402
import tinyrun  # noqa: E402
from campaigns import Entry  # noqa: E402

SKIPPED = 77
RAN: list[str] = []


def that(name: str, status: int = 0, left_out: tinyrun.LeftOut | None = None, **how) -> Entry:
    def run(options: tinyrun.Options) -> int:
        if left_out:
            raise left_out
        assert pathlib.Path(options.program).is_absolute(), options
        RAN.append(f"{name} {options.count}")
        return status

    return dataclasses.replace(Entry(run, 50, 5), **how)


CAMPAIGNS = {
    "whole": that("whole"),
    "broken": that("broken", 1),
    "long-only": that("long-only", short=0),
    "of-ranks": that("of-ranks", needs=("store_host", "fault_points")),
    "of-links": that("of-links", left_out=tinyrun.LeftOut("no network namespace can be made")),
    "of-tools": that("of-tools", left_out=tinyrun.LeftOut("there is no tc", could_be_set_up=True)),
}
SOAKS = {"soak-ranks": (lambda options, minutes: 0, ("failing_calls",))}


@dataclasses.dataclass
class Said:
    status: int
    out: str
    errors: str
    ran: list[str]


def run(folder: pathlib.Path, *words: str, names: tuple[str, ...] = tuple(CAMPAIGNS), required: bool = False) -> Said:
    RAN.clear()
    campaigns.CAMPAIGNS = {name: CAMPAIGNS[name] for name in names}
    campaigns.SOAKS = SOAKS
    os.environ.pop("ACCRUE_REQUIRE_ALL", None)
    if required:
        os.environ["ACCRUE_REQUIRE_ALL"] = "1"
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            status = campaigns.main([str(folder / "accrue"), *words])
        except SystemExit as ended:
            status = ended.code
    return Said(status, out.getvalue(), errors.getvalue(), list(RAN))


def expect(said: Said, status: int, ran: list[str], *words: str) -> None:
    assert said.status == status and said.ran == ran, said
    assert all(word in said.out + said.errors for word in words), said
    assert status != 2 or said.errors.count("error: ") == 1, said


def check_what_is_asked_for(folder: pathlib.Path) -> None:
    expect(run(folder, "--only", "whole"), 0, ["whole 50"])
    expect(run(folder, "--only", "whole", "--only", "broken", "--count", "7"), 1, ["whole 7", "broken 7"])
    expect(run(folder, "--only", "whole", "--only", "of-ranks"), 2, [], "error: faults: of-ranks: expected ", "store_host, ", "fault_points",
           f"try cmake --build {folder} --target store_host && cmake --build {folder} --target fault_points")
    expect(run(folder, "--only", "soak-ranks"), 2, [], "error: faults: soak-ranks: expected ", "--target failing_calls")
    expect(run(folder, "--only", "whole", "--only", "long-only", "--short"), 2, [], "long-only: expected a campaign with a short form")
    expect(run(folder, "--only", "long-only", "--short", "--count", "2"), 0, ["long-only 2"])
    expect(run(folder, "--only", "of-links", "--only", "whole"), 2, ["whole 50"], "of-links", "no network namespace can be made")
    expect(run(folder, "--only", "no-such"), 2, [], "invalid choice: 'no-such'")
    expect(run(folder, "--only", "whole", "--count", "0"), 2, [], "--count: expected a number of 1 or more, received 0")
    expect(run(folder / "none", "--only", "whole"), 2, [], "expected the program accrue", "try make build")


def check_where_it_runs(folder: pathlib.Path) -> None:
    """As `make faults` and the long tests name the program; campaigns run it in folders of their own."""
    with contextlib.chdir(folder):
        expect(run(pathlib.Path(), "--only", "whole"), 0, ["whole 50"])
        expect(run(pathlib.Path(), "--only", "soak-ranks", "--tests", "tests"), 2, [], f"expected {folder.resolve()}")


def check_all_of_them(folder: pathlib.Path) -> None:
    expect(run(folder, "--short", names=("whole", "long-only")), 0, ["whole 5"])
    expect(run(folder, names=("whole", "long-only")), 0, ["whole 50", "long-only 50"])
    expect(run(folder, names=("whole", "of-ranks")), SKIPPED, ["whole 50"], "skipped: of-ranks: expected ")
    expect(run(folder, names=("of-ranks", "whole"), required=True), 1, ["whole 50"], "BROKEN of-ranks", "ACCRUE_REQUIRE_ALL is set")
    expect(run(folder, names=("of-tools", "whole")), SKIPPED, ["whole 50"], "skipped: of-tools: there is no tc")
    expect(run(folder, names=("of-tools", "whole"), required=True), 1, ["whole 50"], "BROKEN of-tools")
    expect(run(folder, names=("of-links", "whole"), required=True), SKIPPED, ["whole 50"], "skipped: of-links")
    expect(run(folder, names=("of-links", "broken"), required=True), 1, ["broken 50"], "skipped: of-links")


def check_what_is_built(folder: pathlib.Path) -> None:
    for name in ("integration/ranks/store_host", "faults/libfault_points.so"):
        program = folder / "tests" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch()
    expect(run(folder, names=("whole", "of-ranks"), required=True), 0, ["whole 50", "of-ranks 50"])
    expect(run(folder, "--only", "of-ranks"), 0, ["of-ranks 50"])


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="accrue-campaigns-") as name:
        folder = pathlib.Path(name)
        (folder / "accrue").touch()
        check_what_is_asked_for(folder)
        check_where_it_runs(folder)
        check_all_of_them(folder)
        check_what_is_built(folder)


if __name__ == "__main__":
    main()
