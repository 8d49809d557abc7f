"""The cores: kernels of every operation and the lockstep engine."""
