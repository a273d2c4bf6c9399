"""Lightning's Trainer with `accumulate_grad_batches`; what it reports and saves besides is switched off."""
import contextlib

import lightning
import torch

from gpt2 import Gpt2
from job import Job
from recipe import Record, autocast, make_optimizer, micro_batches
from tuning import Tuning

PACKAGES = ("torch", "lightning")


class LightningGpt2(lightning.LightningModule):
    def __init__(self, job: Job, model: Gpt2, record: Record, tuning: Tuning):
        super().__init__()
        self.model = model
        self._job = job
        self._record = record
        self._tuning = tuning
        self._window = contextlib.ExitStack()
        self._grad_norm = torch.tensor(0.0)

    def on_train_batch_start(self, batch, batch_idx: int) -> None:
        """The precision plugin's own autocast keeps no casts, so tuned windows have one instead of it."""
        if self._tuning.tuned and batch_idx % self._job.count == 0:
            self._window.enter_context(autocast(self._job))

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> torch.Tensor:
        loss = self.model(*batch)
        self._record.micro_batch(loss.detach())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return make_optimizer(self._job, self.model)

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None) -> None:
        """What `gradient_clip_val` does by itself, the norm kept."""
        self._window.close()
        self._grad_norm = torch.nn.utils.clip_grad_norm_(self.parameters(), self._job.recipe.most_norm)

    def on_train_batch_end(self, outputs, batch, batch_idx: int) -> None:
        if (batch_idx + 1) % self._job.count == 0:
            self._record.step(self._grad_norm)


def train(job: Job, model: Gpt2, record: Record, tuning: Tuning) -> None:
    by_plugin = job.precision == "bf16" and not tuning.tuned
    trainer = lightning.Trainer(accelerator="cpu", devices=1, max_steps=job.all_steps, max_epochs=1,
                                precision="bf16-mixed" if by_plugin else "32-true",
                                accumulate_grad_batches=job.count, logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False,
                                default_root_dir=job.folder)
    if tuning.compiled:
        model.compile(dynamic=False)
    trainer.fit(LightningGpt2(job, model, record, tuning), micro_batches(job))
