"""The server: one optimizer step a round, over samples of all clients."""

import pathlib

import torch

from accrue import SumStepper
from accrue.federated import RoundReport, server_app


def save(stepper: SumStepper) -> None:
    torch.save(stepper.parameters(), "/tmp/notes/model.pt")


def show(report: RoundReport) -> None:
    print(report, flush=True)


app = server_app(pathlib.Path(__file__).with_name("model.toml"), clients=3, quorum=2, grace=20.0, on_round=show, on_end=save)
