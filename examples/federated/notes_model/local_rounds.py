"""Both sides with local rounds: each client takes four steps, and the parameters become their mean (FedAvg).

In pyproject.toml: serverapp = "notes_model.local_rounds:server" and clientapp = "notes_model.local_rounds:client".
"""

import pathlib

from accrue.federated import FED_AVG, LocalRounds, client_app, server_app

from notes_model.client_app import data_of
from notes_model.server_app import save, show

CONFIG = pathlib.Path(__file__).with_name("model.toml")
MODE = LocalRounds(steps=4)

client = client_app(CONFIG, mode=MODE, overrides=data_of)
server = server_app(CONFIG, clients=3, quorum=2, grace=20.0, mode=MODE, overrides=FED_AVG, on_round=show, on_end=save)
