"""tpuctl version: of tpuctl and of what it runs on."""

from __future__ import annotations

import sys

from tpuctl import __version__
from tpuctl.cli.options import Output
from tpuctl.cli.output import Format, show_data

PACKAGES = ("jax", "jaxlib", "keras", "numpy")


def version(output: Output = Format.TABLE) -> None:
    """Show the version; `-o wide`, `json` and `yaml` also show those of Python, JAX, Keras and NumPy."""
    if output in (Format.TABLE, Format.NAME):
        print_version()
        return
    python = ".".join(map(str, sys.version_info[:3]))
    versions = {"name": "tpuctl", "version": __version__, "python": python}
    versions |= {package: _installed(package) for package in PACKAGES}
    if output is Format.WIDE:
        print_version()
        for package in list(versions)[2:]:
            print(f"{package} {versions[package]}")
    else:
        show_data(versions, output)


def print_version() -> None:
    print(f"tpuctl {__version__}")


def _installed(package: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
