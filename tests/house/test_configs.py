"""Every file in conf/ composes, and what it describes can be built and trained."""

from importlib.util import find_spec
from itertools import zip_longest

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from number_words import corpus_options

from nmt.config import check_config, config_directory
from nmt.training.run import build_module, build_trainer, fit

GROUPS = ("data", "model", "optimizer", "scheduler", "decoding", "trainer", "callbacks", "logger")
NEEDS = {  # what a user has to add to these files
    "default": ["name=toy", "train=[t]", "valid=[v]", "test=[t]"],
    "files": ["source_lang=en", "target_lang=de", "train=[t]", "valid=[v]", "test=[t]"],
    "bible": ["directory=."],
    "mixture": ["source_lang=en", "target_lang=de", "corpora={a:{train:[t],valid:[v],test:[w]}}"],
}
EXTRAS = {"wandb": "wandb", "tensorboard": "tensorboard"}


def names(group):
    return sorted(path.stem for path in (config_directory() / group).glob("*.yaml"))


def composed(*options, program="train"):
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        return compose(program, overrides=list(options))


def rows():
    """Yields choices of files in which each file of each group occurs, as few as possible."""
    for choice in zip_longest(*map(names, GROUPS)):
        yield {group: name for group, name in zip(GROUPS, choice, strict=True) if name}


@pytest.mark.parametrize("choice", list(rows()), ids=lambda choice: "-".join(choice.values()))
def test_every_file_composes_and_is_possible(choice, tmp_path):
    needed = [f"data.{option}" for option in NEEDS.get(choice["data"], [])]
    config = composed(
        *(f"{group}={name}" for group, name in choice.items()), *needed, f"run_dir={tmp_path}"
    )
    check_config(config)
    instantiate(config.data)
    for callback in config.callbacks.values():
        instantiate(callback)
    if find_spec(EXTRAS.get(choice.get("logger"), "pytorch_lightning")):
        instantiate(config.logger)


@pytest.mark.parametrize("group", ["debug", "launcher"])
def test_every_file_that_changes_other_groups_composes(group):
    for name in names(group):
        check_config(composed(f"{group}={name}"))


@pytest.mark.parametrize(
    "chosen",
    [{}, {"decoding": "greedy"}, {"data": "grammar"}, {"data": "grammar", "decoding": "beam"}],
)
def test_evaluation_has_a_corpus_and_a_search_only_when_told(chosen):
    options = [f"{group}={name}" for group, name in chosen.items()]
    config = composed("checkpoint=best.ckpt", *options, program="evaluate")
    check_config(config)
    assert {group for group in ("data", "decoding") if config[group] is not None} == set(chosen)


@pytest.mark.parametrize("name", names("experiment"))
def test_every_experiment_makes_an_update(name, tmp_path):
    tiny = [option for option in corpus_options(tmp_path / "text") if option != "data=files"]
    config = composed(
        f"experiment={name}",
        "trainer=cpu",
        "model_name=tiny",  # Hydra's choice, in train.py
        f"run_dir={tmp_path / 'run'}",
        *tiny,
        "data.hub=null",
        "data.directory=null",
        "data.grammar=null",
        "data.expected_sizes=null",
        "trainer.max_steps=1",
        "trainer.log_every_n_steps=1",
        "num_validations=1",
        "~callbacks.progress",
        "data.num_workers=0",
    )
    check_config(config)
    data = instantiate(config.data)
    data.prepare_data()
    module, trainer = build_module(config, data), build_trainer(config)
    assert fit(config, data, module, trainer).name == "best.ckpt"
    assert (trainer.global_step, module.skipped_updates) == (1, 0)


@pytest.mark.parametrize(
    ("precision", "clip", "possible"),
    [("16-mixed", "1.0", False), ("bf16-mixed", "1.0", True), ("32-true", "1.0", True)],
)
def test_a_fused_optimizer_is_refused_where_lightning_cannot_clip(
    precision, clip, possible, tmp_path
):
    config = composed(
        *("trainer=cpu", f"trainer.precision={precision}", f"trainer.gradient_clip_val={clip}"),
        *("+optimizer.fused=true", f"run_dir={tmp_path}", "logger=csv"),
    )
    if possible:
        assert build_trainer(config).precision == precision
    else:
        with pytest.raises(ValueError, match=r"set optimizer\.fused=false"):
            build_trainer(config)
