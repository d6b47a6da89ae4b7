"""How checkpoints reach the disk: whole, or not at all."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import torch
from lightning_fabric.plugins import TorchCheckpointIO


class WholeCheckpointIO(TorchCheckpointIO):
    """Writes beside the old checkpoint and then takes its place, within one file system.

    A process that is killed, or a disk that is full, leaves the old one as it was; Lightning's own
    way goes through the system's temporary folder, from where it may have to be copied. What a
    killed process had written so far is overwritten by the next one.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None
    ) -> None:
        """Saves a checkpoint.

        Raises:
            ValueError: It cannot be written.
        """
        path = Path(path)
        temporary = path.with_name(f".{path.name}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(checkpoint, temporary)
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            last = path.with_name("last.ckpt")
            advice = f", then go on with ckpt_path={last}, which is whole" if last.exists() else ""
            raise ValueError(
                f"checkpoint {path} cannot be written ({error.strerror or error}): "
                f"make room or correct the permissions{advice}."
            ) from error


def _write(checkpoint: dict[str, Any], path: Path) -> None:
    """Writes a file and waits until a power failure cannot lose it; only then may it be renamed."""
    content = io.BytesIO()  # torch.save would hide why it cannot write to a file
    torch.save(checkpoint, content)
    with path.open("wb") as file:
        file.write(content.getbuffer())
        file.flush()
        os.fsync(file.fileno())
