"""MNIST on a TPU: a convolutional network, trained on all cores at once.

tpuctl run job mnist --epochs 10
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax
import keras
from keras import layers

from tpuctl.zoo import mnist_data, mnist_options
from tpuctl.zoo.callback import JobMetrics


def build_model() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Rescaling(1 / 0.3081, -0.1307 / 0.3081),  # the digits' mean and spread
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ],
        name="mnist",
    )


def main() -> None:
    options = mnist_options.parser().parse_args()
    devices = jax.devices()
    print(f"Found {len(devices)} x {devices[0].device_kind} at {os.environ.get('TPUCTL_SLICE', 'this host')}:")
    print("  " + "\n  ".join(map(repr, devices)))

    digits = mnist_data.load(options.data)
    print(f"Data: {digits.source}: {len(digits.train_labels):,} to train on, {len(digits.test_labels):,} to test")

    keras.utils.set_random_seed(0)
    keras.distribution.set_distribution(keras.distribution.DataParallel())

    model = build_model()
    model.summary()
    model.compile(keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])

    is_sample = len(digits.train_labels) <= mnist_data.SAMPLE_TRAIN
    batch_size = options.batch_size or (mnist_options.SAMPLE_BATCH_SIZE if is_sample else mnist_options.BATCH_SIZE)
    mnist_data.check_batch_size(batch_size, len(digits.train_labels), len(devices))
    test_batch_size = mnist_data.even_batch_size(len(digits.test_labels), batch_size, len(devices))
    history = model.fit(
        mnist_data.batches(digits.train_images, digits.train_labels, batch_size),
        steps_per_epoch=len(digits.train_labels) // batch_size,
        shuffle=False,  # they come shuffled
        epochs=options.epochs,
        validation_data=(digits.test_images, digits.test_labels),
        validation_batch_size=test_batch_size,
        callbacks=[JobMetrics()],
        verbose=2,
    )

    artifacts = Path(os.environ.get("TPUCTL_ARTIFACTS_DIR", "."))
    model.save_weights(artifacts / f"MNIST_TPU_{batch_size}.weights.h5")

    from tpuctl.zoo import mnist_pictures

    probabilities = model.predict(digits.test_images, batch_size=test_batch_size, verbose=0)
    wrong = mnist_pictures.draw_predictions(digits, probabilities, artifacts / "predictions.png")
    mnist_pictures.draw_curves(history.history, artifacts / "curves.png")
    print(f"Test accuracy {history.history['val_accuracy'][-1]:.2%}: {wrong} of {len(digits.test_labels):,} wrong")


if __name__ == "__main__":
    try:
        main()
    except mnist_data.DataError as error:
        sys.exit(f"mnist: {error}")
