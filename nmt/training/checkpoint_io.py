"""How checkpoints reach the disk: whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lightning_fabric.plugins import TorchCheckpointIO


class WholeCheckpointIO(TorchCheckpointIO):
    """Writes beside the old checkpoint and then takes its place, within one file system.

    A process that is killed, or a disk that is full, leaves the old one as it was; Lightning's own
    way goes through the system's temporary folder, from where it may have to be copied.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None
    ) -> None:
        """Saves a checkpoint.

        Raises:
            OSError: It cannot be written.
        """
        path = Path(path)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            super().save_checkpoint(checkpoint, temporary, storage_options)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
