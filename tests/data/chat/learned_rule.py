"""What is to be learned of a conversation, by the rule that data/chat/conversation/learned_pieces.h states, worked out over places in texts.

`render(messages, add_generation_prompt)` gives the text of messages, or None where the template refuses them.
"""
import os.path

WEIGHTS = ("weight", "train", "training", "loss", "trainable")


def is_withheld(message: dict) -> bool:
    return any(message.get(name) is not None and message[name] == 0 for name in WEIGHTS) or bool(message.get("masked"))


def first_prompt(render, message: dict, said: str):
    """The prompt of an answer that begins a conversation; None where the template opens it otherwise than it asks for it."""
    question = [{"role": "user", "content": "a"}]
    asked, prompted = render(question, False), render(question, True)
    if asked is None or prompted is None:
        return None
    opening = prompted[len(os.path.commonprefix([asked, prompted])):]
    if not opening:
        twice = render([message, message], False)
        own = twice[len(said):] if twice is not None and twice.startswith(said) else ""
        return said[:-len(own)] if own and said.endswith(own) else os.path.commonprefix([said, asked])
    words = message.get("content")
    begins_with_a = isinstance(words, str) and words.lstrip(" \t\r\n").startswith("a")
    other = render([{"role": "assistant", "content": "b" if begins_with_a else "a"}], False)
    place = -1 if other is None else said.rfind(opening, 0, len(os.path.commonprefix([said, other])))
    return None if place < 0 else said[:place + len(opening)]


def rendered_turns(render, messages: list):
    """(prompt, said) of each turn to learn; None where the template refuses, or the prompt does not begin what was said."""
    turns = []
    for i, message in enumerate(messages):
        if message.get("role") != "assistant" or is_withheld(message):
            continue
        said = render(messages[:i + 1], False)
        if said is None:
            return None
        prompt = render(messages[:i], True) if i else first_prompt(render, message, said)
        if prompt is None or not said.startswith(prompt):
            return None
        turns.append((prompt, said))
    return turns


def learned_sequences(render, messages: list, end_of_text: str):
    """The sequences, each a list of [text, whether it is learned]; None where there are none, or the template refuses."""
    turns = rendered_turns(render, messages)
    text = render(messages, False) if messages else None
    answers = [message for message in messages if message.get("role") == "assistant"]
    if turns is None or text is None or not answers:
        return None
    if not turns:
        return [pieces_of(text, bytearray(len(text)))]
    sequences = []
    while turns:
        marks = bytearray(len(text))
        left = []
        for prompt, said in turns:
            bare = said.removesuffix(end_of_text) if end_of_text else said
            bare = said if len(bare) < len(prompt) else bare
            if text.startswith(prompt) and text.startswith(bare):
                end = len(said) if text.startswith(said) else len(bare)
                marks[len(prompt):end] = b"\1" * (end - len(prompt))
            else:
                left.append((prompt, said))
        if len(left) < len(turns):
            sequences.insert(0, (text, marks))
        turns = left
        text = turns[-1][1] if turns else ""
    teaching = [sequence for sequence in sequences if any(sequence[1])]
    if not teaching and not any(map(is_withheld, answers)):
        return None
    return [pieces_of(*sequence) for sequence in teaching or sequences]


def pieces_of(text: str, marks: bytearray) -> list:
    pieces = []
    for character, mark in zip(text, marks, strict=True):
        if pieces and pieces[-1][1] == bool(mark):
            pieces[-1][0] += character
        else:
            pieces.append([character, bool(mark)])
    return pieces


def joined(pieces: list) -> list:
    """Neighbours of one kind as one piece."""
    made = []
    for text, is_learned in pieces:
        if made and made[-1][1] == is_learned:
            made[-1][0] += text
        else:
            made.append([text, is_learned])
    return made
