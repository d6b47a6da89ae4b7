"""What `nmt.cli.translate --engine ctranslate2` does differently: the translator it opens."""

from __future__ import annotations

import argparse

from nmt.cli.translate_options import option_name
from nmt.export.engine import ExportedTranslator

_AVAILABLE = {
    *("checkpoint", "engine", "input", "output", "device", "threads"),
    "check_language",
    *("beam_size", "length_penalty", "num_hypotheses"),
    *("max_length", "max_length_ratio", "min_length", "max_source_length"),
    *("batch_tokens", "chunk_size", "first_line"),
}


def open_exported(
    options: argparse.Namespace, parser: argparse.ArgumentParser
) -> ExportedTranslator:
    """Loads the exported model that the options name.

    Args:
        options: Of the translate program.
        parser: That read them; an option that differs from its default was asked for.

    Raises:
        ValueError: An option was asked for that the engine lacks, or there is no such model.
    """
    for name, value in vars(options).items():
        if name not in _AVAILABLE and value != parser.get_default(name):
            raise ValueError(
                f"{option_name(name)} is not available with --engine ctranslate2: "
                "leave it out, or translate with the checkpoint and --engine torch."
            )
    return ExportedTranslator.from_folder(
        options.checkpoint, device=options.device, threads=options.threads or 0
    )
