"""Training on data that may not move, by Flower's messages (docs/guide/federated.md): `pip install accrue[federated]`.

    app = accrue.federated.client_app("client.toml")        # where data are: a Flower ClientApp
    app = accrue.federated.server_app("server.toml", clients=3)    # a Flower ServerApp

Each round is one optimizer step over samples of all clients. A client sends its sums of gradients, its loss terms and their number; with
`precision.accumulate = "fixed"` the parameters have the bits of one process with all of the data.
"""

from accrue.federated.client import client_app
from accrue.federated.exact_window import ExactWindow
from accrue.federated.members import Client
from accrue.federated.rounds import RoundReport
from accrue.federated.server import server_app

__all__ = ["Client", "ExactWindow", "RoundReport", "client_app", "server_app"]
