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


def test_a_classifier_that_gets_the_sum_of_means_is_named(tmp_path):
    """Its forward takes keyword arguments and its loss is a mean: 5.24 then divides by nothing (docs/guide/coming_from.md)."""
    class Labelled(torch.utils.data.Dataset):
        def __len__(self):
            return 16

        def __getitem__(self, index):
            return {"input_ids": torch.arange(8) * (index + 1) % WORDS, "labels": torch.tensor(index % 2)}

    def loss_fn(model, micro):
        logits = model(input_ids=micro["input_ids"]).logits
        return accrue.Loss(torch.nn.functional.cross_entropy(logits, micro["labels"], reduction="sum"), len(micro["labels"]))

    torch.manual_seed(3)
    bert = transformers.BertForSequenceClassification(transformers.BertConfig(
        num_hidden_layers=1, num_attention_heads=2, hidden_size=16, intermediate_size=16, vocab_size=WORDS, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0))
    arguments = transformers.TrainingArguments(output_dir=str(tmp_path), per_device_train_batch_size=2, gradient_accumulation_steps=4,
                                               report_to="none", use_cpu=True, disable_tqdm=True)
    report = accrue.audit(transformers.Trainer(bert, arguments, train_dataset=Labelled()), loss_fn)
    assert report.cause == "normalization" and any("4 times the true one" in text for text in report.evidence), f"\n{report}"


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


def trl_trainer(folder, first=False, config=None, **methods):
    """TRL's trainer on the lines, with other methods in place of its own."""
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    lines = Lines(first)
    rows = datasets.Dataset.from_list([{name: value.tolist() for name, value in lines[i].items()} for i in range(len(lines))])
    arguments = trl.SFTConfig(output_dir=str(folder), per_device_train_batch_size=2, gradient_accumulation_steps=4, report_to="none",
                              use_cpu=True, disable_tqdm=True, save_strategy="no", logging_strategy="no", max_steps=4, bf16=False,
                              gradient_checkpointing=False, eos_token=None, **(config or {}))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=_tokenizer(), pad_token="a", eos_token="b")
    kind = type("Trainer", (trl.SFTTrainer,), methods)
    return kind(model=model(), args=arguments, train_dataset=rows, processing_class=tokenizer)


def test_trl_is_a_trainer_too(tmp_path):
    report = accrue.audit(trl_trainer(tmp_path))
    assert report.equal, f"\n{report}"


def test_first_labels_that_trl_counts_are_named(tmp_path):
    report = accrue.audit(trl_trainer(tmp_path, first=True))
    assert report.cause == "normalization" and any("first label" in text for text in report.evidence), f"\n{report}"


def test_dynamic_fine_tuning_is_no_cross_entropy(tmp_path):
    """DFT weighs each label's cross entropy by its probability."""
    report = accrue.audit(trl_trainer(tmp_path, config={"loss_type": "dft"}))
    assert report.equal and report.judged and report.conclusive, f"\n{report}"

    def training_step(self, model, inputs, num_items_in_batch=None):
        (self.compute_loss(model.train(), self._prepare_inputs(inputs)) / self.args.gradient_accumulation_steps).backward()
        return torch.zeros(())

    report = accrue.audit(trl_trainer(tmp_path, config={"loss_type": "dft"}, training_step=training_step))
    assert not report.equal and "weighting" in report.causes, f"\n{report}"


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


def left_by(trainer):
    """What a Trainer's training leaves, to the bit."""
    net = trainer.accelerator.unwrap_model(trainer.model)
    optimizer = trainer.optimizer
    while not hasattr(optimizer, "_optimizer_step_pre_hooks"):
        optimizer = optimizer.optimizer
    states = [state[name] for state in optimizer.state.values() for name in sorted(state)]
    return [*net.parameters(), *states, torch.get_rng_state()], [group["lr"] for group in optimizer.param_groups], trainer.state.global_step


def is_same(a, b):
    return a[1:] == b[1:] and len(a[0]) == len(b[0]) and all(torch.equal(x, y) for x, y in zip(a[0], b[0]))


