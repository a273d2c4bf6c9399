"""A run's event files, read by TensorBoard itself.

tensorboard_golden.py ACCRUE: the command line. TensorBoard's EventAccumulator finds every number of metrics.jsonl under its
tag, also in runs that were resumed, and histograms as NumPy counts them; TensorBoard is started, answers with all of it, and
shows it in a browser. Exit status 77 where TensorBoard is not there."""
import collections
import contextlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
import skips  # noqa: E402
from browser import chromium  # noqa: E402

try:
    import numpy
    from safetensors.numpy import load_file
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.compat.proto import event_pb2
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
    from tensorboard.plugins.hparams import metadata as hparams
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

ACCRUE = ""
# The titles of a page's cards, once each.
TITLES = r"""[...new Set([...document.querySelectorAll("[title]")].map(e => e.title).filter(t => /^(train|eval|time|memory)\/[a-z_]+$/.test(t)))]"""
SECONDS = 120  # after which what was started is taken to hang
STEPS = 6
CONFIG = f"""
[run]
out = "runs/first"
steps = {STEPS}
threads = 1
eval_every = "2 steps"
checkpoint_every = "2 steps"
keep = 9
[model]
layers = 1
heads = 1
width = 16
context = 16
[data]
train = ["text.txt"]
val_fraction = 0.1
[batch]
samples = 4
micro = 2
[observe]
progress = "off"
histograms = "3 steps"
"""
# The tags of the contract (docs/design.md, section 5) and the others of docs/guide/tensorboard.md.
OF_STEPS = {
    "loss": "train/loss", "grad_norm": "train/grad_norm", "lr": "train/lr", "tokens_per_second": "train/tokens_per_second",
    "batch_tokens": "train/batch_tokens", "noise_scale": "train/noise_scale", "noise_scale_low": "train/noise_scale_low",
    "noise_scale_high": "train/noise_scale_high", "noise_scale_in_geometry": "train/noise_scale_in_geometry",
    "gradient_variance": "train/gradient_variance", "peak_bytes": "memory/peak",
    "updates_per_hour": "train/updates_per_hour", "epoch": "train/epoch", "samples": "train/samples",
    "tokens": "train/tokens", "weight": "train/weight", "micro_batch": "train/micro_batch",
    "micro_batches": "train/micro_batches", "world": "train/world", "quarantined": "train/quarantined",
    "retries": "train/retries", "elapsed": "time/elapsed", "seconds": "time/step",
    "accumulation_seconds": "time/accumulation", "optimizer_seconds": "time/optimizer", "reduce_seconds": "time/reduce",
    "reduce_exposed_seconds": "time/reduce_exposed", "wire_bytes": "ranks/wire_bytes",
    "pipeline_bubble": "ranks/pipeline_bubble", "pipeline_bubble_formula": "ranks/pipeline_bubble_formula",
    "budget_bytes": "memory/budget", "micro_batch_peak_bytes": "memory/micro_batch_peak",
    "batch_samples": "train/batch_samples", "epoch_seconds": "time/epoch", "data_seconds": "time/data",
    "checkpoint_seconds": "time/checkpoint", "share_of_ceiling": "machine/share_of_ceiling", "joules": "machine/joules",
    "offload_read_bytes": "offload/read", "offload_written_bytes": "offload/written", "offload_wait_seconds": "offload/wait",
    "micro_batch_seconds.median": "time/micro_batch_median", "micro_batch_seconds.max": "time/micro_batch_max",
    **{f"memory.{kind}": f"memory/{kind}" for kind in (
        "parameters", "gradients", "optimizer", "activations", "packed", "reserved")}}
BY_NAME = {"losses": "train/loss", "lrs": "train/lr", "noise_scales": "train/noise_scale"}  # whose names are the run's own
OF_EVALUATIONS = {"eval_loss": "eval/loss", "eval_accuracy": "eval/accuracy", "weight": "eval/weight", "seconds": "time/eval"}
NO_SCALARS = {"step", "time", "event", "reason", "batchnorm"}
OUR_OWN = {"train/samples_per_second"}  # made of samples and seconds


