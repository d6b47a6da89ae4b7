"""The one LightningModule: any model of `nmt.models`, one definition of an update.

A training step: `on_train_batch_start` seeds, `training_step` sums the loss, then, for each update,
`on_before_optimizer_step` rescales the gradient and `configure_gradient_clipping` clips it.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor
from torch.nn import Parameter

from nmt import PAD
from nmt.checkpoint import FORMAT_VERSION, build
from nmt.data.batch import Batch
from nmt.decoding.greedy import GreedySearch
from nmt.evaluation.metrics import bleu
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.tokenizer import Tokenizer
from nmt.training.resume import follow_the_folder, follow_the_options

COUNTERS = ("target_tokens_seen", "skipped_updates", "seconds")


class Found(NamedTuple):
    """What a validation found in one set, by the index of a pair."""

    losses: dict[int, tuple[float, int]]  # of a batch, and its tokens, under its first pair
    texts: dict[int, str]


class TranslationModule(pl.LightningModule):
    """Trains a translation model; its hyper-parameters and weights are the whole checkpoint.

    The update: `training_step` returns the summed loss over the token budget; just before the
    step the gradient is rescaled to the mean over the target tokens of all micro-batches and
    ranks. One process with N sentences, N accumulated and N ranks give the same update.

    Args:
        model: `_target_` of an `EncoderDecoder` and its arguments, without `vocab_size`.
        tokenizer: The SentencePiece model.
        lowercase: Whether the training text was lower-cased; then input is lower-cased too.
        source_lang: ISO 639-1 code.
        target_lang: ISO 639-1 code; decides sacreBLEU's tokenizer.
        decoding: `_target_` of the search that the checkpoint translates with.
        optimizer: `_target_` and arguments, without the parameters.
        scheduler: `_target_` of a schedule (update -> factor) and its arguments.
        token_budget: Target tokens of a full batch; a constant that keeps the loss near 1.
        label_smoothing: In [0, 1).
        seed: Dropout is a function of (seed, rank, epoch, micro-batch).
    """

    def __init__(
        self,
        *,
        model: Mapping[str, Any],
        tokenizer: bytes,
        lowercase: bool,
        source_lang: str,
        target_lang: str,
        decoding: Mapping[str, Any],
        optimizer: Mapping[str, Any],
        scheduler: Mapping[str, Any],
        token_budget: int,
        label_smoothing: float,
        seed: int,
    ) -> None:
        super().__init__()
        self.save_hyperparameters(logger=False)
        self.tokenizer = Tokenizer(tokenizer, lowercase=lowercase)
        self.model: EncoderDecoder = build(model, vocab_size=self.tokenizer.vocab_size)
        self.validation_search = GreedySearch()
        self.target_tokens_seen = 0
        self.skipped_updates = 0
        self.skipped_in_a_row = 0  # since this process has started
        self.seconds = 0.0
        self.batch: Batch | None = None  # the newest, to explain a failure
        self.stop_asked = False  # of this process
        self.stop_agreed = False  # of any process, as of the last update
        self._clock = time.monotonic()
        self._tokens_at_clock = 0
        self._reset_update()

    def on_train_start(self) -> None:
        """Starts the clock: only time spent in `fit` counts."""
        self._log_interval: int = cast(Any, self.trainer).log_every_n_steps
        self._clock = time.monotonic()
        self._tokens_at_clock = self.target_tokens_seen

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Seeds the generators from the position, so that a resumed run draws the same noise."""
        self.batch = batch
        place = (self.hparams["seed"], self.global_rank, self.trainer.current_epoch, batch_idx)
        digest = hashlib.blake2b(repr(place).encode(), digest_size=8).digest()
        seed = int.from_bytes(digest) >> 1
        torch.default_generator.manual_seed(seed)  # torch.manual_seed takes a millisecond
        if self.device.type != "cpu":
            torch.get_device_module(self.device).manual_seed(seed)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Returns the summed loss of a micro-batch over the token budget."""
        logits = self.model(batch.source, batch.source_mask, batch.target_in)
        loss = summed_cross_entropy(
            logits, batch.target_out, smoothing=self.hparams["label_smoothing"]
        )
        self._update_tokens += batch.num_target_tokens
        self._update_loss += loss.detach()
        return loss / int(self.hparams["token_budget"])

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Rescales the gradient to the mean of a token, or skips an update that has none.

        Lightning has averaged over ranks and divided by the accumulation; both are undone.
        """
        loss, tokens = self._update_loss, self._update_tokens
        self.stop_agreed = self.stop_asked
        if self.trainer.world_size > 1:  # one collective for all that the ranks must agree on
            sums = torch.tensor(
                [float(loss), tokens, self.stop_asked], dtype=torch.float64, device=self.device
            )
            torch.distributed.all_reduce(sums)
            loss, tokens, self.stop_agreed = sums[0], int(sums[1]), bool(sums[2])
        micro_batches = self.trainer.world_size * self.trainer.accumulate_grad_batches
        scale = micro_batches * self.hparams["token_budget"] / tokens if tokens else math.nan
        parameters = _parameters(optimizer)
        gradients = [p.grad for p in parameters if p.grad is not None]
        torch._foreach_mul_(gradients, scale)
        self._norm = torch.nn.utils.get_total_norm(gradients)
        self.skipped_in_a_row += 1
        if self._norm.isfinite():
            self.skipped_in_a_row = 0
        else:
            self.skipped_updates += 1
            for parameter in parameters:  # a zero gradient would still let AdamW move the weights
                parameter.grad = None
        self.target_tokens_seen += tokens
        self._reset_update()
        if (self.trainer.global_step + 1) % self._log_interval == 0:
            self._log_update(float(loss) / max(1, tokens), optimizer.param_groups[0]["lr"])

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clips by the norm that is known already; Lightning would compute it again."""
        if gradient_clip_val and gradient_clip_algorithm in (None, "norm"):
            torch.nn.utils.clip_grads_with_norm_(
                _parameters(optimizer), gradient_clip_val, self._norm
            )
        else:
            self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """Builds the optimizer and the schedule over updates."""
        spared = list(self.model.without_decay())
        others = {id(parameter) for parameter in spared}
        groups: list[dict[str, Any]] = [
            {"params": [p for p in self.model.parameters() if id(p) not in others]},
            {"params": spared, "weight_decay": 0.0},
        ]
        optimizer = build(
            self.hparams["optimizer"],
            allowed=("torch.optim.",),
            params=[g for g in groups if g["params"]],
        )
        schedule = build(self.hparams["scheduler"], allowed=("nmt.training.schedules.",))
        # A function, not the object, whose options a checkpoint would put in place of the new ones.
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: schedule(update))
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    def _reset_update(self) -> None:
        self._update_tokens = 0
        self._update_loss: Tensor | float = 0.0

    def _log_update(self, loss: float, lr: float) -> None:
        now = time.monotonic()
        tokens = self.target_tokens_seen - self._tokens_at_clock
        values = {"loss": loss, "lr": lr, "tokens_per_s": tokens / max(1e-9, now - self._clock)}
        self._stop_clock(now)
        self.log_dict(values, prog_bar=True, logger=False, batch_size=1)
        self._write_log(values, step=self.trainer.global_step + 1)

    def _write_log(self, values: Mapping[str, float], *, step: int) -> None:
        """Writes a row; not through `self.log`, which counts steps from 0 and rounds to fp32."""
        for logger in self.loggers:
            logger.log_metrics({**values, "epoch": self.trainer.current_epoch}, step=step)
            logger.save()

    def _stop_clock(self, now: float) -> None:
        self.seconds += now - self._clock
        self._clock, self._tokens_at_clock = now, self.target_tokens_seen

    def on_validation_epoch_start(self) -> None:
        """Forgets the last validation."""
        self._stop_clock(time.monotonic())
        names = cast(Any, self.trainer).datamodule.valid_splits
        self._found = {name: Found({}, {}) for name in names}

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Sums the unsmoothed loss and translates; no collective, so shards may be uneven."""
        self.batch = batch
        losses, texts = list(self._found.values())[dataloader_idx]
        logits = self.model(batch.source, batch.source_mask, batch.target_in)
        loss = summed_cross_entropy(logits, batch.target_out).item()
        indices = batch.index.tolist()
        # Kept under a name of the batch: a rank without one of its own repeats another's.
        losses[indices[0]] = (loss, batch.num_target_tokens)
        found = self.validation_search(
            self.model,
            batch.source,
            batch.source_mask,
            forbidden_ids=self.tokenizer.forbidden_ids,
        )
        for index, hypotheses in zip(indices, found, strict=True):
            texts[index] = self.tokenizer.decode(hypotheses[0].tokens)

    def on_validation_epoch_end(self) -> None:
        """Gathers all ranks' losses and texts once and logs loss, perplexity and BLEU.

        Of several validation sets the loss and BLEU of each are logged, and their means, in which
        each set counts alike, as `valid_loss` and `valid_bleu`.
        The sums are exact (`fsum`), so that the number of ranks cannot change the last digit.
        """
        shares: list[Any] = [self._found]
        if self.trainer.world_size > 1:
            shares *= self.trainer.world_size
            torch.distributed.all_gather_object(shares, self._found)
        loss_of, bleu_of = {}, {}
        for name in self._found:
            losses, texts = Found({}, {})
            for share in shares:
                losses |= share[name].losses
                texts |= share[name].texts
            tokens = sum(count for _, count in losses.values())
            loss_of[name] = math.fsum(nll for nll, _ in losses.values()) / max(1, tokens)
            bleu_of[name] = self._bleu(name, texts)
        loss = math.fsum(loss_of.values()) / len(loss_of)
        values = {
            "valid_loss": loss,
            "valid_perplexity": math.exp(loss) if loss < 700 else math.inf,
            "valid_bleu": math.fsum(bleu_of.values()) / len(bleu_of),
        }
        if len(loss_of) > 1:
            values |= {f"{name}_loss": value for name, value in loss_of.items()}
            values |= {f"{name}_bleu": value for name, value in bleu_of.items()}
        for name, value in values.items():
            self.log(
                name,
                value,
                prog_bar=name == "valid_bleu",
                logger=False,
                batch_size=1,
                sync_dist=True,
                reduce_fx="max",  # all ranks have the same value
            )
        self._write_log(values, step=self.trainer.global_step)
        self._clock = time.monotonic()  # validation is not training time

    def _bleu(self, split: str, texts: Mapping[int, str]) -> float:
        references = cast(Any, self.trainer).datamodule.split(split)["target"][:]
        order = sorted(texts)
        return bleu(
            [texts[i] for i in order],
            [references[i] for i in order],
            target_lang=self.hparams["target_lang"],
        )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Adds the format's version and the run's counters."""
        if self.trainer.training:
            self._stop_clock(time.monotonic())
        checkpoint["format_version"] = FORMAT_VERSION
        checkpoint["counters"] = {name: getattr(self, name) for name in COUNTERS}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Takes up the counters where they were left, with the folder and options of this run."""
        for name in COUNTERS:
            setattr(self, name, checkpoint["counters"][name])
        follow_the_folder(checkpoint["callbacks"], self.trainer)
        follow_the_options(checkpoint, self.hparams["optimizer"])


