"""Reference models: ordinary training scripts, written as for a real TPU, run by ``tpuctl run job NAME``."""