@pytest.mark.parametrize("own_optimizer", [False, True])
def test_an_audited_trainer_trains_to_the_bit(tmp_path, own_optimizer):
    def made():
        torch.manual_seed(5)
        each = trainer(tmp_path)
        if own_optimizer:
            each.optimizer = torch.optim.AdamW(each.model.parameters(), lr=1e-2)
            each.lr_scheduler = torch.optim.lr_scheduler.ExponentialLR(each.optimizer, 0.9)
            for parameter in each.model.parameters():
                parameter.grad = torch.ones_like(parameter)
            each.optimizer.step()  # so that there are moments
            each.optimizer.zero_grad()
        return each

    plain, audited = made(), made()
    rates = [group["lr"] for group in audited.optimizer.param_groups] if own_optimizer else None
    moments = [audited.optimizer.state[p]["exp_avg"].clone() for p in audited.model.parameters()] if own_optimizer else []
    assert accrue.audit(audited).judged
    assert audited.state.global_step == 0 and "compute_loss" not in vars(audited)
    if own_optimizer:
        assert [group["lr"] for group in audited.optimizer.param_groups] == rates
        assert all(torch.equal(a, audited.optimizer.state[p]["exp_avg"]) for a, p in zip(moments, audited.model.parameters()))
    for each in (plain, audited):
        torch.manual_seed(6)
        each.train()
    assert is_same(left_by(plain), left_by(audited))


def test_an_audited_trl_trainer_trains_to_the_bit(tmp_path):
    plain, audited = trl_trainer(tmp_path), trl_trainer(tmp_path)
    assert accrue.audit(audited).equal
    for each in (plain, audited):
        torch.manual_seed(6)
        each.train()
    assert is_same(left_by(plain), left_by(audited))


def test_losses_of_a_trainers_own_are_judged_where_they_are_means(tmp_path):
    smoothed = accrue.audit(trainer(tmp_path, label_smoothing_factor=0.1))
    assert "not judged" not in smoothed.conclusion.lower(), f"\n{smoothed}"

    class Squares(transformers.Trainer):
        """A mean over samples."""

        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            return model(input_ids=inputs["input_ids"]).logits.square().flatten(1).mean(1).mean()

    class Twice(Squares):
        def training_step(self, model, inputs, num_items_in_batch=None):
            loss = self.compute_loss(model.train(), self._prepare_inputs(inputs))
            loss.backward()  # never divided
            return loss.detach()

    assert accrue.audit(right := trainer(tmp_path, _divides(Squares))).equal, right
    assert not accrue.audit(trainer(tmp_path, Twice)).equal

    class Coupled(transformers.Trainer):
        """The balance of a mixture of experts: no mean over anything."""

        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            return model(input_ids=inputs["input_ids"]).logits.mean((0, 1)).square().sum()

    report = accrue.audit(trainer(tmp_path, Coupled))
    assert not report.judged and "Coupled" in report.conclusion and "loss_fn=" in report.advice, f"\n{report}"


def _divides(kind):
    """A Trainer of a mean of its own, which divides by the number of micro-batches."""
    class Divides(kind):
        def training_step(self, model, inputs, num_items_in_batch=None):
            loss = self.compute_loss(model.train(), self._prepare_inputs(inputs))
            (loss / self.args.gradient_accumulation_steps).backward()
            return loss.detach()

    return Divides


def trl_trainer_of(folder, kind, rows, micro_batch=2, steps=4, **options):
    """One of TRL's other trainers, on words of one letter."""
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    from tokenizers import pre_tokenizers

    config, others = options.pop("config", {}), options
    arguments = getattr(trl, kind + "Config")(
        output_dir=str(folder), per_device_train_batch_size=micro_batch, gradient_accumulation_steps=steps, report_to="none", use_cpu=True,
        disable_tqdm=True, save_strategy="no", logging_strategy="no", max_steps=4, bf16=False, gradient_checkpointing=False, **config)
    words = _tokenizer()
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="a", eos_token="b", padding_side="left")
    return getattr(trl, kind + "Trainer")(model=model(), args=arguments, train_dataset=datasets.Dataset.from_list(rows),
                                          processing_class=tokenizer, **others)


@pytest.mark.parametrize("kind, column", [("DPO", {"rejected": " e f"}), ("KTO", {"label": True})])
def test_preference_losses_are_not_taken_for_cross_entropy(tmp_path, kind, column):
    rows = [{"prompt": "a b", "chosen" if kind == "DPO" else "completion": " c d e"[:2 + 2 * (i % 3)]} | column for i in range(16)]
    if kind == "KTO":
        rows = [row | {"label": place % 2 == 0} for place, row in enumerate(rows)]
    report = accrue.audit(trl_trainer_of(tmp_path, kind, rows, ref_model=model(), config={"max_length": LENGTH}))
    assert report.equal and report.judged, f"\n{report}"


