"""Trainers of others: one window of each, right and wrong."""

import pytest
import torch

import accrue

transformers = pytest.importorskip("transformers")

WORDS, LENGTH = 31, 12


def model():
    torch.manual_seed(3)
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=WORDS, n_positions=LENGTH, resid_pdrop=0.1, attn_pdrop=0.1,
                                     embd_pdrop=0.1, bos_token_id=0, eos_token_id=0)
    return transformers.GPT2LMHeadModel(config)


class Lines(torch.utils.data.Dataset):
    """Lines of unequal length. `first`: whether the first label counts, which no position predicts."""

    def __init__(self, first: bool = False):
        self.first = first

    def __len__(self):
        return 32

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        ids = torch.randint(WORDS, (LENGTH,), generator=generator)
        labels = ids.clone()
        labels[2 + index % (LENGTH - 2):] = -100
        if not self.first:
            labels[0] = -100
        return {"input_ids": ids, "labels": labels}


def trainer(folder, kind=transformers.Trainer, first=False, **others):
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=2, gradient_accumulation_steps=4, max_grad_norm=0.01, report_to="none",
        use_cpu=True, disable_tqdm=True, save_strategy="no", logging_strategy="no", max_steps=4, **others)
    return kind(model=model(), args=arguments, train_dataset=Lines(first))


def test_transformers_trainer_is_right(tmp_path):
    audited = trainer(tmp_path)
    before = [p.detach().clone() for p in audited.model.parameters()]
    report = accrue.audit(audited)
    assert report.equal, f"\n{report}"
    assert all(torch.equal(a, b) for a, b in zip(before, audited.model.parameters())), "the model is put back"
    assert audited.optimizer is None and audited.state.global_step == 0
    audited.train()
    assert audited.state.global_step == 4, "it trains as if nothing had been"


def test_first_labels_that_the_trainer_counts_are_named(tmp_path):
    report = accrue.audit(trainer(tmp_path, first=True))
    assert report.cause == "normalization" and any("first label" in text for text in report.evidence), f"\n{report}"


def test_a_trainer_whose_loss_is_a_mean_is_named(tmp_path):
    class MeanOfMeans(transformers.Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            labels = inputs["labels"]
            logits = model(input_ids=inputs["input_ids"], labels=labels).logits
            return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)

    report = accrue.audit(trainer(tmp_path, MeanOfMeans))
    assert not report.equal and "weighting" in report.causes, f"\n{report}"


def test_a_trainer_that_divides_again_is_named(tmp_path):
    class DividesAgain(transformers.Trainer):
        def training_step(self, model, inputs, num_items_in_batch=None):
            model.train()
            loss = self.compute_loss(model, self._prepare_inputs(inputs), num_items_in_batch=num_items_in_batch)
            (loss / self.args.gradient_accumulation_steps).backward()
            return loss.detach()

    report = accrue.audit(trainer(tmp_path, DividesAgain))
    assert report.cause == "scaled-twice", f"\n{report}"


def test_what_is_no_trainer_is_refused():
    with pytest.raises(accrue.UsageError, match="a Trainer of transformers, TRL or Lightning.*accrue.watch"):
        accrue.audit(object())
    with pytest.raises(accrue.UsageError, match="labels"):
        accrue.transformers.loss(model(), {"input_ids": torch.zeros(1, 3, dtype=torch.long)})


