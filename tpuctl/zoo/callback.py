"""The Keras callback that reports a training to its job."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import pairwise
from statistics import median
from typing import Any

import keras

from tpuctl import metrics

Logs = Mapping[str, Any] | None


class JobMetrics(keras.callbacks.Callback):  # type: ignore[misc]
    """Logs single batches, at most one in ``every_seconds``, and every epoch as Keras sums it up.

    An epoch's own row is that of its last step: it has the epoch's means, and val_* of the test that follows.
    """

    def __init__(self, every_seconds: float = 0.2) -> None:
        super().__init__()
        self.every_seconds = every_seconds
        self.epoch = 0
        self.logged_at = 0.0
        self.earlier: tuple[int, Logs] = (0, None)

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self.epoch = epoch + 1
        self.earlier = (0, None)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        now, step, earlier = time.monotonic(), batch + 1, self.earlier
        self.earlier = (step, logs)
        if now - self.logged_at >= self.every_seconds and step != self.params["steps"]:
            self.logged_at = now
            self._log(step, batch_values(step, logs or {}, *earlier))

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._log(self.params["steps"], logs or {})

    def _log(self, step: int, values: Mapping[str, Any]) -> None:
        position = {"epoch": self.epoch, "epochs": self.params["epochs"], "step": step, "steps": self.params["steps"]}
        metrics.log(**position, **values)


class StepTimes(keras.callbacks.Callback):  # type: ignore[misc]
    """Logs the median time of a step: ``host_step_seconds``, measured, and ``device_step_seconds``, simulated.

    The first step is left out: it includes compilation.
    """

    def __init__(self) -> None:
        super().__init__()
        self.marks: list[tuple[float, float | None]] = []

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.marks.append((time.monotonic(), metrics.device_seconds()))

    def on_train_end(self, logs: Logs = None) -> None:
        steps = list(pairwise(self.marks))
        if not steps:
            return
        metrics.log(host_step_seconds=median(later[0] - earlier[0] for earlier, later in steps))
        device = [later[1] - earlier[1] for earlier, later in steps if later[1] is not None and earlier[1] is not None]
        if device:
            metrics.log(device_step_seconds=median(device))


def batch_values(step: int, means: Mapping[str, Any], earlier_step: int, earlier_means: Logs) -> dict[str, float]:
    """What the batches after ``earlier_step``, up to ``step``, have added to Keras' means since the epoch began.

    The batches are of one size: each mean is the sum of the batches' values over their count.
    """
    before = earlier_means or {}
    return {
        name: (float(mean) * step - float(before.get(name, 0.0)) * earlier_step) / (step - earlier_step)
        for name, mean in means.items()
    }