def test_a_policys_loss_is_not_judged(tmp_path):
    report = accrue.audit(trl_trainer_of(tmp_path, "GRPO", [{"prompt": "a b"}] * 16, micro_batch=4, steps=2,
                                         config={"num_generations": 4, "max_completion_length": 4},
                                         reward_funcs=lambda completions, **_: [float(len(set(text))) for text in completions]))
    assert not report.judged and "GRPOTrainer" in report.conclusion, f"\n{report}"


class Numbers(torch.utils.data.Dataset):
    """One target each, which is a number."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return {"input_ids": torch.randint(WORDS, (8,), generator=generator), "labels": torch.randn((), generator=generator)}


def regression(folder, micro_batch, steps, callbacks=()):
    torch.manual_seed(0)
    net = transformers.BertForSequenceClassification(transformers.BertConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=WORDS, num_labels=1, hidden_dropout_prob=0,
        attention_probs_dropout_prob=0))
    arguments = transformers.TrainingArguments(
        str(folder), per_device_train_batch_size=micro_batch, gradient_accumulation_steps=steps, report_to="none", use_cpu=True, disable_tqdm=True,
        save_strategy="no", logging_strategy="no", max_steps=1, max_grad_norm=0.0)
    return transformers.Trainer(net, arguments, train_dataset=Numbers(), callbacks=list(callbacks))


def test_regression_is_judged_as_the_trainer_itself_does_it(tmp_path):
    """Beside transformers alone: by how much the gradient of four micro-batches of two is off that of one of eight."""
    gradients = []

    class Keep(transformers.TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model=None, **others):
            gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))

    for micro_batch, steps in ((8, 1), (2, 4)):
        regression(tmp_path, micro_batch, steps, [Keep()]).train()
    factor = float(gradients[1].norm() / gradients[0].norm())
    report = accrue.audit(regression(tmp_path, 2, 4))
    assert report.judged and (report.equal if abs(factor - 1) < 1e-3 else abs(report.factor - factor) < 1e-3), f"{factor}\n{report}"


def test_losses_that_are_no_cross_entropy_of_the_logits_are_refused_in_a_sentence():
    ctc = transformers.Wav2Vec2ForCTC(transformers.Wav2Vec2Config(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=WORDS, conv_dim=(8, 8), conv_stride=(5, 2),
        conv_kernel=(10, 3), num_feat_extract_layers=2, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2))
    with pytest.raises(accrue.UsageError, match="transformers loss.*loss_fn= for a model with a loss of its own"):
        accrue.transformers.loss(ctc, {"input_values": torch.randn(2, 400), "labels": torch.ones(2, 5, dtype=torch.long)})
    segments = transformers.SegformerForSemanticSegmentation(transformers.SegformerConfig(
        num_encoder_blocks=1, depths=[1], sr_ratios=[1], hidden_sizes=[8], patch_sizes=[3], strides=[4], num_attention_heads=[1], mlp_ratios=[2],
        decoder_hidden_size=8, num_labels=3))
    with pytest.raises(accrue.UsageError, match="transformers loss.*loss_fn= for a model with a loss of its own"):
        accrue.transformers.loss(segments, {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.zeros(2, 16, 16, dtype=torch.long)})


@pytest.mark.parametrize("options, windows", [({"max_epochs": 1}, 4), ({"max_steps": 3, "max_epochs": -1}, 3)])
def test_lightnings_fit_behind_an_audit_is_that_without(tmp_path, options, windows):
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.net, self.seen = torch.nn.Linear(5, 1), 0

        def training_step(self, batch, index):
            self.seen += 1
            return (self.net(batch[0]) - batch[1]).square().mean()

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=0.1)
            return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]

    torch.manual_seed(1)
    data = torch.utils.data.TensorDataset(torch.randn(24, 5), torch.randn(24, 1))

    def fitted(audited):
        module = Module()
        loader = torch.utils.data.DataLoader(data, batch_size=2, shuffle=True, generator=torch.Generator().manual_seed(3))
        fit = lightning.Trainer(accumulate_grad_batches=3, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False, default_root_dir=tmp_path, **options)
        if audited:
            report = accrue.audit(fit, lambda net, micro: accrue.Loss((net.net(micro[0]) - micro[1]).square().sum(), len(micro[0])), model=module,
                                  loader=loader)
            assert report.equal and report.judged and fit.global_step == 0 and module.seen == 0, f"\n{report}"
        fit.fit(module, loader)
        return module, fit.global_step

    (plain, steps), (behind, steps_behind) = fitted(False), fitted(True)
    assert steps == steps_behind == windows and plain.seen == behind.seen == 3 * windows
    assert torch.equal(plain.net.weight, behind.net.weight)


def files_under(*folders):
    return sorted((str(path), path.stat().st_mtime_ns) for folder in folders for path in folder.rglob("*") if path.is_file())


def test_an_audit_of_lightning_writes_nothing(tmp_path, monkeypatch):
    """Its default logger and checkpoints, a profiler that writes, and validation are part of fit(), and of no audit."""
    lightning = pytest.importorskip("lightning")
    from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
    from lightning.pytorch.loggers import CSVLogger

    monkeypatch.chdir(tmp_path)
    torch.manual_seed(1)
    data = torch.utils.data.TensorDataset(torch.randn(24, 5), torch.randn(24, 1))
    validated = []

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.save_hyperparameters()
            self.net = torch.nn.Linear(5, 1)

        def training_step(self, batch, index):
            loss = (self.net(batch[0]) - batch[1]).square().mean()
            self.log("loss", loss)
            return loss

        def validation_step(self, batch, index):
            validated.append(index)

        def val_dataloader(self):
            return torch.utils.data.DataLoader(data, batch_size=2)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    module, loader = Module(), torch.utils.data.DataLoader(data, batch_size=2)
    fit = lightning.Trainer(accumulate_grad_batches=3, max_epochs=1, accelerator="cpu", enable_progress_bar=False, enable_model_summary=False,
                            logger=CSVLogger(tmp_path), log_every_n_steps=1, profiler="advanced",
                            callbacks=[ModelCheckpoint(tmp_path / "kept", every_n_train_steps=1, save_top_k=-1), LearningRateMonitor("step")])
    loggers, callbacks, profiler = fit.loggers, list(fit.callbacks), fit.profiler
    before = files_under(tmp_path)
    report = accrue.audit(fit, lambda net, micro: accrue.Loss((net.net(micro[0]) - micro[1]).square().sum(), len(micro[0])), model=module,
                          loader=loader)
    assert report.equal and report.judged, f"\n{report}"
    assert files_under(tmp_path) == before and not validated
    assert fit.loggers is loggers and fit.callbacks == callbacks and fit.profiler is profiler and "save_checkpoint" not in vars(fit)
    fit.fit(module, loader)
    assert len(files_under(tmp_path)) > 4 and validated, "what was left out of the audit is part of the training behind it"


@pytest.mark.parametrize("when", ["epoch", "steps"])
def test_an_audit_of_transformers_writes_nothing(tmp_path, monkeypatch, when):
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "run"), per_device_train_batch_size=2, gradient_accumulation_steps=4, report_to="tensorboard", use_cpu=True,
        disable_tqdm=True, save_strategy=when, eval_strategy=when, save_steps=1, eval_steps=1, logging_steps=1, save_total_limit=1,
        num_train_epochs=1)
    evaluated = []

    class Evaluating(transformers.Trainer):
        def evaluate(self, *args, **kwargs):
            evaluated.append(1)
            return super().evaluate(*args, **kwargs)

    audited = Evaluating(model=model(), args=arguments, train_dataset=Lines(), eval_dataset=Lines())
    audited.model.config.use_cache = False
    before = files_under(tmp_path)
    names = [type(each).__name__ for each in audited.callback_handler.callbacks]
    assert "TensorBoardCallback" in names
    assert accrue.audit(audited).judged
    assert files_under(tmp_path) == before and not evaluated
    assert audited.args is arguments and [type(each).__name__ for each in audited.callback_handler.callbacks] == names
    assert arguments.save_strategy == when and not {"log", "save_model", "_save_checkpoint"} & vars(audited).keys()
    audited.train()
    assert len(files_under(tmp_path)) > 4 and evaluated, "what was left out of the audit is part of the training behind it"


def test_data_that_an_audit_would_use_up_are_refused(tmp_path):
    lightning = pytest.importorskip("lightning")
    with pytest.raises(accrue.UsageError, match="data that can be read again, received an iterator of type generator"):
        accrue.audit(lightning.Trainer(logger=False, default_root_dir=tmp_path), lambda net, micro: None, model=torch.nn.Linear(1, 1),
                     loader=(each for each in [1]))
