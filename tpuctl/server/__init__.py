"""The HTTP front of the control plane."""

from tpuctl.server.serve import serve

__all__ = ["serve"]