def _parameters(optimizer: torch.optim.Optimizer) -> list[Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


# The objective


def summed_cross_entropy(logits: Tensor, target: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Returns the sum over real target tokens of the (label-smoothed) negative log-likelihood.

    With smoothing e the target distribution is (1 - e) on the label plus e / V everywhere
    (Szegedy et al. 2016, section 7). It is a sum, so that batching cannot change the result: who
    knows how many tokens an update or a validation set has divides once. The value is that of
    `F.cross_entropy(..., reduction="sum", ignore_index=PAD, label_smoothing=e)`; docs/benchmarks.md
    has the difference in speed.

    Args:
        logits: (B, T, V), any float type; computed in fp32. Overwritten.
        target: (B, T) int64, filled up with PAD.
        smoothing: e, in [0, 1).

    Returns:
        A scalar, in nats; one backward pass only.
    """
    flat = logits.flatten(0, 1).float()
    loss: Tensor = _SmoothedCrossEntropy.apply(flat, target.view(-1, 1), smoothing)  # type: ignore[no-untyped-call]
    return loss


class _SmoothedCrossEntropy(torch.autograd.Function):
    """-sum_v q_v log p_v over the rows that are not PAD; q as above.

    log p and the gradient p - q are written over the logits, the largest tensor of a training
    step. PyTorch's makes four more of that size.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
        in_place = logits if logits.device.type == "cpu" else None  # elsewhere not known to be safe
        log_probs = torch.log_softmax(logits, -1, out=in_place)  # (B T, V)
        ctx.log_probs, ctx.target, ctx.smoothing = log_probs, target, smoothing
        loss = (smoothing - 1) * log_probs.gather(1, target)
        if smoothing:
            loss -= smoothing / logits.shape[1] * log_probs.sum(1, keepdim=True)
        return loss.masked_fill(target == PAD, 0.0).sum()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        probs, target, smoothing = ctx.log_probs.exp_(), ctx.target, ctx.smoothing
        ctx.log_probs = None  # overwritten
        scale = gradient * (target != PAD)  # (B T, 1)
        everywhere = -smoothing / probs.shape[1] * scale
        torch.addcmul(everywhere, probs, scale, out=probs)
        label = probs.gather(1, target) - (1 - smoothing) * scale
        return probs.scatter_(1, target, label), None, None
