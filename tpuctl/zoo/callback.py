"""The Keras callback that reports a training to its job."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import keras

from tpuctl import metrics

Logs = Mapping[str, Any] | None


class JobMetrics(keras.callbacks.Callback):  # type: ignore[misc]
    """Logs every epoch, and its batches at most once in ``every_seconds``: reading a loss waits for the device."""

    def __init__(self, every_seconds: float = 0.2) -> None:
        super().__init__()
        self.every_seconds = every_seconds
        self.epoch = 0
        self.logged_at = 0.0

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self.epoch = epoch + 1

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        now = time.monotonic()
        if now - self.logged_at >= self.every_seconds:
            self.logged_at = now
            self._log(batch + 1, logs)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._log(self.params["steps"], logs)

    def _log(self, step: int, logs: Logs) -> None:
        position = {"epoch": self.epoch, "epochs": self.params["epochs"], "step": step, "steps": self.params["steps"]}
        metrics.log(**position, **(logs or {}))
