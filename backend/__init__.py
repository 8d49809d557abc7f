"""Emulated TPU hardware: chips, torus, compiler, runtime and driver. Knows nothing of the cloud."""
