"""What people who operate training reported, and cases like those: limits of real control groups, data that moved, links to nothing,
a scheduler's signal, addresses that are none. operators_test.py ACCRUE FAULT_POINTS. Only the standard library."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "support"), str(TESTS / "faults")]

import control_groups  # noqa: E402
import estates  # noqa: E402
import started_once  # noqa: E402
import tinyrun  # noqa: E402

OPTIONS: tinyrun.Options
LAST = "runs/first/checkpoints/step-00000004/model.safetensors"
NEW = "--run.out=runs/new"


class Operators(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="accrue-operators-")
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def estate(self, kind):
        """A run of four steps in runs/first, with its data. What follows works there."""
        self.folder = estates.make(OPTIONS, estates.KINDS[kind], self.scratch / kind)
        return self.folder

    def accrue(self, *words, fault="", begin=None, **variables):
        """`begin` runs in the process before the program."""
        armed = {"LD_PRELOAD": str(OPTIONS.programs.fault_points), "ACCRUE_FAULT": fault} if fault else {}
        environment = tinyrun.alone() | armed | variables
        command = [OPTIONS.program, *words]
        if begin is None:
            return tinyrun.wait(started_once.start(command, environment, self.folder))
        return tinyrun.wait(subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                             stderr=subprocess.PIPE, env=environment, preexec_fn=begin))

    def expect(self, ended, status, *words):
        self.assertEqual(ended.status, status, ended.errors)
        for word in words:
            self.assertIn(word, ended.errors)


class Limits(Operators):
    def group(self, controller, limits):
        try:
            return control_groups.Group(controller, limits)
        except OSError as error:
            self.skipTest(f"no group of {controller} can be made here ({error})")

    def quota(self, share):
        """Of a core; 0: none."""
        if control_groups.is_unified("cpu"):
            return {"cpu.max": f"{share * 100_000:.0f} 100000" if share else "max 100000"}
        return {"cpu.cfs_quota_us": f"{share * 100_000:.0f}" if share else "-1"}

    def test_a_quota_of_a_group_or_of_one_around_it_bounds_the_threads(self):
        self.estate("text")
        processors = len(os.sched_getaffinity(0))
        for number, (shares, wanted) in enumerate((([0.5], 1), ([0.5, 0], 1), ([1.5, 0, 0], 1), ([1, 0.5], 1), ([0], processors), ([processors], processors))):
            with self.subTest(shares=shares):
                out = f"runs/new{number}"
                with self.group("cpu", [self.quota(share) for share in shares]) as group:
                    self.expect(self.accrue("train", "run.toml", f"--run.out={out}", "--run.threads=0", "--run.steps=1", begin=group.enter), 0)
                self.assertEqual(json.loads((self.folder / out / "run.json").read_text())["machine"]["threads"], wanted)

    def test_a_group_that_starts_no_thread_has_its_checkpoints_all_the_same(self):
        self.estate("text")
        with self.group("pids", [{"pids.max": "1"}]) as group:
            self.expect(self.accrue("train", "run.toml", NEW, begin=group.enter), 0)
        self.assertEqual((self.folder / LAST.replace("first", "new")).read_bytes(), (self.folder / LAST).read_bytes())


class MovedData(Operators):
    def expect_same_from(self, override, change):
        """Resumed from step 2 with data elsewhere it has the bits of before; with other content it is refused."""
        wanted = (self.folder / LAST).read_bytes()
        resume = ("train", "run.toml", "--resume", "2", override)
        self.expect(self.accrue(*resume), 0)
        self.assertTrue(any("the same data as before lie elsewhere" in event for event in tinyrun.events(self.folder / "runs/first", "data")))
        self.assertEqual((self.folder / LAST).read_bytes(), wanted)
        change()
        self.expect(self.accrue(*resume), 2)

    def moved(self, name):
        target = self.folder / "scratch" / "job 17" / name
        target.parent.mkdir(parents=True)
        (self.folder / name).rename(target)
        return target

    def test_json_lines_may_lie_elsewhere(self):
        self.estate("lines")
        lines = self.moved("lines.jsonl")
        self.expect_same_from('--data.train=["scratch/job 17/*.jsonl"]', lambda: lines.write_bytes(lines.read_bytes().replace(b"words", b"sword", 1)))

    def test_images_may_lie_elsewhere(self):
        self.estate("images")
        images = self.moved("images")
        first = next(images.rglob("*.png"))
        other = next(file for file in images.rglob("*.png") if file.read_bytes() != first.read_bytes())
        self.expect_same_from('--data.train=["scratch/job 17/images/*/*.png"]', lambda: shutil.copy(other, first))

    def test_text_may_lie_behind_a_link(self):
        self.estate("text")
        text = self.moved("text.txt")
        (self.folder / "disk").symlink_to(text.parent)
        self.expect_same_from('--data.train=["disk/*.txt"]', lambda: text.write_bytes(text.read_bytes().replace(b"line", b"lime", 1)))

    def test_a_repetition_takes_them_from_there(self):
        for kind, name, override in (("lines", "lines.jsonl", '--data.train=["scratch/job 17/lines.jsonl"]'),
                                     ("images", "images", '--data.train=["scratch/job 17/images/*/*.png"]')):
            with self.subTest(kind=kind):
                self.estate(kind)
                self.moved(name)
                self.expect(self.accrue("train", "--repeat", "runs/first", NEW, override), 0)
                self.assertEqual((self.folder / LAST.replace("first", "new")).read_bytes(), (self.folder / LAST).read_bytes())


class LinksToNothing(Operators):
    def expect_refused(self, link, *words):
        (self.folder / link).parent.mkdir(exist_ok=True)
        (self.folder / link).symlink_to("/nonexistent/shard")
        for call in (words, ("plan", *words[1:]), ("data", *words[1:])):
            with self.subTest(call=call):
                ended = self.accrue(*call)
                self.expect(ended, 2, link)
                self.assertFalse((self.folder / "runs/new").exists())
        (self.folder / link).unlink()

    def test_of_text_and_of_held_out_text(self):
        self.estate("text")
        (self.folder / "texts").mkdir()
        shutil.copy(self.folder / "text.txt", self.folder / "texts" / "0.txt")
        self.expect_refused("texts/9.txt", "train", "run.toml", NEW, '--data.train=["texts/*.txt"]')
        self.expect_refused("texts/shard", "train", "run.toml", NEW, '--data.train=["texts/**/*.txt"]')

    def test_of_json_lines(self):
        self.estate("lines")
        self.expect_refused("9.jsonl", "train", "run.toml", NEW, '--data.train=["*.jsonl"]')

    def test_of_images_and_of_their_classes(self):
        self.estate("images")
        self.expect_refused("images/light/9.png", "train", "run.toml", NEW)
        self.expect_refused("images/grey", "train", "run.toml", NEW)


class Notices(Operators):
    def test_sigusr1_at_any_point_ends_no_run_and_changes_no_bit(self):
        self.estate("text")
        wanted = (self.folder / LAST).read_bytes()
        for number, point in enumerate(("load", "plan", "micro-batch", "close-window", "optimizer-step", "evaluation", "checkpoint:write", "log")):
            with self.subTest(point=point):
                out = f"runs/new{number}"
                self.expect(self.accrue("train", "run.toml", f"--run.out={out}", fault=f"at={point} do=USR1"), 0)
                self.assertEqual((self.folder / LAST.replace("runs/first", out)).read_bytes(), wanted)


class Addresses(Operators):
    LAUNCHERS = {"by hand": {"RANK": "0", "WORLD_SIZE": "2"},
                 "mpirun": {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"},
                 "srun": {"SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}}

    def test_what_is_no_address_or_port_is_named_under_each_launcher(self):
        self.estate("text")
        for launcher, variables in self.LAUNCHERS.items():
            for name, values in (("MASTER_ADDR", ("", " node ", "[fe80::1]:29500", "node:29500", "http://node", "a,b", "node\n")),
                                 ("MASTER_PORT", ("", "0", "65536", " 29500", "http", "29500,29501"))):
                for value in values:
                    with self.subTest(launcher=launcher, name=name, value=value):
                        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"} | {name: value}
                        ended = self.accrue("train", "run.toml", NEW, **(variables | meeting))
                        self.expect(ended, 2, name)
                        self.assertNotIn("token", ended.errors.lower())
        self.assertFalse((self.folder / "runs/new").exists())


if __name__ == "__main__":
    program, fault_points = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
    none = pathlib.Path("/nonexistent")
    OPTIONS = tinyrun.Options(str(program), 1, 1, 1, tinyrun.Programs(none, fault_points, none, none, none))
    unittest.main(verbosity=2)
