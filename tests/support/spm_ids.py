"""llama.cpp's tokenizer of characters, by the keys of a GGUF file: neighbours that are a token together are joined, the likeliest
token first, of several the one furthest left. It is what `tokenizer.ggml.model` = "llama" asks for."""

import heapq

MARK = "▁"
CONTROL, USER_DEFINED, UNKNOWN = 3, 4, 2


class SpmIds:
    def __init__(self, keys):
        self.tokens = keys["tokenizer.ggml.tokens"]
        self.scores = keys["tokenizer.ggml.scores"]
        self.ids = {token: number for number, token in enumerate(self.tokens)}
        self.prepends = keys["tokenizer.ggml.add_space_prefix"]
        kinds = keys["tokenizer.ggml.token_type"]
        self.found = sorted((token for token, kind in zip(self.tokens, kinds) if kind in (CONTROL, USER_DEFINED, UNKNOWN)),
                            key=lambda token: -len(token.encode()))

    def encode(self, text):
        """Special tokens in a text are found, as if llama_tokenize() is called with parse_special."""
        ids = []
        for piece in self.pieces(text):
            if isinstance(piece, int):
                ids.append(piece)
            else:
                ids += self.joined(((" " if self.prepends else "") + piece).replace(" ", MARK))
        return ids

    def pieces(self, text):
        pieces = [text] if text else []
        for token in self.found:
            for place in range(len(pieces) - 1, -1, -1):
                if isinstance(pieces[place], str) and token in pieces[place]:
                    parts = pieces[place].split(token)
                    cut = [part for text in parts for part in (self.ids[token], text)][1:]
                    pieces[place:place + 1] = [part for part in cut if part != ""]
        return pieces

    def joined(self, text):
        symbols, after = list(text), list(range(1, len(text) + 1))
        before = list(range(-1, len(text) - 1))
        queue = []

        def offer(left):
            if left < 0 or after[left] >= len(symbols):
                return
            whole = symbols[left] + symbols[after[left]]
            if whole in self.ids:
                heapq.heappush(queue, (-self.scores[self.ids[whole]], left, whole, after[left]))

        for left in range(len(symbols)):
            offer(left)
        while queue:
            _, left, whole, right = heapq.heappop(queue)
            if symbols[left] is None or symbols[right] is None or after[left] != right or symbols[left] + symbols[right] != whole:
                continue
            symbols[left], symbols[right] = whole, None
            after[left] = after[right]
            if after[left] < len(symbols):
                before[after[left]] = left
            offer(before[left])
            offer(left)
        ids = []
        for symbol in symbols:
            if symbol is not None:
                ids += [self.ids[symbol]] if symbol in self.ids else [self.ids[f"<0x{byte:02X}>"] for byte in symbol.encode()]
        return ids
