"""Writes the data of three clients that differ: numbers, days and colours.   make_data.py [FOLDER]"""

import pathlib
import random
import sys

TOPICS = [
    ["one", "two", "three", "four", "five", "six", "seven", "eight"],
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"],
    ["red", "green", "blue", "black", "white"],
]

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/tmp/notes")
folder.mkdir(parents=True, exist_ok=True)
for client, words in enumerate(TOPICS):
    draw = random.Random(client)
    lines = [" then ".join(draw.choices(words, k=draw.randint(3, 9))) + ".\n" for _ in range(400 - 100 * client)]
    (folder / f"{client}.txt").write_text("".join(lines))
print(f"wrote {folder}/0.txt, 1.txt and 2.txt")
