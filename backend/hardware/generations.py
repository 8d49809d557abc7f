"""What is a chip of each generation? One row a generation; every cell has a source.

Sources
    [tpu_info]  jax-ml/jax, jax/_src/tpu_info.py, 2026-08 (per-core figures)
    [announce]  Google, "Cloud TPU Pods in public beta": 8 GB (v2) and 16 GB (v3) of HBM a core
    [v2-docs]   cloud.google.com/tpu/docs/system-architecture: ICI of v2, 496 Gbit/s a link
    [scaling]   jax-ml/scaling-book, tpus.md: HBM bandwidth, ICI GB/s a link and way, hop latency of about 1 us
    [measured]  libtpu compiler's out-of-memory messages: bytes reserved by the system
"""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30
MIB = 1 << 20


@dataclass(frozen=True)
class Generation:
    """Specification of one chip generation. Rates are peaks, in the unit each name ends with."""

    name: str
    device_kind: str
    cores_per_chip: int
    mxus_per_core: int
    mxu_dim: int
    clock_hz: float
    bf16_flops_per_core: float
    vector_flops_per_core: float
    hbm_bytes_per_core: int
    hbm_reserved_bytes_per_core: int
    hbm_bytes_per_second_per_core: float
    vmem_bytes_per_core: int
    ici_links_per_chip: int
    ici_bytes_per_second_per_link: float
    ici_hop_seconds: float
    launch_seconds: float

    @property
    def hbm_available_bytes(self) -> int:
        """HBM of one core that programs and buffers may use, in bytes."""
        return self.hbm_bytes_per_core - self.hbm_reserved_bytes_per_core


GENERATIONS: dict[str, Generation] = {
    row.name: row
    for row in (
        Generation(
            name="v2",
            device_kind="TPU v2",  # [tpu_info]
            cores_per_chip=2,  # [tpu_info]
            mxus_per_core=1,  # [tpu_info]
            mxu_dim=128,  # [tpu_info]
            clock_hz=700e6,  # bf16 peak / (2 * 128 * 128 * MXUs)
            bf16_flops_per_core=23e12,  # [tpu_info] 46 TFLOP/s a chip
            vector_flops_per_core=8 * 128 * 2 * 700e6,  # 8 sublanes x 128 lanes x 2 issue slots x clock
            hbm_bytes_per_core=8 * GIB,  # [announce]
            hbm_reserved_bytes_per_core=532 * MIB,  # [measured] 7.48 GiB available
            hbm_bytes_per_second_per_core=716e9 / 2,  # [tpu_info]
            vmem_bytes_per_core=16 * MIB,  # [tpu_info]
            ici_links_per_chip=4,  # [v2-docs]
            ici_bytes_per_second_per_link=62e9,  # [v2-docs]
            ici_hop_seconds=1e-6,  # [scaling]
            launch_seconds=5e-6,  # [scaling] a few microseconds of dispatch
        ),
        Generation(
            name="v3",
            device_kind="TPU v3",  # [tpu_info]
            cores_per_chip=2,  # [tpu_info]
            mxus_per_core=2,  # [tpu_info]
            mxu_dim=128,  # [tpu_info]
            clock_hz=940e6,  # bf16 peak / (2 * 128 * 128 * MXUs), rounded to the published 940 MHz
            bf16_flops_per_core=61.5e12,  # 123 TFLOP/s a chip (system architecture page); [tpu_info] says 140
            vector_flops_per_core=8 * 128 * 2 * 940e6,  # 8 sublanes x 128 lanes x 2 issue slots x clock
            hbm_bytes_per_core=16 * GIB,  # [announce]
            hbm_reserved_bytes_per_core=530 * MIB,  # [measured] 528 to 530 MiB
            hbm_bytes_per_second_per_core=900e9 / 2,  # [scaling]
            vmem_bytes_per_core=16 * MIB,  # [tpu_info]
            ici_links_per_chip=4,  # [scaling]
            ici_bytes_per_second_per_link=100e9,  # [scaling]
            ici_hop_seconds=1e-6,  # [scaling]
            launch_seconds=5e-6,  # [scaling] a few microseconds of dispatch
        ),
    )
}


def generation(name: str) -> Generation:
    """The generation called ``name`` ("v3"). Raises KeyError for a name not in GENERATIONS."""
    return GENERATIONS[name]
