"""Trains one model and writes its run folder; the program behind `train.py` and `nmt-train`."""

import logging
import warnings
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from nmt.checks import UserError
from nmt.config import check_config, hydra_main
from nmt.training.run_folder import checkpoint_to_resume, run_directory, sole_use

logger = logging.getLogger(__name__)
OmegaConf.register_new_resolver("run_directory", run_directory, replace=True, use_cache=True)


@hydra_main("train")
def main(config: DictConfig) -> None:
    """Checks the options, prepares the data, trains, and evaluates the best checkpoint."""
    check_config(config)
    config.run_dir = str(Path(config.run_dir).resolve())  # Lightning follows the links of its paths
    resume_from = checkpoint_to_resume(config.ckpt_path, config.run_dir)
    logger.info("Training %s; its folder is %s.", config.model_name, config.run_dir)
    # Imported only now: it takes seconds, and a typing error should not have to wait for it.
    import pytorch_lightning as pl
    import torch
    from hydra.utils import instantiate

    from nmt.checkpoint import read_checkpoint
    from nmt.cli.evaluate import write_results
    from nmt.training.callbacks import end_with_parent
    from nmt.training.machine import threads_of_run
    from nmt.training.run import build_module, build_trainer, fit

    _quieten()
    config.threads = threads_of_run(config)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    pl.seed_everything(config.seed, workers=True, verbose=False)
    if config.init_from is not None:
        read_checkpoint(config.init_from)  # before any work: is it one?
    trainer = build_trainer(config)  # before the data: it refuses what it cannot do
    end_with_parent(trainer)
    if not trainer.is_global_zero:
        logging.disable(logging.INFO)  # one process says it
    if HydraConfig.get().mode == RunMode.MULTIRUN and trainer.world_size > 1:
        raise UserError(
            f"-m on {trainer.world_size} devices would start the sweep again in each process: "
            "set trainer.devices=1, or start one run after the other without -m."
        )
    with sole_use(config.run_dir, resume_from, leader=trainer.is_global_zero):
        data = instantiate(config.data)
        data.prepare_data()
        module = build_module(config, data)
        best = fit(config, data, module, trainer)
        if trainer.is_global_zero:
            write_results(config, data, module, best)


def _quieten() -> None:
    """Leaves out what Lightning says on every run and nobody can act on."""
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    for message in (
        "`isinstance.treespec, LeafSpec.` is deprecated",
        "(Checkpoint|Experiment logs) directory .* exists and is not empty",
        "The '.*' does not have many workers",
    ):
        warnings.filterwarnings("ignore", message=message)
