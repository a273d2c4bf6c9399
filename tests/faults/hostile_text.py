"""Text that would steer a terminal, or pass for a line of accrue's own, planted in all that accrue reads and may print."""
import dataclasses
import json
import pathlib
import random
import re
from collections.abc import Callable

import damage
import estates
import hostile
import tinyrun
from hostile import Ended, World, as_json, as_toml, parts_of, safetensors, write
from hostile_formats import parquet_of, renamed_in_gguf, torchscript_of
from tinyrun import Campaign, Options, expect

MARK = "Q7"  # stands before each planted character: accrue's own sequences on a terminal have none
CONTROLS = ("\x1b[31m", "\x1b[2J", "\x1b[9A", "\x1b]8;;a:b\x1b\\", "\x1b]52;c;eA==\x07", "\x1b]0;t\x07", "\x1bc", "\a", "\r", "\b", "\x7f", "\v", "\f",
            "\x0e", "\u009b2J", "\u009d0;t\u009c", "\u0085", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069",
            "\u200f", "\u061c")
BYTES = ("\udc9b31m", "\udc9d0;t", "\udce2\udc80")  # no UTF-8, as Python holds it
FORGED = ("\nerror: ", "\nplan: ", "\nstep            ")
STEERS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\udc80-\udcff]")
OWN = re.compile(r"\x1b\[[\d;]*[ABJKm]|\r")  # what progress on a terminal is drawn with
FORGED_LINE = re.compile("^(?:" + "|".join(re.escape(line[1:]) for line in FORGED) + ")" + MARK, re.MULTILINE)


def draw_text(draw: random.Random) -> str:
    """Short enough for a file's name, and without a slash."""
    parts = draw.sample(CONTROLS, 6) + draw.sample(BYTES, draw.choice((0, 0, 0, 1)))
    draw.shuffle(parts)
    return "x" + "".join(MARK + part for part in parts) + draw.choice(FORGED) + MARK + "y"


def is_steered(out: bytes, on_terminal: bool, has_lines: bool = False) -> str:
    """What of a call's output is not printable or forged, with its neighbours; nothing if all is well. `has_lines`: the text may be in lines."""
    text = out.decode(errors="surrogateescape")
    marked = re.search(MARK + STEERS.pattern, text) if on_terminal else None
    bare = OWN.sub("", text) if on_terminal else text
    for where, found in ((text, marked), (bare, STEERS.search(bare)), (bare, None if has_lines else FORGED_LINE.search(bare))):
        if found:
            return repr(where[max(0, found.start() - 60):found.end() + 30])
    return ""


Plant = Callable[[pathlib.Path, str], dict[str, str] | None]
CONFIG = estates.config().replace("runs/first", "new").replace('progress = "off"', 'progress = "auto"')


@dataclasses.dataclass(frozen=True)
class Source:
    plant: Plant  # into a copy of the estate; returns the variables of calls
    calls: tuple[str, ...]  # words; {text} is the planted text
    estate: str = "text"


def in_json(file: str, change: Callable[[dict, str], None]) -> Plant:
    def plant(place: pathlib.Path, text: str) -> None:
        found = sorted(place.glob(file))[-1]
        content = json.loads(found.read_text())
        change(content, text)
        write(found, content)
    return plant


def unsealed(plant: Plant) -> Plant:
    """The same in a run whose newest checkpoint is of the time before there were checksums."""
    def plant_unsealed(place: pathlib.Path, text: str) -> None:
        damage.make_old(place / RUN)
        plant(place, text)
    return plant_unsealed


def in_tensors(file: str, change: Callable[[dict, str], None]) -> Plant:
    def plant(place: pathlib.Path, text: str) -> None:
        found = sorted(place.glob(file))[-1]
        header, data = parts_of(found)
        change(header, text)
        write(found, safetensors(header, data))
    return plant


def in_file(name: str, content: Callable[[str], object]) -> Plant:
    return lambda place, text: write(place / name, content(text))


def in_config(lines: Callable[[str], str]) -> Plant:
    """Lines of TOML behind a config that trains on the text."""
    return in_file("evil.toml", lambda text: CONFIG + lines(text))


def in_limits(limit: Callable[[str], str], name: Callable[[str], str] = lambda text: "limit") -> Plant:
    def plant(place: pathlib.Path, text: str) -> None:
        write(place / name(text), text)
        write(place / "evil.toml", CONFIG.replace("threads = 1", f'threads = 1\nlimits = [{{{limit(text)}, above = 3, do = "slow"}}]'))
    return plant


