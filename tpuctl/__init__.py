"""A Cloud TPU on your own machine: control plane and command line."""

__version__ = "0.1.0"
