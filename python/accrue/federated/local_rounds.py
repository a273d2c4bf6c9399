"""Local rounds: each client takes several optimizer steps on its own samples, and sends by how much its parameters changed."""

from __future__ import annotations

import math
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from accrue.errors import RunError, UsageError
from accrue.federated.members import Client
from accrue.federated.messages import dtype_of_sum
from accrue.federated.modes import Mode
from accrue.federated.personal import PersonalFile, personal_names
from accrue.federated.rounds import Round
from accrue.federated.shares import draws
from accrue.federated.units import coded, recoded
from accrue.federated.work import Task
from accrue.options import check_count, check_options, path_of, words_of
from accrue.windows import Sums

# Overrides of the server's config. FED_AVG: a round sets the parameters to the clients' weighted mean. FED_ADAM: Adam by their mean change, with
# the settings of Reddi et al. and the config's own learning rate.
_PLAIN = ("optim.weight_decay=0", "optim.clip=0", "optim.schedule.kind=constant", "optim.schedule.warmup=0")
FED_AVG = (*_PLAIN, "optim.kind=sgd", "optim.lr=1", "optim.momentum=0")
FED_ADAM = (*_PLAIN, "optim.kind=adam", "optim.betas=[0.9, 0.99]", "optim.eps=1e-3")

Named = Mapping[str, torch.Tensor]


class _Adder:
    """Adds fp64 values to sums, as one contribution to each parameter that has values, in the format that the sums have.

    Args:
        names: the trained parameters, in the order of units.
        dtype: of sums that are not in units; None: that of the parameters, at least fp32.
    """

    def __init__(self, names: Sequence[str], dtype: torch.dtype | None):
        self._names, self._dtype = names, dtype

    def add(self, sums: Sums, values: Named, like: Named) -> Sums:
        """`like` has the parameters themselves. Units become larger if the values need it."""
        before, units = dict(zip(self._names, sums.units)), dict(zip(self._names, sums.units))
        gradients = dict(sums.gradients)
        for name, value in values.items():
            if units:
                added, units[name] = coded(value, units[name])
                gradients[name] = added + recoded(gradients[name], before[name], units[name]) if name in gradients else added
            else:
                dtype = dtype_of_sum(like[name], self._dtype)
                gradients[name] = (value + gradients[name].double() if name in gradients else value).to(dtype)
        contributions = {name: sums.contributions.get(name, 0) + (name in values) for name in gradients}
        return Sums(sums.loss_sum, sums.weight, sums.tokens, sums.micro_batches, sums.quarantined, gradients, contributions,
                    tuple(units[name] for name in self._names) if units else ())


def _counts(parts: Sequence[Sums], units: Sequence[int]) -> Sums:
    """Returns the losses and counts of all parts, without gradients."""
    return Sums(math.fsum(each.loss_sum for each in parts), math.fsum(each.weight for each in parts), sum(each.tokens for each in parts),
                sum(each.micro_batches for each in parts), sum(each.quarantined for each in parts), {}, {}, tuple(units))