def in_name(name: str) -> Plant:
    """A folder or file has the text for a name."""
    def plant(place: pathlib.Path, text: str) -> None:
        (place / name).rename(place / text)
    return plant


def in_variables(*names: str, **others: str) -> Plant:
    return lambda place, text: {name: text for name in names} | others


def nothing(place: pathlib.Path, text: str) -> None:
    """The text is in the call alone."""


def first_tensor(header: dict) -> str:
    return next(name for name in header if name != "__metadata__")


def rename_tensor(header: dict, text: str) -> None:
    header[text] = header.pop(first_tensor(header))


def more_lines(file: str, lines: Callable[[str], list[dict]]) -> Plant:
    def plant(place: pathlib.Path, text: str) -> None:
        with open(place / file, "ab") as stream:
            stream.write(b"".join(as_json(line) + b"\n" for line in lines(text)))
    return plant


def events(text: str) -> list[dict]:
    event = {"step": 4, "time": 1.5e9, "event": text, "reason": text}
    return [event | {"event": kind} for kind in (text, "plan", "resume", "warning", "limits", "checkpoint")]


def in_pictures(place: pathlib.Path, text: str) -> None:
    (place / "images" / "dark").rename(place / "images" / text)
    write(place / "images" / text / f"{text}.png", (place / "images" / "light" / "001.png").read_bytes()[:60])


def in_module(body: Callable[[str], str], attribute: Callable[[str], str] = lambda text: "") -> Plant:
    def plant(place: pathlib.Path, text: str) -> None:
        write(place / "module.pt", torchscript_of(body(text), attribute(text)))
        write(place / "module.toml", estates.config('kind = "torchscript"\nfrom = "module.pt"', **estates.IMAGES))
    return plant


def in_worktree(place: pathlib.Path, text: str) -> None:
    (place / text).mkdir()
    for name in ("run.toml", "text.txt", "words", "runs"):
        (place / name).rename(place / text / name)


def in_program(place: pathlib.Path, text: str) -> None:
    (place / text).symlink_to(place / "accrue")


def readable(text: str) -> str:
    """A literal that its reader takes for the text."""
    return json.dumps(text.encode(errors="replace").decode())


NEW = "--run.out=runs/new"
RUN = "runs/first"
OF_CONFIG = ("train evil.toml", "plan evil.toml", "doctor evil.toml", "verify evil.toml --json", "data evil.toml", "bench evil.toml",
             "tokenize evil.toml --out tokens")
OF_RUN = ("train run.toml --resume --run.steps=5", f"sample {RUN} --prompt x --tokens 2", f"eval {RUN} --data held.txt --json", f"export {RUN} --out new",
          f"checkpoint verify {RUN}", f"checkpoint list {RUN}", f"checkpoint prune {RUN} --keep 1", f"report {RUN}", "runs runs", "runs runs --json",
          f"compare {RUN} {RUN}", f"compare {RUN} {RUN} --json", f"train --repeat {RUN} {NEW}", f"predict {RUN} text.txt")
OF_MODEL = ("sample hf --prompt x --tokens 2", "sample hf --prompt x --tokens 2 --json", "eval hf --data held.txt", f"train tune.toml {NEW}",
            "plan tune.toml --json", "doctor tune.toml", "verify tune.toml", "data tune.toml --json", "sample hf --chat --prompt x --tokens 2")
OF_FILES, OF_TEMPLATE = OF_MODEL[:4], OF_MODEL[-1:]
OF_GGUF = ("sample gguf/model.gguf --prompt x --tokens 2", "eval gguf/model.gguf --data held.txt", f"train packed.toml {NEW}")
OF_DATA = ("data run.toml --show 5", "data run.toml --json", "train run.toml", "doctor run.toml", "tokenize run.toml --out tokens")
OF_LINES = (*(f"{call} {NEW} --data.train=lines.jsonl --data.val_fraction=0" if call.startswith("train") else f"{call} --data.train=lines.jsonl"
              for call in OF_DATA[:4]), "init lines.jsonl", "eval hf --data lines.jsonl")
OF_PICTURES = (f"train run.toml {NEW}", "data run.toml", "data run.toml --json", "doctor run.toml", f"predict {RUN} images", f"predict {RUN} images --json",
               f"train run.toml {NEW} --batch.max_quarantined=0", "init images")
