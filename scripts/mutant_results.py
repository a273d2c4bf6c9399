"""What came of mutants, row by row, and the page that is written from it (scripts/mutants.py)."""
import datetime
import json
import pathlib

import stored

STORED = pathlib.Path("tests/mutants/results.json")
PAGE = pathlib.Path("docs/notes/mutants.md")
HEAD = """# Mutants, and who saw them

[All documentation](../README.md)

<!-- scripts/mutants.py writes this page from tests/mutants/results.json. -->

Each is a fault that was planted in the sources (`tests/mutants`). The tests that the table names were run, and `accrue verify` was asked
with the configs in brackets: it names a cause where it sees a difference, or says "equal". Rows are of different dates, since a run asks as
many as it has time for; the commit is what the fault was planted in ("+": with changes that were not committed yet).
"""


def when(row: dict) -> str:
    return f"{row['date']}, {row['commit']}"


class Results:
    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        path = root / STORED
        self.rows = json.loads(path.read_text()) if path.exists() else {}

    def problems(self, mutants: list) -> list[str]:
        """What the stored rows and the page have that does not go with the table."""
        expected = {mutant.name: mutant.verify for mutant in mutants}
        problems = [f"{name}: {STORED} has a row of it, and the table has none" for name in sorted(set(self.rows) - set(expected))]
        for name in set(self.rows) & set(expected):
            problems += [f"{name}: {STORED} has an answer for {asked}, with which it is not asked any more"
                         for asked in self.rows[name]["verify"] if asked not in expected[name]]
        page = self.root / PAGE
        if not problems and (page.read_text() if page.exists() else "") != self.page(mutants):
            problems.append(f"{PAGE} is not what scripts/mutants.py writes from {STORED}")
        return problems

    def take_in(self, name: str, killed: list[str] | None, answers: list[dict], commit: str) -> None:
        """`killed`: tests that failed; None: none were run."""
        stamp = {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "commit": commit}
        row = self.rows.setdefault(name, {"verify": {}})
        if killed is not None:
            row["tests"] = {"killed": killed, **stamp}
        for answer in answers:
            row["verify"][answer["config"]] = {key: value for key, value in answer.items() if key != "config"} | stamp

    def write(self, mutants: list) -> None:
        expected = {mutant.name: mutant.verify for mutant in mutants}
        self.rows = {name: row for name, row in sorted(self.rows.items()) if name in expected}
        for name, row in self.rows.items():
            row["verify"] = {asked: row["verify"][asked] for asked in expected[name] if asked in row["verify"]}
        stored.write(self.root / STORED, json.dumps(self.rows, indent=1) + "\n")
        stored.write(self.root / PAGE, self.page(mutants))

    def page(self, mutants: list) -> str:
        lines = ["", "| mutant | what is wrong | killed by | verify | asked |", "|---|---|---|---|---|"]
        lines += [self.line(mutant) for mutant in sorted(mutants, key=lambda m: (m.room, m.name))]
        return HEAD + self.totals(mutants) + "\n".join(lines) + "\n"

    def totals(self, mutants: list) -> str:
        tested = [row["tests"] for row in self.rows.values() if "tests" in row]
        answers = [(mutant.verify[asked], answer["said"]) for mutant in mutants
                   for asked, answer in self.rows.get(mutant.name, {"verify": {}})["verify"].items() if asked in mutant.verify]
        asked = sum(len(mutant.verify) for mutant in mutants)
        return (f"\nOf {len(mutants)} mutants, {len(tested)} have a stored row of tests, which killed {sum(bool(t['killed']) for t in tested)}. "
                f"Of {asked} questions to `verify`, {len(answers)} have a stored answer, of which "
                f"{sum(expected == said for expected, said in answers)} are as expected.\n")

    def line(self, mutant) -> str:
        row = self.rows.get(mutant.name, {"verify": {}})
        tests = row.get("tests")
        killed = ""
        if tests:
            killed = ", ".join(f"`{name}`" for name in tests["killed"][:1]) or "**nobody**"
            killed += f" and {len(tests['killed']) - 1} more" if len(tests["killed"]) > 1 else ""
        said = []
        for asked, expected in mutant.verify.items():
            answer = row["verify"].get(asked)
            if answer:
                said.append(f"{answer['said']} (`{asked}`)" + ("" if answer["said"] == expected else f", **expected: {expected}**"))
        asked_at = sorted({when(part) for part in [*row["verify"].values(), *([tests] if tests else [])]})
        needs = f" Needs {mutant.needs}." if mutant.needs else ""
        cells = [mutant.name, mutant.wrong + needs, killed, "; ".join(said) or mutant.why, "; ".join(asked_at)]
        return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"