def test_losses_of_transformers_models():
    net = model().eval()
    batch = {name: torch.stack([Lines()[i][name] for i in range(6)]) for name in ("input_ids", "labels")}
    ours, theirs = accrue.transformers.loss(net, batch), net(**batch).loss
    assert abs(float(ours.mean.detach()) - float(theirs.detach())) < 1e-6
    vit = transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=8, patch_size=4, num_labels=3)).eval()
    images = {"pixel_values": torch.randn(5, 3, 8, 8), "labels": torch.arange(5) % 3}
    assert abs(float(accrue.transformers.loss(vit, images).mean.detach()) - float(vit(**images).loss.detach())) < 1e-6
    vit.config.problem_type = None  # which the model has noted by the labels above
    sets = {"pixel_values": images["pixel_values"], "labels": torch.randint(2, (5, 3)).float()}
    assert abs(float(accrue.transformers.loss(vit, sets).mean.detach()) - float(vit(**sets).loss.detach())) < 1e-6
    t5 = transformers.T5ForConditionalGeneration(transformers.T5Config(d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, vocab_size=WORDS))
    with pytest.raises(accrue.UsageError, match="decoder_input_ids.*loss_fn="):
        accrue.transformers.loss(t5, batch)
    bert = transformers.BertForMaskedLM(transformers.BertConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=WORDS)).eval()
    assert abs(float(accrue.transformers.loss(bert, batch).mean.detach()) - float(bert(**batch).loss.detach())) < 1e-6


def trl_trainer(folder, first=False, **methods):
    """TRL's trainer on the lines, with other methods in place of its own."""
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    lines = Lines(first)
    rows = datasets.Dataset.from_list([{name: value.tolist() for name, value in lines[i].items()} for i in range(len(lines))])
    arguments = trl.SFTConfig(output_dir=str(folder), per_device_train_batch_size=2, gradient_accumulation_steps=4, report_to="none",
                              use_cpu=True, disable_tqdm=True, save_strategy="no", logging_strategy="no", max_steps=4, bf16=False,
                              gradient_checkpointing=False, eos_token=None)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=_tokenizer(), pad_token="a", eos_token="b")
    kind = type("Trainer", (trl.SFTTrainer,), methods)
    return kind(model=model(), args=arguments, train_dataset=rows, processing_class=tokenizer)


def test_trl_is_a_trainer_too(tmp_path):
    report = accrue.audit(trl_trainer(tmp_path))
    assert report.equal, f"\n{report}"


def test_first_labels_that_trl_counts_are_named(tmp_path):
    report = accrue.audit(trl_trainer(tmp_path, first=True))
    assert report.cause == "normalization" and any("first label" in text for text in report.evidence), f"\n{report}"


def test_a_trl_trainer_that_divides_again_is_named(tmp_path):
    def training_step(self, model, inputs, num_items_in_batch=None):
        loss = self.compute_loss(model.train(), self._prepare_inputs(inputs), num_items_in_batch=num_items_in_batch)
        (loss / self.args.gradient_accumulation_steps).backward()
        return loss.detach()

    report = accrue.audit(trl_trainer(tmp_path, training_step=training_step))
    assert report.cause == "scaled-twice", f"\n{report}"


def _tokenizer():
    from tokenizers import Tokenizer, models

    return Tokenizer(models.WordLevel({letter: place for place, letter in enumerate("abcdefghijklmnopqrstuvwxyzABCDE")}, unk_token="c"))


@pytest.mark.parametrize("lengths, cause", [("even", "none"), ("uneven", "weighting")])
def test_lightnings_trainer(tmp_path, lengths, cause):
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = model()

        def loss(self, batch, reduction):
            logits = self.net(input_ids=batch["input_ids"]).logits[:, :-1].flatten(0, 1)
            return torch.nn.functional.cross_entropy(logits, batch["labels"][:, 1:].flatten(), ignore_index=-100, reduction=reduction)

        def training_step(self, batch, batch_idx):
            return self.loss(batch, "mean")

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    def loss_fn(module, batch):
        return accrue.Loss(module.loss(batch, "sum"), (batch["labels"][:, 1:] != -100).sum())

    rows = [Lines()[0 if lengths == "even" else i] for i in range(8)]
    loader = torch.utils.data.DataLoader(rows, batch_size=2)
    trainer = lightning.Trainer(accumulate_grad_batches=4, max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=0.1, default_root_dir=tmp_path)
    module = Module()
    before = [p.detach().clone() for p in module.parameters()]
    report = accrue.audit(trainer, loss_fn, model=module, loader=loader)
    assert report.cause == cause, f"\n{report}"
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters()))
