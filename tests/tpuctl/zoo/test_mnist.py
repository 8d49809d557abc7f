"""The MNIST script from end to end, on eight forced CPU devices and a handful of digits."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from tpuctl.zoo import mnist_data, mnist_options, mnist_pictures
from tpuctl.zoo.catalogue import MODELS

EIGHT_DEVICES = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
    "KERAS_BACKEND": "jax",
}


def run_mnist(folder, *arguments):
    environment = (
        os.environ | EIGHT_DEVICES | {"TPUCTL_HOME": str(folder), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    )
    environment |= {"TPUCTL_METRICS_FILE": str(folder / "metrics.jsonl"), "TPUCTL_ARTIFACTS_DIR": str(folder)}
    command = [sys.executable, "-m", MODELS["mnist"].module, *arguments]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=110, check=False
    )


@pytest.fixture
def few_digits(tmp_path):
    digits = mnist_data.read_sample("a test")
    pixels = [
        np.uint8(images[:count, :, :, 0] * 255)
        for images, count in ((digits.train_images, 64), (digits.test_images, 16))
    ]
    folder = tmp_path / "data"
    folder.mkdir()
    np.savez(
        folder / "mnist.npz",
        x_train=pixels[0],
        y_train=digits.train_labels[:64],
        x_test=pixels[1],
        y_test=digits.test_labels[:16],
    )
    return folder


@pytest.mark.slow
def test_it_trains_and_leaves_weights_curves_predictions_and_metrics(tmp_path, few_digits):
    result = run_mnist(tmp_path, "--data", str(few_digits), "--epochs", "2", "--batch-size", "32")
    assert result.returncode == 0, result.stderr
    assert "Found 8 x cpu" in result.stdout
    assert "64 to train on, 16 to test" in result.stdout
    assert "1,199,882" in result.stdout
    assert {"MNIST_TPU_32.weights.h5", "curves.png", "predictions.png"} <= {path.name for path in tmp_path.iterdir()}
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert {"epoch": 2, "epochs": 2, "step": 2, "steps": 2}.items() <= rows[-1].items()
    assert {"loss", "accuracy", "val_loss", "val_accuracy", "time"} <= rows[-1].keys()


@pytest.mark.slow
def test_a_corrupt_file_is_two_lines_and_exit_1(tmp_path, few_digits):
    (few_digits / "mnist.npz").write_bytes(b"not a zip")
    result = run_mnist(tmp_path, "--data", str(few_digits))
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-2].startswith("mnist: ")


def test_the_catalogue_knows_the_script_s_options():
    assert set(re.findall(r"--[a-z-]+", mnist_options.parser().format_help())) == set(MODELS["mnist"].options)


def test_the_options_are_read_without_importing_anything_heavy():
    code = "import sys; from tpuctl.zoo import mnist_options; mnist_options.parser(); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20)
    assert not {"jax", "keras", "numpy", "httpx"} & set(result.stdout.split())


def test_wrong_predictions_come_first_and_are_counted(tmp_path):
    digits = mnist_data.read_sample("a test")
    digits = digits._replace(test_images=digits.test_images[:100], test_labels=digits.test_labels[:100])
    probabilities = np.eye(10)[digits.test_labels] * 0.9
    probabilities[50] = np.roll(probabilities[50], 1)
    assert mnist_pictures.draw_predictions(digits, probabilities, tmp_path / "predictions.png") == 1
    with Image.open(tmp_path / "predictions.png") as image:
        picture = np.asarray(image.convert("RGB")).astype(int)
    red = (picture[..., 0] - picture[..., 1] > 100).nonzero()
    assert len(red[0]) > 0
    assert red[1].max() < picture.shape[1] / mnist_pictures.COLUMNS
    assert red[0].max() < picture.shape[0] / 3


def test_curves_are_drawn_from_a_history(tmp_path):
    history = {name: [1.0, 0.5] for name in ("loss", "val_loss", "accuracy", "val_accuracy")}
    mnist_pictures.draw_curves(history, tmp_path / "curves.png")
    with Image.open(tmp_path / "curves.png") as image:
        assert image.size[0] > 1000


def test_the_labels_at_the_curves_ends_touch_no_other(tmp_path):
    losses, accuracies = [0.6, 0.2, 0.01], [0.8, 0.9, 0.999]
    history = {"loss": losses, "val_loss": losses, "accuracy": accuracies, "val_accuracy": accuracies}
    figure = mnist_pictures.curves_figure(history)
    figure.canvas.draw()
    ends = [text.get_window_extent() for axis in figure.axes for text in axis.texts]
    ticks = [text for axis in figure.axes for text in (*axis.get_xticklabels(), *axis.get_yticklabels())]
    others = [text.get_window_extent().padded(4) for text in ticks if text.get_text()]
    others += [axis.xaxis.label.get_window_extent() for axis in figure.axes]
    assert len(ends) == 4
    assert not [(end, other) for end in ends for other in others if end.overlaps(other)]


def test_the_predictions_have_a_legend_with_space_below_it(tmp_path, monkeypatch):
    drawn = []
    digits = mnist_data.read_sample("a test")
    with monkeypatch.context() as patch:
        patch.setattr(mnist_pictures.plt, "close", drawn.append)
        mnist_pictures.draw_predictions(digits, np.eye(10)[(digits.test_labels + 1) % 10], tmp_path / "predictions.png")
    [figure] = drawn
    title, legend = figure.texts
    row = figure.axes[0].title.get_window_extent()
    mnist_pictures.plt.close(figure)
    assert "predicted, is true" in legend.get_text()
    assert title.get_window_extent().y0 > legend.get_window_extent().y1
    assert legend.get_window_extent().y0 - row.y1 > row.height
