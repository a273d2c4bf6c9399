"""Files that somebody else wrote or put there to do harm, in four kinds: text, links, pipes, tokenizers."""
import pathlib

import hostile
import tinyrun
from hostile_bombs import bombs
from hostile_links import links
from hostile_pipes import pipes
from hostile_text import terminal_text
from tinyrun import Options


def hostile_files(options: Options) -> int:
    """As many trials of each kind."""
    with tinyrun.scratch() as folder:
        world = hostile.World(options, pathlib.Path(folder))
        return max([kind(options, world).end() for kind in (terminal_text, links, pipes, bombs)])
