"""Speed, memory and time split of training, for each model, and what options change of it.

    scripts/benchmark.py train --output train.json
    scripts/benchmark.py train --against trainer.precision=bf16-mixed --against compile=true
    scripts/benchmark.py train --models transformer_base --device cuda data.token_budget=25000

Everything is done by the trainer, loader and module that train.py builds, without validation,
checkpoints and progress bar. Each side has a process of its own; they take turns, round by round,
with the same batches in each round. A CPU is timed by CPU seconds: those of one thread are the
wall time of an idle machine.

The share of the matrix products' rate is that of the operations counted by `nmt.study.probes.cost`,
padding included, in what `torch.mm` makes between the rounds: fp32 of the size of the model's
feed-forward on a CPU; on a GPU a large square product in bf16, which makes it the MFU.
"""

import argparse
import statistics
from typing import Any

from benchmarks.stopwatch import DATA, STAGES
from benchmarks.training_rounds import RoundOptions, prepare
from benchmarks.training_side import Side
from nmt.config import config_directory

# Beside the files of conf/model: 3 + 3 layers with the defaults of other toolkits. A feed-forward
# of 1024 has two matrices with ReLU and three with SwiGLU, where 684 makes the same size.
_WIDTH_256 = (
    *("model=transformer", "model.width=256", "model.num_heads=8", "model.num_kv_heads=2"),
    *("model.dropout=0.1", "data.tokenizer.vocab_size=8000"),
)
SIZES = {
    "transformer_256": (*_WIDTH_256, "model.feed_forward=1024"),
    "transformer_256_as_relu": (*_WIDTH_256, "model.feed_forward=684"),
}
_GRAMMAR = {
    "cpu": ("data=grammar", "data.grammar.train_size=4000"),
    "cuda": ("data=grammar",),  # all of it: batches are larger
}
_MOST_FOR_DATA = 0.03
Figures = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this benchmark."""
    add = parser.add_argument
    add("--models", type=lambda text: text.split(","), metavar="NAME,...",
        default=["rnn", "bahdanau", "transformer", "transformer_256"],
        help=f"of conf/model, or {', '.join(SIZES)}")  # fmt: skip
    add("--against", action="append", default=[], metavar="OPTION",
        help="of train.py; measured beside each model as it is: trainer.precision=bf16-mixed, "
        "compile=true, +optimizer.fused=true, ...")  # fmt: skip
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--updates", type=int, default=10, help="of a round (%(default)s)")
    add("--rounds", type=int, default=5, help="turns of each side (%(default)s)")
    add("options", nargs="*", help="of train.py, for all: data=multi30k data.directory=DIR ... "
        "(default: the built-in corpus)")  # fmt: skip


def run(arguments: argparse.Namespace) -> list[Figures]:
    """Measures all sides, prints them and returns the figures of each."""
    figures = []
    for name in arguments.models:
        model = (*_model_options(name), *_shared_options(arguments))
        variants = {"": model} | {option: (*model, option) for option in arguments.against}
        figures += _measure(name, variants, arguments)
    _print_summary(figures, arguments)
    return figures


def _model_options(name: str) -> tuple[str, ...]:
    known = {path.stem for path in (config_directory() / "model").glob("*.yaml")}
    if name not in SIZES and name not in known:
        raise ValueError(
            f"There is no model {name!r}; choose of {', '.join(sorted(known | SIZES.keys()))}."
        )
    return SIZES.get(name, (f"model={name}",))


def _shared_options(arguments: argparse.Namespace) -> list[str]:
    chosen = any(option.startswith("data=") for option in arguments.options)
    trainer = "trainer=cpu" if arguments.device == "cpu" else "trainer=gpu"
    return [
        trainer,
        *([] if chosen else _GRAMMAR[arguments.device]),
        "data.token_budget=1024",
        *arguments.options,
    ]


def _measure(
    name: str, variants: dict[str, tuple[str, ...]], arguments: argparse.Namespace
) -> list[Figures]:
    """Measures a model and its variants, whose ratios are taken within each round."""
    sides: list[Side] = []
    try:
        for options in variants.values():
            prepare(options, updates=arguments.updates)
            sides.append(
                Side(RoundOptions(options, arguments.device, arguments.threads, arguments.updates))
            )
        rounds = [[side.measure(waits=False) for side in sides] for _ in range(arguments.rounds)]
        splits = rounds
        if arguments.device == "cuda":  # a split must wait for the GPU, a speed must not
            splits = [[side.measure(waits=True) for side in sides]]
        return [
            {"model": name, "against": variant, **side.facts}
            | _medians([one[number] for one in rounds], side.facts)
            | {"ratio": statistics.median(_ratios(rounds, number))}
            | _split([one[number] for one in splits])
            for number, (variant, side) in enumerate(zip(variants, sides, strict=True))
        ]
    finally:
        for side in sides:
            side.close()


def _medians(rounds: list[Figures], facts: Figures) -> Figures:
    rate = statistics.median(one["target_tokens_per_second"] for one in rounds)
    matmul = statistics.median(one["matmul_flops_per_second"] for one in rounds)
    return {
        "target_tokens_per_second": rate,
        "matmul_flops_per_second": matmul,
        "share_of_matmul": statistics.median(
            one["target_tokens_per_second"]
            * facts["flops_per_target_token"]
            / one["matmul_flops_per_second"]
            for one in rounds
        ),
        "peak_mib": rounds[0]["peak_mib"],  # later ones hold on to what earlier trainers had
    }


def _ratios(rounds: list[list[Figures]], number: int) -> list[float]:
    return [
        one[number]["target_tokens_per_second"] / one[0]["target_tokens_per_second"]
        for one in rounds
    ]


def _split(rounds: list[Figures]) -> Figures:
    seconds = {stage: sum(one["seconds"][stage] for one in rounds) for stage in STAGES}
    shares = {stage: seconds[stage] / sum(seconds.values()) for stage in STAGES}
    verdict = "pass" if shares[DATA] < _MOST_FOR_DATA else "fail"
    return {"time": shares, "data_under_3_percent": verdict}


def _print_summary(figures: list[Figures], arguments: argparse.Namespace) -> None:
    print(
        f"{arguments.device}, {arguments.threads} thread(s), medians of {arguments.rounds} rounds "
        f"of {arguments.updates} updates\n"
        f"{'':26}{'V':>6}{'tokens/s':>10}{'ratio':>7}{'padding':>9}{'MFLOP/token':>13}"
        f"{'of matmul':>11}{'peak MiB':>10}  " + " ".join(f"{stage:>8}" for stage in STAGES)
    )
    for one in figures:
        print(
            f"{one['against'] or one['model']:26}{one['vocab_size']:6}"
            f"{one['target_tokens_per_second']:10,.0f}{one['ratio']:7.2f}{one['padding']:9.1%}"
            f"{one['flops_per_target_token'] / 1e6:13.1f}{one['share_of_matmul']:11.1%}"
            f"{one['peak_mib']:10,.0f}  "
            + " ".join(f"{share:8.1%}" for share in one["time"].values())
            + f"  data under 3 %: {one['data_under_3_percent']}"
        )
    rates = [one["matmul_flops_per_second"] / 1e9 for one in figures]
    print(f"torch.mm: {min(rates):,.0f} to {max(rates):,.0f} GFLOP/s")
