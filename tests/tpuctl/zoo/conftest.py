"""Keras reads which backend to use when it is first imported."""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")