class LocalRounds(Mode):
    """A round is several optimizer steps of each client by itself, and one step of the server with their mean change (an outer step).

    Each client begins with the server's parameters and a new state of its config's optimizer, whose schedule covers the local steps of all rounds.
    Its sums have minus its change, times its number of loss terms, as their gradient. So the server's `[optim]` is the outer optimizer: with
    FED_AVG as its overrides it is FedAvg (McMahan et al. 2017, arXiv:1602.05629); with a momentum FedAvgM, with FED_ADAM FedAdam (Reddi et al.
    2021, arXiv:2003.00295).

    Args:
        steps: the optimizer steps of a client in a round. Each takes the client's share of `batch.samples`.
        proximal: FedProx's mu (Li et al. 2020, arXiv:1812.06127): each loss term also has mu / 2 times the squared distance from the server's
            parameters.
        personal: patterns of parameters, as `model.freeze` has them, that never leave a client (Arivazhagan et al. 2019, arXiv:1912.00818). A
            client begins a round with its own values of them.
        personal_folder: on a client, the folder that has them, in a file with the client's name.

    Raises:
        UsageError: an option is of the wrong type, or negative.
    """

    def __init__(self, steps: int, *, proximal: float = 0.0, personal: Iterable[str] = (), personal_folder: str | os.PathLike[str] | None = None):
        check_count("LocalRounds", "steps", steps, required=True)
        check_options("LocalRounds", {"proximal": proximal}, proximal=float)
        if not 0 <= proximal < math.inf:
            raise UsageError("LocalRounds", "a finite number of at least 0 as proximal", str(proximal), "proximal=0.01, or leaving proximal out")
        if isinstance(personal, str):
            raise UsageError("LocalRounds", "a list of patterns as personal", f'the text "{personal}"', f'personal=["{personal}"]')
        self.steps, self.proximal, self.personal = int(steps), float(proximal), words_of("LocalRounds", "personal", personal)
        self.personal_folder = None if personal_folder is None else pathlib.Path(path_of("LocalRounds", "personal_folder", personal_folder))

    def stated(self) -> dict[str, Any]:
        return {"name": "local rounds", "steps": self.steps, "proximal": self.proximal, "personal": self.personal}

    def expect_client(self) -> None:
        if self.personal and self.personal_folder is None:
            raise UsageError("LocalRounds of a client with personal parameters", "the folder that has them", "none",
                             'personal_folder="/data/personal"')

    def shared(self, parameters: Named) -> dict[str, torch.Tensor]:
        personal = set(personal_names(parameters, self.personal))
        return {name: value for name, value in parameters.items() if name not in personal}

    def facts(self, round_: Round, client: Client) -> dict[str, Any]:
        first_step = round_.window * self.steps
        return {"first": client.first, "total": round_.samples, "rounds": round_.rounds,
                "draws": [draws(step, client.share, client.first, client.samples, round_.samples) for step in range(first_step, first_step + self.steps)]}

    def parameters(self, task: Task) -> dict[str, torch.Tensor]:
        if not self.personal:
            return task.parameters()
        return {**(self._file(task).latest() or self._initial(task)), **task.parameters()}

    def sums(self, task: Task) -> Sums:
        if not self.personal:
            return self._sums(task, task.parameters())[0]
        file, run, window = self._file(task), task.context.run_id, task.facts["window"]
        personal = file.before(run, window) or self._initial(task)
        sums, end = self._sums(task, {**task.parameters(), **personal})
        file.keep(run, window, personal, {name: end[name] for name in personal})
        return sums

    def _sums(self, task: Task, start: Named) -> tuple[Sums, Named]:
        """Returns the sums of a round from these parameters, and the parameters after it."""
        facts, worker = task.facts, task.worker()
        stepper = task.work.stepper(facts["rounds"] * self.steps, facts["window"] * self.steps)
        stepper.load(start)
        adder = _Adder(list(stepper.parameters()), task.work.sum_dtype())
        end, parts = start, []
        for ranges in facts["draws"]:
            worker.load(end)
            parts.append(worker.run(stepper.window, [tuple(each) for each in ranges], stepper.units))
            stepper.step(self._with_proximal(parts[-1], start, end, adder) if self.proximal > 0 and end is not start else parts[-1])
            end = stepper.parameters()
        total = _counts(parts, facts["units"])
        if total.weight == 0:
            return total, end
        return adder.add(total, self._gradient(self.shared(start), end, total.weight), start), end

    def _with_proximal(self, sums: Sums, start: Named, now: Named, adder: _Adder) -> Sums:
        """Adds the gradient of mu / 2 * |now - start|^2 for each loss term."""
        if sums.weight == 0:
            return sums
        terms = {name: (now[name].double() - value.double()).mul(self.proximal * sums.weight) for name, value in self.shared(start).items()}
        return adder.add(sums, terms, start)

    def _gradient(self, start: Named, end: Named, weight: float) -> dict[str, torch.Tensor]:
        """Returns the gradient of `weight` loss terms of which a step with rate 1 is the change from start to end."""
        gradient = {name: (value.double() - end[name].double()).mul(weight) for name, value in start.items()}
        for name, value in gradient.items():
            if not bool(torch.isfinite(value).all()):
                raise RunError(f"{self.steps} local steps", "finite parameters", f"{name} with values that are not", "a smaller optim.lr in the client's config")
        return gradient

    def _file(self, task: Task) -> PersonalFile:
        return PersonalFile(self.personal_folder, task.name)

    def _initial(self, task: Task) -> dict[str, torch.Tensor]:
        """Returns the model's initial values of the personal parameters."""
        initial = task.work.initial_parameters()
        return {name: initial[name] for name in personal_names(initial, self.personal)}
