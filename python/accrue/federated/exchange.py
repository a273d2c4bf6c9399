"""Messages to nodes and their answers, by Flower's grid."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping

from flwr.app import Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

# How often replies are asked for, in seconds.
PAUSE = 0.2
# Flower's own answers for nodes that are gone, and messages that were not delivered.
LOST = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)


class SystemTime:
    """The time that a round waits for. Tests have another."""

    def now(self) -> float:
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclasses.dataclass
class Answers:
    """What came back, by the client's name: contents, the reasons of clients that refuse, and those of Flower that a message or its answer is lost."""

    contents: dict[str, RecordDict] = dataclasses.field(default_factory=dict)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    lost: dict[str, str] = dataclasses.field(default_factory=dict)


class Exchange:
    """Sends each client its message and collects the answers, by Flower's grid."""

    def __init__(self, grid: Grid, clock: SystemTime):
        self._grid, self._clock = grid, clock

    def nodes(self) -> list[int]:
        return sorted(self._grid.get_node_ids())

    def now(self) -> float:
        return self._clock.now()

    def pause(self) -> None:
        self._clock.pause(PAUSE)

    def ask(self, contents: Mapping[str, RecordDict], nodes: Mapping[str, int], kind: str, group: str, is_over: Callable[[int, float], bool]) -> Answers:
        """Returns when all have answered, or when `is_over(answers, seconds)`."""
        sent = {name: Message(content, dst_node_id=nodes[name], message_type=kind, group_id=group) for name, content in contents.items()}
        ids = list(self._grid.push_messages(list(sent.values())))
        waiting, by_node = set(ids), {nodes[name]: name for name in sent}
        answers, begin = Answers(), self._clock.now()
        while waiting:
            for reply in self._grid.pull_messages(list(waiting)):
                waiting.discard(reply.metadata.reply_to_message_id)
                name = by_node.get(reply.metadata.src_node_id)
                if name is None:
                    continue
                if reply.has_error():
                    noted = answers.lost if reply.error.code in LOST else answers.failed
                    noted[name] = reply.error.reason or f"error {reply.error.code} of Flower"
                else:
                    answers.contents[name] = reply.content
            if not waiting or is_over(len(answers.contents), self._clock.now() - begin):
                break
            self.pause()
        return answers
