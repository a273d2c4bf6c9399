"""What unicode_golden.py and pattern_golden.py ask of pattern_golden.cpp and of Hugging Face's tokenizers."""

import json
import pathlib
import subprocess
import tempfile

from tokenizers import normalizers, pre_tokenizers


class Request:
    """Texts, and the pre-tokenizer or normalizer that they go through."""

    def __init__(self, part, texts: list[str]):
        self.part, self.texts = part, texts

    def written(self) -> bytes:
        kind = "normalizer" if isinstance(self.part, normalizers.Normalizer) else "pre_tokenizer"
        stated = json.dumps({kind: json.loads(self.part.__getstate__())})
        return stated.encode() + b"\xfe" + b"".join(text.encode() + b"\xff" for text in self.texts) + b"\xfd"

    def expected(self) -> list[list[bytes]]:
        if isinstance(self.part, normalizers.Normalizer):
            return [[self.part.normalize_str(text).encode()] for text in self.texts]
        shows_bytes = isinstance(self.part, pre_tokenizers.ByteLevel)
        return [[bytes_of(word) if shows_bytes else word.encode() for word, _ in self.part.pre_tokenize_str(text)] for text in self.texts]


def byte_table() -> dict[str, int]:
    """GPT-2's characters that show bytes."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {**{chr(byte): byte for byte in shown}, **{chr(256 + place): byte for place, byte in enumerate(hidden)}}


BYTES = byte_table()


def bytes_of(word: str) -> bytes:
    return bytes(BYTES[character] for character in word)


def answers(program: str, requests: list[Request]) -> list:
    """Of each request the words of each text, or why it was refused."""
    with tempfile.TemporaryDirectory() as scratch:
        asked, answered = pathlib.Path(scratch) / "requests", pathlib.Path(scratch) / "answers"
        with open(asked, "wb") as out:
            for request in requests:
                out.write(request.written())
        subprocess.run([program, str(asked), str(answered)], check=True)
        return [read_answer(part) for part in answered.read_bytes().split(b"\xfd")[:-1]]


def read_answer(answer: bytes):
    if answer.startswith(b"!"):
        return answer[1:].decode()
    return [text.split(b"\xff")[:-1] for text in answer.split(b"\xfe")[:-1]]
