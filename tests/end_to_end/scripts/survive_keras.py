"""Train for eight epochs of five steps with BackupAndRestore, which saves every epoch; leave after one when told to."""

import os
import signal
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

from tpuctl import metrics

EPOCHS, STEPS, BATCH = 8, 5, 64


class Told(keras.callbacks.Callback):
    """Tells of every step; Keras gives the mean of an epoch's losses so far."""

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch + 1

    def on_train_batch_end(self, batch, logs=None):
        print((self.epoch - 1) * STEPS + batch + 1, float(logs["loss"]).hex(), flush=True)
        metrics.log(epoch=self.epoch, epochs=EPOCHS, step=batch + 1, steps=STEPS, loss=logs["loss"])


class Leave(keras.callbacks.Callback):
    """Ends the training at the end of an epoch once SIGTERM has come: BackupAndRestore does not write atomically."""

    def __init__(self):
        super().__init__()
        self.told = False
        signal.signal(signal.SIGTERM, self.tell)

    def tell(self, *_):
        self.told = True

    def on_epoch_end(self, epoch, logs=None):
        if self.told:
            sys.exit(1)


keras.utils.set_random_seed(0)
keras.distribution.set_distribution(keras.distribution.DataParallel())
random = np.random.default_rng(0)
inputs = random.standard_normal((BATCH * STEPS, 16), np.float32)
labels = (inputs.sum(axis=1) > 0).astype(np.float32)
model = keras.Sequential(
    [keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile(keras.optimizers.Adam(1e-2), "binary_crossentropy")
backup = keras.callbacks.BackupAndRestore(os.environ["TPUCTL_CHECKPOINT_DIR"], delete_checkpoint=False)
model.fit(
    inputs, labels, batch_size=BATCH, epochs=EPOCHS, shuffle=False, callbacks=[Told(), backup, Leave()], verbose=0
)
