"""Training on data that may not move, by Flower's messages (docs/guide/federated.md): accrue's wheel with the extra `federated`.

    app = accrue.federated.client_app("client.toml")        # where data are: a Flower ClientApp
    app = accrue.federated.server_app("server.toml", clients=3)    # a Flower ServerApp

Each round is one optimizer step with sums of all clients. What these are is a mode, which both sides state: `mode=ExactWindow()`, sums of
gradients over the samples of one window; `mode=LocalRounds(steps=...)`, changes of parameters after several steps of each client.
"""

from accrue.federated.client import client_app
from accrue.federated.evaluation import Evaluation
from accrue.federated.exact_window import ExactWindow
from accrue.federated.local_rounds import FED_ADAM, FED_AVG, LocalRounds
from accrue.federated.members import Client
from accrue.federated.rounds import RoundReport
from accrue.federated.secure_sums import SecureSums
from accrue.federated.server import server_app

__all__ = ["FED_ADAM", "FED_AVG", "Client", "Evaluation", "ExactWindow", "LocalRounds", "RoundReport", "SecureSums", "client_app", "server_app"]
