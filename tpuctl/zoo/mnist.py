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
import numpy as np
from keras import layers

from tpuctl.zoo import hosts, mnist_data, mnist_options, resume
from tpuctl.zoo.callback import JobMetrics, StepTimes


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
    hosts.join()
    devices, me, processes = jax.devices(), jax.process_index(), jax.process_count()
    talk = print if me == 0 else hosts.say_nothing
    where = os.environ.get("TPUCTL_SLICE", "this host") + (f", {processes} processes" if processes > 1 else "")
    talk(f"Found {len(devices)} x {devices[0].device_kind} at {where}:")
    talk("  " + "\n  ".join(hosts.some(devices)))

    digits = mnist_data.load(options.data)
    train, test = len(digits.train_labels), len(digits.test_labels)
    talk(f"Data: {digits.source}: {train:,} to train on, {test:,} to test")

    keras.utils.set_random_seed(0)
    keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))

    model = build_model()
    if me == 0:
        model.summary()
    model.compile(keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])

    is_sample = train <= mnist_data.SAMPLE_TRAIN
    usual = mnist_options.SAMPLE_BATCH_SIZE if is_sample else mnist_options.BATCH_SIZE
    batch_size = options.batch_size or mnist_data.shared_batch_size(usual, len(devices))
    mnist_data.check_batch_size(batch_size, len(devices))
    batches = mnist_data.batches(digits.train_images, digits.train_labels, batch_size, hosts.share(batch_size))
    if options.steps:
        model.fit(
            batches,
            steps_per_epoch=options.steps,
            shuffle=False,  # they come shuffled
            callbacks=[JobMetrics(), StepTimes()],
            verbose=2 if me == 0 else 0,
        )
        return

    chosen = mnist_data.test_choice(test, len(devices))
    mine = chosen[hosts.share(len(chosen))]
    if len(chosen) != test:
        talk(f"Testing with {len(chosen):,} of the {test:,} digits, as many as {len(devices)} cores share evenly")
    test_batch_size = mnist_data.even_batch_size(len(chosen), batch_size, len(devices))
    callbacks: list[keras.callbacks.Callback] = [JobMetrics()]
    steps = max(1, train // batch_size)
    checkpoints = resume.folder() if processes == 1 else None
    if checkpoints is not None:
        callbacks.append(resume.backup(checkpoints))
        if done := resume.epochs_done(checkpoints):
            talk(f"Going on after epoch {done}")
        for _ in range(done * steps):
            next(batches)
    history = model.fit(
        batches,
        steps_per_epoch=steps,
        shuffle=False,
        epochs=options.epochs,
        validation_data=(digits.test_images[mine], digits.test_labels[mine]),
        validation_batch_size=test_batch_size // processes,
        callbacks=callbacks,
        verbose=2 if me == 0 else 0,
    )
    trained = model if processes == 1 else of_this_process(model)
    if me == 0:
        report(trained, digits, history.history, batch_size, test_batch_size)


def of_this_process(model: keras.Model) -> keras.Model:
    """A copy of a model that several processes have, which this one can use alone. All of them take part."""
    weights = model.get_weights()
    keras.distribution.set_distribution(None)
    alone = build_model()
    alone.set_weights(weights)
    return alone


def report(
    model: keras.Model, digits: mnist_data.Digits, history: dict[str, list[float]], batch_size: int, test_size: int
) -> None:
    """Leave weights and pictures, and say how good the predictions are."""
    artifacts = Path(os.environ.get("TPUCTL_ARTIFACTS_DIR", "."))
    model.save_weights(artifacts / f"MNIST_TPU_{batch_size}.weights.h5")

    from tpuctl.zoo import mnist_pictures

    mnist_pictures.draw_curves(history, artifacts / "curves.png")
    count = len(digits.test_labels)
    padded = np.resize(digits.test_images, (-(-count // test_size) * test_size, *digits.test_images.shape[1:]))
    probabilities = model.predict(padded, batch_size=test_size, verbose=0)[:count]
    wrong = mnist_pictures.draw_predictions(digits, probabilities, artifacts / "predictions.png")
    print(f"Test accuracy {history['val_accuracy'][-1]:.2%}: {wrong} of {count:,} wrong")


if __name__ == "__main__":
    try:
        main()
    except mnist_data.DataError as error:
        sys.exit(f"mnist: {error}")
