"""Small files of formats that Python's library does not write, with somebody else's text in them."""
import io
import pathlib
import struct
import zipfile


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def _column(name: bytes) -> bytes:
    """A SchemaElement of Thrift's compact protocol: an optional column of byte arrays."""
    return b"\x15\x0c\x25\x02\x18" + _varint(len(name)) + name + b"\0"


def parquet_of(columns: list[bytes]) -> bytes:
    """A table without rows; at most 13 columns."""
    root = b"\x48\x06schema\x15" + _varint(2 * len(columns)) + b"\0"
    elements = bytes([(len(columns) + 1) << 4 | 0xc]) + root + b"".join(_column(name) for name in columns)
    footer = b"\x15\x02" + b"\x19" + elements + b"\x16\0" + b"\x19\x0c" + b"\0"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


GGUF_STRINGS = (b"general.architecture", b"llama", b"token_embd.weight", b"blk.0.attn_q.weight", b"tokenizer.ggml.model", b"gpt2", b"tokenizer.ggml.pre",
                b"llama.context_length", b"output_norm.weight", b"general.name")


def renamed_in_gguf(file: pathlib.Path, text: str) -> None:
    """One string of the file, which the text chooses, is the text instead. What is added is whole alignments, so that tensors stay where they were."""
    content = file.read_bytes()
    there = [name for name in GGUF_STRINGS if _as_string(name) in content]
    old = there[sum(map(ord, text)) % len(there)]
    new = text.encode(errors="surrogateescape")
    new += b"z" * ((len(old) - len(new)) % 32)
    file.write_bytes(content.replace(_as_string(old), _as_string(new), 1))


def _as_string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def torchscript_of(body: str, attribute: str = "") -> bytes:
    """A module without parameters whose forward(x) has this body; with an attribute, a number, of any name."""
    annotation = "" if not attribute else f'  __annotations__["{attribute}"] = int\n'
    code = f"class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n{annotation}  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n{body}"
    state = _pickled("training") + b"\x88" + (_pickled(attribute) + b"K\x07" if attribute else b"")
    pickled = b"\x80\x02c__torch__\nM\n)\x81}(" + state + b"ub."
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in (("data.pkl", pickled), ("code/__torch__.py", code.encode(errors="surrogateescape")), ("constants.pkl", b"\x80\x02)."), ("version", b"3\n")):
            archive.writestr(f"module/{name}", content)
    return out.getvalue()


def _pickled(text: str) -> bytes:
    encoded = text.encode(errors="surrogateescape")
    return b"X" + struct.pack("<I", len(encoded)) + encoded
