"""How does a Keras training go on after its job was preempted? From its last whole epoch, with the batches after it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import keras

FOLDER = "TPUCTL_CHECKPOINT_DIR"


def folder() -> Path | None:
    """Where the job keeps its checkpoints; None if it keeps none."""
    chosen = os.environ.get(FOLDER)
    return None if chosen is None else Path(chosen) / "keras"


def epochs_done(checkpoints: Path) -> int:
    """How many epochs a backup there has behind it."""
    try:
        said = json.loads((checkpoints / "training_metadata.json").read_text())
        return int(said["epoch"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def backup(checkpoints: Path) -> keras.callbacks.Callback:
    """Backs up every epoch, and keeps the backup before it: one that is being written may be cut off."""
    return keras.callbacks.BackupAndRestore(str(checkpoints), double_checkpoint=True)