def write_text(file: Path) -> None:
    words = "a batch is split into parts and each part adds its gradient to one sum before the step is taken".split()
    lines = (" ".join(words[i * (k + 3) * 7 % len(words)] for k in range(11)) for i in range(400))
    file.write_text("\n".join(lines))


def metrics_of(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def numbers_of(line: dict) -> dict[str, float]:
    """With dotted names for what is nested."""
    numbers = {name: value for name, value in line.items() if name not in NO_SCALARS and not isinstance(value, dict)}
    for outer, values in line.items():
        if isinstance(values, dict):
            numbers |= {f"{outer}.{inner}": value for inner, value in values.items()}
    return numbers


def tag_of(name: str, tags: dict[str, str]) -> str:
    outer, _, inner = name.partition(".")
    return f"{BY_NAME[outer]}/{inner}" if outer in BY_NAME else tags[name]


def expected_scalars(lines: list[dict]) -> dict[str, dict[int, float]]:
    """What metrics.jsonl says, by tag and step, as float32; fails for a number that has no tag."""
    scalars: dict[str, dict[int, float]] = collections.defaultdict(dict)
    for line in lines:
        if "event" in line:
            continue
        tags = OF_EVALUATIONS if "eval_loss" in line else OF_STEPS
        for name, value in numbers_of(line).items():
            scalars[tag_of(name, tags)][line["step"]] = float(numpy.float32(value))
    return dict(scalars)


def read(folder: Path) -> EventAccumulator:
    accumulator = EventAccumulator(str(folder), size_guidance={kind: 0 for kind in (
        "scalars", "histograms", "tensors", "compressedHistograms", "images", "audio")})
    return accumulator.Reload()


def mistakes(folder: Path, lines: list[dict]) -> list[str]:
    """Where TensorBoard's scalars are not those of metrics.jsonl, each step once."""
    accumulator = read(folder)
    found: list[str] = []
    expected = expected_scalars(lines)
    tags = set(accumulator.Tags()["scalars"]) - OUR_OWN
    found += [f"{tag} is in one of them alone" for tag in tags ^ expected.keys()]
    for tag in tags & expected.keys():
        events = accumulator.Scalars(tag)
        steps = [event.step for event in events]
        if steps != sorted(expected[tag]):
            found.append(f"{tag} has the steps {steps}")
        found += [f"{tag} is {event.value} at step {event.step}" for event in events
                  if event.value != expected[tag].get(event.step)]
    return found


def records_of(file: Path) -> list[bytes]:
    """The file's records, by a reader of our own, which looks at each checksum."""
    content, records = file.read_bytes(), []
    while content:
        (size, size_crc), data = struct.unpack("<QI", content[:12]), content[12:]
        if masked_crc32c(content[:8]) != size_crc or masked_crc32c(data[:size]) != struct.unpack("<I", data[size:size + 4])[0]:
            raise AssertionError(f"a checksum in {file}")
        records.append(data[:size])
        content = data[size + 4:]
    return records


def write_records(file: Path, records: list[bytes]) -> None:
    def framed(data: bytes) -> bytes:
        size = struct.pack("<Q", len(data))
        return size + struct.pack("<I", masked_crc32c(size)) + data + struct.pack("<I", masked_crc32c(data))
    file.write_bytes(b"".join(map(framed, records)))


def event_files(run: Path) -> list[Path]:
    return sorted((run / "tb").iterdir())


class Runs:
    """What all tests read: a run, one that was resumed from step 2, and one with another config."""

    def __init__(self, folder: Path):
        self.folder = folder
        write_text(folder / "text.txt")
        (folder / "run.toml").write_text(CONFIG)
        self.train()
        self.first, self.resumed, self.second = (folder / "runs" / name for name in ("first", "resumed", "second"))
        shutil.copytree(self.first, self.resumed)
        self.before = metrics_of(self.resumed)
        self.train("--run.out=runs/resumed", "--observe.histograms=none", "--resume", "2")
        self.train("--run.out=runs/second", "--optim.lr=1e-3", "--optim.schedule.kind=constant")

    def train(self, *arguments: str, config: str = "run.toml") -> str:
        """Returns what was said on standard error."""
        result = subprocess.run([ACCRUE, "train", config, *arguments], cwd=self.folder, capture_output=True,
                                text=True, timeout=SECONDS, check=False)
        if result.returncode:
            raise AssertionError(result.stderr)
        return result.stderr


RUNS: Runs


def setUpModule() -> None:  # noqa: N802
    global RUNS
    folder = tempfile.TemporaryDirectory(prefix="accrue_tensorboard_")
    unittest.addModuleCleanup(folder.cleanup)
    RUNS = Runs(Path(folder.name))


class Scalars(unittest.TestCase):
    def test_are_those_of_the_metrics(self) -> None:
        lines = metrics_of(RUNS.first)
        self.assertEqual(mistakes(RUNS.first / "tb", lines), [])
        self.assertEqual(len(expected_scalars(lines)["train/loss"]), STEPS)
        self.assertEqual(len(expected_scalars(lines)["eval/loss"]), STEPS // 2)

    def test_have_samples_per_second_besides(self) -> None:
        lines = [line for line in metrics_of(RUNS.first) if "loss" in line]
        before = [0] + [line["samples"] for line in lines[:-1]]
        events = read(RUNS.first / "tb").Scalars("train/samples_per_second")
        for event, line, samples in zip(events, lines, before, strict=True):
            self.assertEqual(event.value, float(numpy.float32((line["samples"] - samples) / line["seconds"])))

    def test_are_compared_so_that_a_bit_shows(self) -> None:
        lines = metrics_of(RUNS.first)
        line = next(line for line in lines if "loss" in line)
        line["loss"] = float(numpy.nextafter(numpy.float32(line["loss"]), numpy.float32(numpy.inf)))
        self.assertEqual(len(mistakes(RUNS.first / "tb", lines)), 1)
        del line["loss"], line["lr"]
        self.assertEqual(len(mistakes(RUNS.first / "tb", lines)), 4)

    def test_of_a_resumed_run_come_once(self) -> None:
        lines = metrics_of(RUNS.resumed)
        self.assertEqual(len(event_files(RUNS.resumed)), 2)
        self.assertEqual(mistakes(RUNS.resumed / "tb", lines), [])
        self.assertNotEqual(mistakes(RUNS.resumed / "tb", RUNS.before), [], "the times differ, at least")

    def test_of_a_resumed_run_would_come_twice_without_the_mark(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "tb"
            shutil.copytree(RUNS.resumed / "tb", folder)
            file = sorted(folder.iterdir())[-1]
            records = records_of(file)
            marks = [record for record in records if event_pb2.Event.FromString(record).HasField("session_log")]
            self.assertEqual([event_pb2.Event.FromString(mark).step for mark in marks], [3])
            write_records(file, [record for record in records if record not in marks])
            self.assertIn("train/loss has the steps [1, 2, 3, 4, 5, 6, 3, 4, 5, 6]", mistakes(folder, metrics_of(RUNS.resumed)))

    def test_of_a_file_that_a_crash_tore_are_all_but_the_last(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            run = Path(name) / "run"
            shutil.copytree(RUNS.first, run)
            file = event_files(run)[0]
            write_records(file, records_of(file)[:-1])  # without the end of the session
            whole = metrics_of(run)
            self.assertEqual(mistakes(run / "tb", whole), [])
            file.write_bytes(file.read_bytes()[:-3])
            self.assertEqual(event_pb2.Event.FromString(records_of(event_files(RUNS.first)[0])[-2]).step, STEPS)
            self.assertEqual(len(mistakes(run / "tb", whole)), 3, "the last evaluation alone")
            RUNS.train(f"--run.out={run}", "--resume", "4")
            self.assertEqual(mistakes(run / "tb", metrics_of(run)), [])


class Files(unittest.TestCase):
    def test_that_cannot_be_written_are_warned_of_once(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            run = Path(name) / "run"
            shutil.copytree(RUNS.first, run)
            shutil.rmtree(run / "tb")
            (run / "tb").write_text("mine")
            said = RUNS.train(f"--run.out={run}", "--resume", "2")
            self.assertEqual(said.count("warning: write"), 1, said)
            self.assertEqual((run / "tb").read_text(), "mine")
            self.assertEqual(metrics_of(run)[-1]["step"], STEPS)

    def test_are_none_where_none_are_wanted(self) -> None:
        (RUNS.folder / "plain.toml").write_text(CONFIG.replace('histograms = "3 steps"', "tensorboard = false"))
        RUNS.train("--run.out=without", config="plain.toml")
        self.assertFalse((RUNS.folder / "without" / "tb").exists())


class Records(unittest.TestCase):
    def test_are_tensorboards_own_messages(self) -> None:
        """What was read is written as it was: no field is unknown, or written otherwise than it would be there."""
        for file in event_files(RUNS.first):
            for record in records_of(file):
                event = event_pb2.Event.FromString(record)
                if not any(value.metadata.plugin_data.plugin_name == "hparams" for value in event.summary.value):
                    self.assertEqual(len(event.SerializeToString(deterministic=True)), len(record))

    def test_have_the_config_and_the_plan_as_text(self) -> None:
        accumulator = read(RUNS.first / "tb")
        texts = {tag: [event.tensor_proto.string_val[0].decode() for event in accumulator.Tensors(tag)]
                 for tag in ("config", "plan")}
        self.assertEqual(texts["config"], ["```toml\n" + (RUNS.first / "config.toml").read_text() + "```\n"])
        self.assertIn("2 samples x 2 accumulation steps = 4 samples", texts["plan"][0])

    def test_have_the_hyper_parameters(self) -> None:
        content = read(RUNS.second / "tb").SummaryMetadata(hparams.SESSION_START_INFO_TAG).plugin_data.content
        values = hparams.parse_session_start_info_plugin_data(content).hparams
        self.assertEqual(values["optim.lr"].number_value, 1e-3)
        self.assertEqual(values["optim.schedule.kind"].string_value, "constant")
        self.assertIs(values["observe.jsonl"].bool_value, True)
        self.assertNotIn("run.out", values)
        self.assertNotIn("optim.momentum", values, "adamw does not read it")


def counts_of(values: numpy.ndarray, limits: list[float]) -> list[int]:
    """How many values lie below each limit and not below the one before."""
    below = numpy.searchsorted(numpy.sort(values), limits, side="left")
    return numpy.diff(below, prepend=0).tolist()


class Histograms(unittest.TestCase):
    def test_of_weights_are_those_of_the_checkpoint(self) -> None:
        accumulator = read(RUNS.first / "tb")
        weights = load_file(RUNS.first / "checkpoints" / f"step-{STEPS:08}" / "model.safetensors")
        tags = [tag for tag in accumulator.Tags()["histograms"] if tag.startswith("weights/")]
        self.assertGreater(len(tags), 10)
        for tag in tags:
            events = accumulator.Histograms(tag)
            self.assertEqual([event.step for event in events], [3, 6])
            values = weights[tag.removeprefix("weights/")].astype(numpy.float64).ravel()
            self.check(events[-1].histogram_value, values)
            with self.assertRaises(AssertionError):
                self.check(events[-1].histogram_value, values * 1.5 + 1e-9)

    def check(self, histogram, values: numpy.ndarray) -> None:
        self.assertEqual((histogram.min, histogram.max, histogram.num), (values.min(), values.max(), values.size))
        self.assertAlmostEqual(histogram.sum, values.sum(), delta=1e-12 * numpy.abs(values).sum())
        self.assertAlmostEqual(histogram.sum_squares, (values ** 2).sum(), delta=1e-12 * (values ** 2).sum())
        self.assertEqual(list(histogram.bucket), counts_of(values, histogram.bucket_limit))
        self.assertEqual(sum(histogram.bucket), values.size)

    def test_of_gradients_have_the_norm_before_clipping(self) -> None:
        accumulator = read(RUNS.first / "tb")
        tags = [tag for tag in accumulator.Tags()["histograms"] if tag.startswith("gradients/")]
        for position, step in enumerate((3, 6)):
            squares = sum(accumulator.Histograms(tag)[position].histogram_value.sum_squares for tag in tags)
            norm = next(line["grad_norm"] for line in metrics_of(RUNS.first) if line["step"] == step and "grad_norm" in line)
            self.assertAlmostEqual(squares ** 0.5, norm, delta=1e-6 * norm)
        self.assertEqual({tag.removeprefix("gradients/") for tag in tags},
                         {tag.removeprefix("weights/") for tag in accumulator.Tags()["histograms"]} - set(tags))


class Server:
    """TensorBoard, over a folder, at a port of its choice on the loopback interface."""

    def __init__(self, folder: Path, *arguments: str):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--host", "127.0.0.1", "--port", "0",
             *arguments], stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)
        self.address = self.wait(self.said_address, "no address")

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.log.close()

    def said(self) -> str:
        self.log.seek(0)
        return self.log.read()

    def said_address(self) -> str | None:
        found = re.search(r"http://127\.0\.0\.1:\d+/", self.said())
        return found and found[0]

    def wait(self, ask, complaint: str):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            if answer := ask():
                return answer
            time.sleep(0.2)
        raise AssertionError(f"{complaint} from TensorBoard: {self.said()}")

    def get(self, path: str, **query: str):
        return self.ask(path + ("?" + urllib.parse.urlencode(query) if query else ""))

    def ask(self, path: str, message=None):
        request = urllib.request.Request(self.address + "data/" + path, data=message and json.dumps(message).encode(),
                                         headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.load(answer)


class TensorBoard(unittest.TestCase):
    RUNS = ("first/tb", "resumed/tb", "second/tb")

    def serve(self, *arguments: str) -> Server:
        server = Server(RUNS.folder / "runs", *arguments)
        self.addCleanup(server.close)
        server.wait(lambda: set(server.get("runs")) == set(self.RUNS)
                    and all(len(self.losses(server, run)) == STEPS for run in self.RUNS), "not all runs")
        return server

    @staticmethod
    def losses(server: Server, run: str) -> list:
        tags = server.get("plugin/scalars/tags")
        return server.get("plugin/scalars/scalars", run=run, tag="train/loss") if "train/loss" in tags.get(run, {}) else []

    def check_answers(self, server: Server) -> None:
        for run in self.RUNS:
            expected = expected_scalars(metrics_of(RUNS.folder / "runs" / run.removesuffix("/tb")))
            for tag in ("train/loss", "eval/loss", "train/lr", "time/step"):
                answer = server.get("plugin/scalars/scalars", run=run, tag=tag)
                self.assertEqual({step: numpy.float32(value) for _, step, value in answer},
                                 {step: numpy.float32(value) for step, value in expected[tag].items()}, f"{run} {tag}")
        self.assertEqual(set(server.get("plugin/text/tags")["first/tb"]), {"config", "plan"})
        self.assertIn("weights/transformer.wte.weight", server.get("plugin/histograms/tags")["first/tb"])
        text = server.get("plugin/text/text", run="first/tb", tag="plan")
        self.assertIn("<table>", text[0]["text"])
        experiment = server.ask("plugin/hparams/experiment", {"experimentName": ""})
        differing = {info["name"] for info in experiment["hparamInfos"] if info.get("differs")}
        self.assertEqual(differing, {"optim.lr", "optim.schedule.kind"})
        self.assertTrue({"train/loss", "eval/loss"} <= {info["name"]["tag"] for info in experiment["metricInfos"]})

    def test_answers_with_all_of_it(self) -> None:
        for reader in ("--load_fast=true", "--load_fast=false"):
            with self.subTest(reader):
                self.check_answers(self.serve(reader))

    def test_shows_the_tags_in_a_browser(self) -> None:
        tags = {"train/loss", "train/grad_norm", "train/lr", "train/tokens_per_second", "train/batch_tokens", "eval/loss",
                "memory/peak"}
        server = self.serve()
        address = server.address + "?" + urllib.parse.urlencode({"tagFilter": "^(" + "|".join(tags) + ")$"}) + "#timeseries"
        with chromium() as browser:
            page = browser.new_page(viewport={"width": 1440, "height": 4000})
            page.goto(address)
            page.wait_for_function(f"tags => {TITLES}.length >= tags", arg=len(tags), timeout=SECONDS * 1000)
            self.assertEqual(set(page.evaluate(TITLES)), tags)


if __name__ == "__main__":
    ACCRUE = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
