"""The side that has the optimizer."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable, Iterable
from typing import Any

from accrue import _native
from accrue._native import DataShape
from accrue.errors import UsageError
from accrue.federated import messages
from accrue.federated.exact_window import ExactWindow
from accrue.federated.exchange import Exchange, SystemTime
from accrue.federated.members import Members
from accrue.federated.modes import Mode, expect_mode
from accrue.federated.rounds import Round, RoundReport, Terms
from accrue.options import check_callback, check_count, check_options, path_of, words_of
from accrue.windows import SumStepper

# After messages, which says what to install.
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

LOG = logging.getLogger("accrue.federated")


def _stepper_of(config: str, overrides: list[str], described: list[messages.Description]) -> SumStepper:
    """Returns a stepper for the clients' data. Raises UsageError if these have not the same shape, or other frozen parameters."""
    model = described[0]
    stepper = SumStepper(config, DataShape(vocab=model.vocab, image=model.image, classes=model.classes), overrides)
    for each in described:
        for what, mine, theirs in (("vocabulary", model.vocab, each.vocab), ("image", model.image, each.image), ("classes", model.classes, each.classes),
                                   ("frozen parameters", stepper.frozen_digest, each.frozen)):
            messages.expect_same(each.name, what, mine, theirs)
    return stepper


def server_app(config: str | os.PathLike[str], *, clients: int, mode: Mode | None = None, quorum: int | None = None, grace: float = 30.0,
               timeout: float = 600.0, evaluate_every: int | None = None, overrides: Iterable[str] = (),
               on_round: Callable[[RoundReport], Any] | None = None, on_end: Callable[[SumStepper], Any] | None = None, clock: SystemTime | None = None) -> ServerApp:
    """Returns a Flower ServerApp whose rounds are optimizer steps over all clients' samples.

    Clients are weighted by their loss terms. What a client sends is refused, with its name, if it is not finite, oversized or does not fit the
    parameters; the round then goes on without it.

    Args:
        config: a config file on the server, with the same keys of model, loss and precision as the clients'. `run.steps` is the number of
            rounds and `batch.samples` the samples of a window over all clients, shared in proportion to their data. Its section data is not used
            except for data.order = "sequential".
        clients: how many clients the run begins with. Their names, in order, determine the order of all samples.
        mode: what a round is, the same as the clients'. Without it: ExactWindow().
        quorum: how many have to count in a round; all of them if it is not stated.
        grace: how many seconds a round waits for the others once the quorum has answered.
        timeout: how many seconds a round, or the start, waits in all.
        evaluate_every: after how many rounds the clients evaluate their own validation data, and after the last one. Without it: never.
        overrides: keys that differ, as on the command line.
        on_round: called with each RoundReport. Reports are also logged ("accrue.federated", level INFO).
        on_end: called with the SumStepper after the last round: `torch.save(stepper.parameters(), ...)`.
        clock: for tests: what the rounds wait by.

    Raises:
        UsageError: an option is of the wrong type, the quorum is larger than the number of clients, the mode needs more clients or another
            quorum, or a time is negative.
    """
    agreed = expect_mode("server_app", ExactWindow() if mode is None else mode)
    check_count("server_app", "clients", clients, required=True)
    check_count("server_app", "quorum", quorum)
    check_count("server_app", "evaluate_every", evaluate_every)
    check_options("server_app", {"grace": grace, "timeout": timeout}, grace=float, timeout=float)
    if quorum is not None and quorum > clients:
        raise UsageError("server_app", f"a quorum of at most the {clients} clients", str(quorum), f"quorum={clients}")
    if not grace >= 0:
        raise UsageError("server_app", "a grace of at least 0 seconds", f"{grace:g}", "grace=30.0")
    if not timeout > 0:
        raise UsageError("server_app", "a timeout above 0 seconds", f"{timeout:g}", "timeout=600.0")
    check_callback("server_app", "on_round", on_round)
    check_callback("server_app", "on_end", on_end)
    file, stated = path_of("server_app", "config", config), words_of("server_app", "overrides", overrides)
    terms = Terms(clients if quorum is None else quorum, float(grace), float(timeout))
    agreed.expect_clients(clients, terms.quorum)
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        keys = dict(_native.keys_of_sums(file, stated))
        agreed.expect_server(keys, clients, terms.quorum)
        exchange = Exchange(grid, clock or SystemTime())
        members = Members(exchange, agreed.stated(), keys)
        described = members.gather(clients, terms.timeout)
        stepper = _stepper_of(file, stated, described)
        members.divide(described, stepper.batch_samples)

        def next_round() -> Round:
            expected = messages.Expected(agreed.shared(stepper.parameters()), stepper.units, messages.sum_dtype_of(keys))
            return Round(stepper, members, exchange, terms, expected)

        while stepper.window < stepper.total_steps:
            round_ = next_round()
            report = round_.step(agreed.collect(round_))
            if evaluate_every is not None and (stepper.window % evaluate_every == 0 or stepper.window == stepper.total_steps):
                report = dataclasses.replace(report, evaluation=agreed.evaluate(next_round()))
            LOG.info("%s", report)
            if on_round is not None:
                on_round(report)
        if on_end is not None:
            on_end(stepper)

    return app
