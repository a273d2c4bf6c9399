"""The client: its data are the file of its number. A SuperNode on a machine of its own states its file in the config instead."""

import json
import pathlib

from flwr.app import Context

from accrue.federated import client_app


def data_of(context: Context) -> list[str]:
    file = pathlib.Path(str(context.run_config["data"])) / f"{context.node_config['partition-id']}.txt"
    return [f"data.train={json.dumps([str(file)])}"]


app = client_app(pathlib.Path(__file__).with_name("model.toml"), overrides=data_of)