OF_CLASSES = (f"predict {RUN} images", f"export {RUN} --out new", f"checkpoint verify {RUN}", f"checkpoint list {RUN}")
OF_ADAPTER = (f"train tune.toml {NEW}", "doctor tune.toml")
OF_MODULE = (f"train module.toml {NEW}", "doctor module.toml")
OF_RANKS = (f"train run.toml {NEW} --dist.timeout=2s",)
STATE, MANIFEST, TENSORS = (f"{RUN}/checkpoints/*/{name}" for name in ("state.json", "manifest.json", "model.safetensors"))
TOKENIZER, SETTINGS, MODEL = "hf/tokenizer.json", "hf/tokenizer_config.json", "hf/config.json"


def strings(content: dict, text: str) -> None:
    content.update({key: text for key, value in content.items() if isinstance(value, str)} | {text: text})


SOURCES = {
    "values of a config": Source(in_config(lambda t: f"kind = {as_toml(t)}\n"), OF_CONFIG),
    "keys of a config": Source(in_config(lambda t: f"{as_toml(t)} = 1\n"), OF_CONFIG[:3]),
    "sections of a config": Source(in_config(lambda t: f"[{as_toml(t)}.{as_toml(t)}]\nx = 1\n"), OF_CONFIG[:3]),
    "errors of TOML": Source(in_config(lambda t: f"\n[x]\ny = {t} z\n"), OF_CONFIG[:3]),
    "durations": Source(in_config(lambda t: f"[dist]\ntimeout = {as_toml(t)}\n"), OF_CONFIG[:2]),
    "patterns": Source(in_config(lambda t: f"[lora]\nrank = 2\ntargets = [{as_toml(t)}]\n"), OF_CONFIG[:3]),
    "rates": Source(in_config(lambda t: f"[optim]\nrates = [{{match = {as_toml(t)}, times = 2}}]\n"), OF_CONFIG[:2]),
    "names of a config": Source(in_name("run.toml"), ("train {text}", "plan {text}", "train {text}no", "doctor {text}no")),
    "names of run.out": Source(nothing, tuple("train run.toml --run.out={text}" + more for more in ("", " --dry-run", "/x --quiet"))),
    "names of data": Source(in_name("text.txt"), (f"train run.toml {NEW} --data.train={{text}}", "data run.toml --data.train={text}",
                                                  "data run.toml --data.exclude={text}", "init {text}", f"eval {RUN} --data {{text}}no")),
    "names of classes": Source(in_pictures, OF_PICTURES, "images"),
    "classes of a checkpoint": Source(unsealed(in_json(STATE, lambda j, t: j["model"].update(classes=[t, t + "2"]))), OF_CLASSES, "images"),
    "keys of lines": Source(in_file("lines.jsonl", lambda t: as_json({t: t}) + b"\n"), OF_LINES),
    "texts of lines": Source(in_file("lines.jsonl", lambda t: (as_json({"text": t * 3}) + b"\n") * 40), OF_LINES),
    "errors of lines": Source(in_file("lines.jsonl", lambda t: f'{{"text": "a"}}\n{{"text": {t}\n'), OF_LINES),
    "prompts of lines": Source(in_file("lines.jsonl", lambda t: (as_json({"prompt": t, "completion": t}) + b"\n") * 9), OF_LINES),
    "roles of lines": Source(in_file("lines.jsonl", lambda t: (as_json({"messages": [{"role": t, "content": t}]}) + b"\n") * 9), OF_LINES),
    "columns of lines": Source(in_file("lines.jsonl", lambda t: as_json({"a": [1], t: 2}) + b"\n"),
                               ("data run.toml --data.train=lines.jsonl --data.columns={text}",)),
    "columns of Parquet": Source(in_file("lines.parquet", lambda t: parquet_of([t.encode(errors="surrogateescape"), b"y"])),
                                 ("data run.toml --data.train=lines.parquet", f"train run.toml {NEW} --data.train=lines.parquet", "init lines.parquet")),
    "bytes of text": Source(in_file("text.txt", lambda t: t * 300), (*OF_DATA[:2], OF_DATA[3], f"train run.toml {NEW}")),
    "tokens": Source(in_json(TOKENIZER, lambda j, t: j["model"]["vocab"].update({t: 999})), OF_MODEL),
    "added tokens": Source(in_json(TOKENIZER, lambda j, t: j.update(added_tokens=[{"id": 260, "content": t, "special": True}, {"id": t, "content": t}])), OF_FILES),
    "kinds of tokenizer": Source(in_json(TOKENIZER, lambda j, t: j["model"].update(type=t)), OF_MODEL),
    "normalizers": Source(in_json(TOKENIZER, lambda j, t: j.update(normalizer={"type": t})), OF_FILES),
    "patterns of a tokenizer": Source(in_json(TOKENIZER, lambda j, t: j.update(pre_tokenizer={"type": "Split", "pattern": {"Regex": t + "("},
                                                                                            "behavior": "Isolated", "invert": False})), OF_FILES),
    "merges": Source(in_json(TOKENIZER, lambda j, t: j["model"].update(merges=[f"{t} {t}"])), OF_FILES),
    "errors of JSON": Source(in_file(TOKENIZER, lambda t: '{"a": "' + t + "\x01"), OF_FILES),
    "exceptions of templates": Source(in_json(SETTINGS, lambda j, t: j.update(chat_template=f"{{{{ raise_exception(messages[0].content + {readable(t)}) }}}}")),
                                      OF_TEMPLATE),
    "errors of templates": Source(in_json(SETTINGS, lambda j, t: j.update(chat_template=f"{t}{{% {t} %}}", eos_token=t)), OF_MODEL),
    "filters of templates": Source(in_json(SETTINGS, lambda j, t: j.update(chat_template=f"{{{{ {readable(t)} | nosuch }}}}{{{{ messages[{readable(t)}].z.z }}}}")),
                                   OF_TEMPLATE),
    "model_type": Source(in_json(MODEL, lambda j, t: j.update(model_type=t)), OF_MODEL),
    "architectures": Source(in_json(MODEL, lambda j, t: j.update(architectures=[t], model_type=7)), OF_FILES),
    "activations": Source(in_json(MODEL, lambda j, t: j.update(activation_function=t, torch_dtype=t)), OF_FILES),
    "rotary kinds": Source(in_json(MODEL, lambda j, t: j.update(rope_scaling={"rope_type": t, "factor": 2})), OF_FILES, "adapters"),
    "names of tensors": Source(in_tensors("hf/model.safetensors", rename_tensor), OF_MODEL),
    "dtypes of tensors": Source(in_tensors("hf/model.safetensors", lambda h, t: h[first_tensor(h)].update(dtype=t)), OF_FILES),
    "metadata of tensors": Source(in_tensors("hf/model.safetensors", lambda h, t: h.update(__metadata__={t: t, "format": t})), OF_FILES),
    "shapes of tensors": Source(in_tensors("hf/model.safetensors", lambda h, t: h.update({t: {"dtype": "F32", "shape": [t], "data_offsets": [0, t]}})), OF_FILES),
    "an index of tensors": Source(in_file("hf/model.safetensors.index.json", lambda t: {"weight_map": {t: t, "model.norm.weight": t + ".safetensors"}}), OF_FILES),
    "strings of GGUF": Source(lambda place, text: renamed_in_gguf(place / "gguf" / "model.gguf", text), OF_GGUF, "adapters"),
    "keys of an adapter": Source(in_json("adapter/adapter_config.json", lambda j, t: j.update(peft_type=t, target_modules=[t])), OF_ADAPTER, "adapters"),
    "targets of an adapter": Source(in_json("adapter/adapter_config.json", lambda j, t: j.update(target_modules=[t], bias=t)), OF_ADAPTER, "adapters"),
    "tensors of an adapter": Source(in_tensors("adapter/adapter_model.safetensors", rename_tensor), OF_ADAPTER, "adapters"),
    "code of a module": Source(in_module(lambda t: f"    {t} return x\n"), OF_MODULE, "images"),
    "exceptions of a module": Source(in_module(lambda t: f"    ops.prim.RaiseException({readable(t)})\n    return x\n"), OF_MODULE, "images"),
    "attributes of a module": Source(in_module(lambda t: "    return x\n", lambda t: t), OF_MODULE, "images"),
    "commands of run.json": Source(in_json(f"{RUN}/run.json", lambda j, t: j.update(command=[t, t], version=t, state=t, status=t, started=t)), OF_RUN),
    "texts of run.json": Source(in_json(f"{RUN}/run.json", strings), OF_RUN),
    "errors of run.json": Source(in_file(f"{RUN}/run.json", lambda t: '{"command": ' + t), OF_RUN),
    "config of a run": Source(in_file(f"{RUN}/config.toml", lambda t: f"{CONFIG}kind = {as_toml(t)}\n"), OF_RUN),
    "events": Source(more_lines(f"{RUN}/metrics.jsonl", events), OF_RUN),
    "errors of metrics": Source(more_lines(f"{RUN}/metrics.jsonl", lambda t: [{"step": t, "loss": t}, {"step": 4, "loss": t, t: t, "memory": t}]), OF_RUN),
    "texts of state.json": Source(unsealed(in_json(STATE, lambda j, t: j.update({t: t, "model": t, "kind": t, "format": t}))), OF_RUN),
    "strings of state.json": Source(unsealed(in_json(STATE, strings)), OF_RUN),
    "a manifest": Source(in_json(MANIFEST, lambda j, t: j["files"].update({t: {"bytes": 3, "xxh3": t}})), OF_RUN),
    "tensors of a manifest": Source(in_json(MANIFEST, lambda j, t: j["files"]["model.safetensors"]["tensors_xxh3"].update({t: t})), OF_RUN),
    "tensors of a checkpoint": Source(lambda place, text: (in_tensors(TENSORS, rename_tensor)(place, text), damage.make_old(place / RUN)) and None, OF_RUN),
    "names of checkpoints": Source(lambda place, text: (place / RUN / "checkpoints" / f"step-{text}").mkdir(), OF_RUN),
    "names of runs": Source(in_name(RUN), (*(call.replace(RUN, "{text}") for call in OF_RUN[1:]), "runs {text}no", "report {text}no",
                                           "sample {text}no", "eval {text}no --data x", "predict {text}no x", "export {text}no --out x")),
    "a folder to work in": Source(in_worktree, tuple("/" + call for call in (OF_RUN[0], OF_RUN[8], OF_RUN[9], OF_RUN[12]))),
    "ranks": Source(in_variables("RANK", "WORLD_SIZE", "LOCAL_RANK"), (*OF_RANKS, "doctor run.toml")),
    "sizes of worlds": Source(in_variables("WORLD_SIZE", RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="1"), OF_RANKS),
    "addresses": Source(in_variables("MASTER_ADDR", RANK="0", WORLD_SIZE="2", MASTER_PORT="29999", ACCRUE_RUN_TOKEN="a" * 40), OF_RANKS),
    "ports": Source(in_variables("MASTER_PORT", RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1"), OF_RANKS),
    "tokens of a run": Source(in_variables("ACCRUE_RUN_TOKEN", RANK="1", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="9"), OF_RANKS),
    "schedulers": Source(in_variables("SLURM_PROCID", "SLURM_STEP_ID", "SLURM_JOB_ID", SLURM_STEP_NUM_TASKS="2"), OF_RANKS),
    "MPI": Source(in_variables("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), OF_RANKS),
    "other variables": Source(in_variables("OMP_NUM_THREADS", "COLUMNS", "XDG_CACHE_HOME", "TZ", "LC_ALL", "GLOO_SOCKET_IFNAME"), (*OF_RANKS, "runs runs")),
    "verbs": Source(nothing, ("{text}", "train{text}", "--{text}", "checkpoint {text}", "train run.toml {text}")),
    "options": Source(nothing, ("train run.toml --{text}=1", "train run.toml --model.{text}=1", "runs --{text}", f"compare {RUN} {RUN} --loss={{text}}",
                                f"sample {RUN} --compute={{text}}", f"sample {RUN} --tokens={{text}}", f"export {RUN} --format={{text}} --out x",
                                "plan run.toml --ranks={text}", "doctor --device={text}", "train run.toml --batch.tokens={text}",
                                "train run.toml --resume {text}", "plan run.toml --estimate --image={text}", f"sample {RUN} --checkpoint={{text}}",
                                "train --repeat {text} --run.out=x")),
    "prompts": Source(nothing, (f"sample {RUN} --prompt {{text}} --tokens 3", f"sample {RUN} --prompt {{text}} --tokens 3 --json",
                                "sample hf --chat --prompt {text} --system {text} --tokens 2", f"sample {RUN} --prompt x --stop {{text}} --tokens 3",
                                f"eval {RUN} --data {{text}}")),
    "files to write": Source(nothing, (f"report {RUN} --out {{text}}.html", f"report {RUN} --out {{text}}/x.html", f"train run.toml {NEW} --trace {{text}}.json",
                                       "tokenize run.toml --out {text}", f"export {RUN} --out {{text}}", f"export {RUN} --out {{text}}/y/z",
                                       "init text.txt --out {text}", f"train run.toml {NEW} --run.replica={{text}}",
                                       f"train run.toml {NEW} --memory.budget_file={{text}}")),
    "files of limits": Source(in_limits(lambda t: 'file = "limit"'), OF_CONFIG[:3]),
    "commands of limits": Source(in_limits(lambda t: 'command = "cat limit"'), OF_CONFIG[:3]),
    "names of limits": Source(in_limits(lambda t: f"file = {as_toml(t)}", lambda t: t), OF_CONFIG[:3]),
    "budgets": Source(in_file("budget", lambda t: t), (f"train run.toml {NEW} --memory.budget_file=budget", "plan run.toml --memory.budget_file=budget",
                                                       f"train run.toml {NEW} --memory.budget={{text}}")),
    "names of the program": Source(in_program, ("!--help", "!train", "!train --help", "!nosuch")),
}
CALLS = [(name, call) for name, source in SOURCES.items() for call in source.calls]
STRIDE = 61  # so that a few calls are of many sources; no divisor of their number


def words_of(call: str, text: str) -> list[str]:
    return [word.replace("{text}", text) for word in call.split(" ")]


def expect_printable(world: World, place: pathlib.Path, call: str, text: str, variables: dict[str, str], on_terminal: bool) -> Ended:
    in_worktree, as_named = call.startswith("/"), call.startswith("!")
    words = words_of(call.lstrip("/!"), text)
    program = str(place / text) if as_named else world.program
    ended = hostile.call([program, *words], place / text if in_worktree else place, variables, on_terminal=on_terminal)
    told = f"{'terminal' if on_terminal else 'pipe'}, status {ended.status}"
    expect(not ended.hung and ended.status in hostile.STATUSES, f"{told}: {ended.told()}")
    # The text that sample makes is a result: it goes to a program as it is, and to a terminal in its lines.
    is_text = words[0] == "sample" and "--json" not in words
    is_result = is_text and not on_terminal
    for where, out in (("errors", ended.errors),) if is_result else (("output", ended.out), ("errors", ended.errors)):
        steered = is_steered(out, on_terminal, is_text and ended.status == 0)
        expect(not steered, f"{told}: {where} have {steered}")
    if "--json" in words and ended.status == 0 and not on_terminal:
        try:
            json.loads(ended.out)
        except ValueError as error:
            expect(False, f"{told}: no JSON: {error}: {ended.told()}")
    return ended


def terminal_text(options: Options, world: World) -> Campaign:
    campaign = Campaign("text that steers a terminal")

    def trial(draw: random.Random, number: int) -> None:
        name, call = CALLS[(number + options.seed - 1) * STRIDE % len(CALLS)]
        text = draw_text(draw)
        for on_terminal in (False, True):
            place = world.fresh(f"text{number}-{on_terminal}", SOURCES[name].estate)
            (place / "accrue").symlink_to(world.program)
            variables = SOURCES[name].plant(place, text) or {}
            try:
                ended = expect_printable(world, place, call, text, variables, on_terminal)
            except tinyrun.Broken as broken:
                raise tinyrun.Broken(f"{name}, accrue {call}: {broken}") from None
            campaign.note("calls that print the text", MARK.encode() in ended.out + ended.errors)
            tinyrun.shutil.rmtree(place)

    campaign.trials(options.count, options.seed, options.jobs, trial)
    campaign.control(not unseen(world.folder), f"printed as they are, these are not seen: {unseen(world.folder)!r}")
    return campaign


def unseen(folder: pathlib.Path) -> list[str]:
    """Of what is planted, what the comparison does not see in the output of a program that prints all as it is."""
    planted = [MARK + part for part in (*CONTROLS, *BYTES)] + [part + MARK for part in FORGED]
    write(folder / "raw", "\n\n".join(planted))
    raw = [hostile.call(["/bin/cat", "raw"], folder, on_terminal=on_terminal).out for on_terminal in (False, True)]
    return [part for at, on_terminal in enumerate((False, True)) for part in planted
            if part.encode(errors="surrogateescape") not in raw[at] or not is_steered(part.encode(errors="surrogateescape"), on_terminal)]
