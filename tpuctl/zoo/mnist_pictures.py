"""The pictures of an MNIST training: its curves, and test digits with the wrong predictions first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt

from tpuctl.zoo.mnist_data import Digits

matplotlib.use("agg")

from matplotlib import pyplot as plt
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

INK, FAINT, GRID = "#1f2937", "#9ca3af", "#e5e7eb"
TRAINING, VALIDATION, WRONG = "#2563eb", "#f97316", "#dc2626"
COLUMNS, ROWS = 12, 5
LEGEND = "red: predicted, is true; the surest mistakes first"


def draw_curves(history: Mapping[str, Sequence[float]], path: Path) -> None:
    """Draw loss and accuracy by epoch, training and validation, from a Keras history."""
    curves_figure(history).savefig(path, dpi=150, facecolor="white")


def curves_figure(history: Mapping[str, Sequence[float]]) -> Figure:
    """The figure of ``draw_curves``; each curve is labelled at its end, off the axes' own labels."""
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1, wspace=0.06)
    figure = Figure(figsize=(11, 4.2), layout=layout)
    axes = figure.subplots(1, 2)
    epochs = range(1, len(history["loss"]) + 1)
    for axis, name in zip(axes, ("loss", "accuracy"), strict=True):
        lines = {"training": (history[name], TRAINING), "validation": (history[f"val_{name}"], VALIDATION)}
        upper = max(lines, key=lambda label: lines[label][0][-1])
        for label, (values, colour) in lines.items():
            axis.plot(epochs, values, color=colour, linewidth=2, marker="o", markersize=4)
            axis.annotate(
                f"{label} {values[-1]:.3f}",
                (epochs[-1], values[-1]),
                (8, 0),
                textcoords="offset points",
                color=colour,
                va="bottom" if label == upper else "top",
                annotation_clip=False,
            )
        axis.set_title(name.capitalize(), loc="left", color=INK, fontweight="bold")
        axis.set_xlabel("epoch", color=FAINT)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.margins(y=0.12)  # keeps the end labels off the axis
        axis.grid(axis="y", color=GRID)
        axis.tick_params(colors=FAINT, length=0)
        axis.spines[:].set_visible(False)
    return figure


def draw_predictions(digits: Digits, probabilities: npt.NDArray[Any], path: Path) -> int:
    """Draw a grid of test digits, the wrong predictions first and in red; return how many are wrong.

    ``probabilities`` is (n, 10). Among the wrong ones, those the network was surest of come first.
    """
    predicted = probabilities.argmax(axis=1)
    wrong = predicted != digits.test_labels
    order = np.lexsort((-probabilities.max(axis=1), ~wrong))
    figure, axes = plt.subplots(ROWS, COLUMNS, figsize=(COLUMNS, ROWS * 1.35 + 0.9))
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.01, top=0.83, wspace=0.1, hspace=0.35)
    for axis in axes.flat:
        axis.axis("off")
    for axis, index in zip(axes.flat, order, strict=False):
        ink = LinearSegmentedColormap.from_list("ink", ["white", WRONG if wrong[index] else "black"])
        axis.imshow(digits.test_images[index, :, :, 0], cmap=ink, vmin=0, vmax=1)
        if wrong[index]:
            axis.set_title(
                f"{predicted[index]}, is {digits.test_labels[index]}", color=WRONG, fontsize=11, weight="bold"
            )
        else:
            axis.set_title(str(predicted[index]), color=INK, fontsize=11)
    count = int(wrong.sum())
    figure.text(0.012, 0.965, f"{count:,} wrong of {len(predicted):,} test digits", va="top", color=INK, weight="bold")
    figure.text(0.012, 0.928, LEGEND, va="top", color=FAINT)
    figure.savefig(path, dpi=120, facecolor="white")
    plt.close(figure)
    return count
