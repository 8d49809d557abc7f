"""What is a chip of each generation? One row a generation; every cell has a source.

Figures are a chip's, as they are published; a device (what JAX sees) is one TensorCore on v2, v3 and 7x, and the whole
chip elsewhere: v4 and v5p join their two TensorCores ("megacore"), v5e and v6e have one.

Sources
    [tpu_info]   jax-ml/jax, jax/_src/tpu_info.py, 2026-08 (per TensorCore there)
    [kinds]      jax-ml/jax, jax/_src/mesh_utils.py and tpu_info.py: device kinds
    [announce]   Google, "Cloud TPU Pods in public beta": 8 GB (v2) and 16 GB (v3) of HBM a core
    [v2] [v3] [v4] [v5e] [v5p] [v6e] [7x]  docs.cloud.google.com/tpu/docs, the generation's page, 2026-08
    [scaling]    jax-ml/scaling-book, tpus.md, 2026-08: HBM bandwidth, ICI bytes/s a link and way, hop latency, DCN
    [limit]      bytes_limit that jax's Device.memory_stats() shows: v4 33014415360 (jax issue 1491), v5e 16909332480
                 (training logs), v6e 33550237696 (vllm pull request 16211)
    [oom]        the TPU compiler's out-of-memory messages: "of 7.48G hbm" (v2), 530 MiB reserved (v3), "of 95.74G hbm"
                 (v5p), "of 94.75G hbm" (7x)

Where sources disagree
    v3 peak: 123 TFLOP/s a chip [v3], 140 [tpu_info]. The former is what Cloud TPU's page says and fits 940 MHz.
    HBM bandwidth: v3 900 [scaling], 825 [tpu_info]; v4 1200 [v4] [scaling], 1230 [tpu_info]; v5e 819 [v5e], 810
    [scaling]; v5p 2765 [v5p], 2460 [tpu_info], 2800 [scaling]; v6e 1638 [v6e], 1600 [scaling]; 7x 7380 [7x]. Cloud
    TPU's own page where it has a figure.
    ICI: Cloud TPU's pages give bidirectional GB/s a chip, 2 x links x the figure here: v5e 400, v5p 1200, v6e 800,
    7x 1200. [scaling] counts 10% less for v5e, v5p and v6e. Cloud TPU's own pod figures (v5e: all-reduce 51.2 TB/s,
    bisection 1.6 TB/s; v6e: twice that) follow from the former exactly. v4: 45 [scaling], from which all-reduce
    1.1 PB/s follows [v4]; bisection would be 23 TB/s, and 24 is published.
    Clock of v6e and 7x: not published. That of v5p is taken, for the vector unit's rate.
"""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30
MIB = 1 << 20


@dataclass(frozen=True)
class Generation:
    """Specification of one chip generation. Rates are peaks, in the unit each name ends with.

    ``name_prefix`` begins the names of its accelerator types, and ``names_count`` is what their number counts.
    ``pod_shape`` is the full pod in chips; ``max_chips`` the largest slice.
    """

    name: str
    name_prefix: str
    names_count: str
    device_kind: str
    cores_per_chip: int
    devices_per_chip: int
    mxus_per_core: int
    mxu_dim: int
    clock_hz: float
    bf16_flops_per_chip: float
    vector_flops_per_chip: float
    hbm_bytes_per_chip: int
    hbm_reserved_bytes_per_device: int
    hbm_bytes_per_second_per_chip: float
    vmem_bytes_per_core: int
    pod_shape: tuple[int, ...]
    max_chips: int
    ici_links_per_chip: int
    ici_bytes_per_second_per_link: float
    ici_hop_seconds: float
    dcn_bytes_per_second_per_chip: float
    launch_seconds: float

    @property
    def bf16_flops_per_device(self) -> float:
        """Peak of the matrix units of one device, in multiply and add operations a second."""
        return self.bf16_flops_per_chip / self.devices_per_chip

    @property
    def vector_flops_per_device(self) -> float:
        return self.vector_flops_per_chip / self.devices_per_chip

    @property
    def hbm_bytes_per_device(self) -> int:
        return self.hbm_bytes_per_chip // self.devices_per_chip

    @property
    def hbm_available_bytes(self) -> int:
        """HBM of one device that programs and buffers may use, in bytes."""
        return self.hbm_bytes_per_device - self.hbm_reserved_bytes_per_device

    @property
    def hbm_bytes_per_second_per_device(self) -> float:
        return self.hbm_bytes_per_second_per_chip / self.devices_per_chip

    @property
    def vmem_bytes_per_device(self) -> int:
        return self.vmem_bytes_per_core * self.cores_per_chip // self.devices_per_chip


GENERATIONS: dict[str, Generation] = {
    row.name: row
    for row in (
        Generation(
            name="v2",
            name_prefix="v2",  # [v2]
            names_count="cores",  # [v2]
            device_kind="TPU v2",  # [kinds]
            cores_per_chip=2,  # [tpu_info]
            devices_per_chip=2,  # [tpu_info] no megacore
            mxus_per_core=1,  # [tpu_info]
            mxu_dim=128,  # [tpu_info]
            clock_hz=700e6,  # bf16 peak / (2 * 128 * 128 * MXUs)
            bf16_flops_per_chip=46e12,  # [tpu_info]
            vector_flops_per_chip=2 * 8 * 128 * 2 * 700e6,  # cores x sublanes x lanes x 2 issue slots x clock
            hbm_bytes_per_chip=16 * GIB,  # [announce]
            hbm_reserved_bytes_per_device=532 * MIB,  # [oom]
            hbm_bytes_per_second_per_chip=716e9,  # [tpu_info]
            vmem_bytes_per_core=16 * MIB,  # [tpu_info]
            pod_shape=(16, 16),  # [v2] 256 chips
            max_chips=256,  # [v2] v2-512
            ici_links_per_chip=4,  # [v2]
            ici_bytes_per_second_per_link=62e9,  # [v2] 496 Gbit/s
            ici_hop_seconds=1e-6,  # [scaling]
            dcn_bytes_per_second_per_chip=6.25e9,  # [scaling] 25 GB/s a host
            launch_seconds=5e-6,  # [scaling] a few microseconds of dispatch
        ),
        Generation(
            name="v3",
            name_prefix="v3",  # [v3]
            names_count="cores",  # [v3]
            device_kind="TPU v3",  # [kinds]
            cores_per_chip=2,  # [tpu_info]
            devices_per_chip=2,  # [tpu_info] no megacore
            mxus_per_core=2,  # [tpu_info]
            mxu_dim=128,  # [tpu_info]
            clock_hz=940e6,  # bf16 peak / (2 * 128 * 128 * MXUs), rounded to the published 940 MHz
            bf16_flops_per_chip=123e12,  # [v3]
            vector_flops_per_chip=2 * 8 * 128 * 2 * 940e6,  # cores x sublanes x lanes x 2 issue slots x clock
            hbm_bytes_per_chip=32 * GIB,  # [announce]
            hbm_reserved_bytes_per_device=530 * MIB,  # [oom] 528 to 530 MiB
            hbm_bytes_per_second_per_chip=900e9,  # [scaling]
            vmem_bytes_per_core=16 * MIB,  # [tpu_info]
            pod_shape=(32, 32),  # [scaling] 1024 chips
            max_chips=1024,  # [v3] v3-2048
            ici_links_per_chip=4,  # [scaling]
            ici_bytes_per_second_per_link=100e9,  # [scaling]
            ici_hop_seconds=1e-6,  # [scaling]
            dcn_bytes_per_second_per_chip=6.25e9,  # [scaling] 25 GB/s a host
            launch_seconds=5e-6,  # [scaling] a few microseconds of dispatch
        ),
        Generation(
            name="v4",
            name_prefix="v4",  # [v4]
            names_count="cores",  # [v4]
            device_kind="TPU v4",  # [kinds]
            cores_per_chip=2,  # [v4]
            devices_per_chip=1,  # [tpu_info] megacore
            mxus_per_core=4,  # [v4]
            mxu_dim=128,  # [tpu_info]
            clock_hz=1050e6,  # bf16 peak / (2 cores * 2 * 128 * 128 * 4 MXUs)
            bf16_flops_per_chip=275e12,  # [v4]
            vector_flops_per_chip=2 * 8 * 128 * 2 * 1050e6,  # cores x sublanes x lanes x 2 issue slots x clock
            hbm_bytes_per_chip=32 * GIB,  # [v4]
            hbm_reserved_bytes_per_device=32 * GIB - 33014415360,  # [limit]
            hbm_bytes_per_second_per_chip=1200e9,  # [v4]
            vmem_bytes_per_core=16 * MIB,  # [tpu_info]
            pod_shape=(16, 16, 16),  # [scaling] 4096 chips
            max_chips=4096,  # [v4]
            ici_links_per_chip=6,  # [v4] 3D
            ici_bytes_per_second_per_link=45e9,  # [scaling]
            ici_hop_seconds=1e-6,  # [scaling]
            dcn_bytes_per_second_per_chip=6.25e9,  # [scaling] 25 GB/s a host
            launch_seconds=5e-6,  # [scaling] a few microseconds of dispatch
        ),
        Generation(
            name="v5e",
            name_prefix="v5litepod",  # [v5e]
            names_count="chips",  # [v5e]
            device_kind="TPU v5 lite",  # [kinds]
            cores_per_chip=1,  # [v5e]
            devices_per_chip=1,  # [v5e]
            mxus_per_core=4,  # [v5e]
            mxu_dim=128,  # [tpu_info]
            clock_hz=1500e6,  # [scaling]
            bf16_flops_per_chip=197e12,  # [v5e]
            vector_flops_per_chip=8 * 128 * 4 * 1500e6,  # [scaling] sublanes x lanes x 4 ALUs x clock
            hbm_bytes_per_chip=16 * GIB,  # [v5e]
            hbm_reserved_bytes_per_device=16 * GIB - 16909332480,  # [limit]
            hbm_bytes_per_second_per_chip=819e9,  # [v5e]
            vmem_bytes_per_core=128 * MIB,  # [tpu_info]
            pod_shape=(16, 16),  # [v5e] 256 chips
            max_chips=256,  # [v5e]
            ici_links_per_chip=4,  # [v5e]
            ici_bytes_per_second_per_link=50e9,  # [v5e] 400 GB/s both ways
            ici_hop_seconds=1e-6,  # [scaling]
            dcn_bytes_per_second_per_chip=3.125e9,  # [v5e] 6.4 Tbit/s a pod
            launch_seconds=5e-6,  # [scaling] a few microseconds of dispatch
        ),
        Generation(
            name="v5p",
            name_prefix="v5p",  # [v5p]
            names_count="cores",  # [v5p]
            device_kind="TPU v5p",  # [kinds]
            cores_per_chip=2,  # [v5p]
            devices_per_chip=1,  # [tpu_info] megacore
            mxus_per_core=4,  # [v5p]
            mxu_dim=128,  # [tpu_info]
            clock_hz=1750e6,  # bf16 peak / (2 cores * 2 * 128 * 128 * 4 MXUs)
            bf16_flops_per_chip=459e12,  # [v5p]
            vector_flops_per_chip=2 * 8 * 128 * 4 * 1750e6,  # [scaling] cores x sublanes x lanes x 4 ALUs x clock
            hbm_bytes_per_chip=96 * GIB,  # [v5p] physical; 95 GiB are listed
            hbm_reserved_bytes_per_device=266 * MIB,  # [oom]
            hbm_bytes_per_second_per_chip=2765e9,  # [v5p]
            vmem_bytes_per_core=64 * MIB,  # [tpu_info]
            pod_shape=(16, 20, 28),  # [scaling] 8960 chips
            max_chips=8960,  # xpk, system_characteristics.py: 140 cubes; [v5p] schedules jobs of up to 96
            ici_links_per_chip=6,  # [v5p] 3D
            ici_bytes_per_second_per_link=100e9,  # [v5p] 1200 GB/s both ways
            ici_hop_seconds=1e-6,  # [scaling]
            dcn_bytes_per_second_per_chip=6.25e9,  # [v5p] 50 Gbit/s
            launch_seconds=5e-6,  # [scaling] a few microseconds of dispatch
        ),
        Generation(
            name="v6e",
            name_prefix="v6e",  # [v6e]
            names_count="chips",  # [v6e]
            device_kind="TPU v6 lite",  # [kinds]
            cores_per_chip=1,  # [v6e]
            devices_per_chip=1,  # [v6e]
            mxus_per_core=2,  # [v6e]
            mxu_dim=256,  # [scaling]
            clock_hz=1750e6,  # not published: v5p's
            bf16_flops_per_chip=918e12,  # [v6e]
            vector_flops_per_chip=8 * 128 * 4 * 1750e6,  # [scaling] sublanes x lanes x 4 ALUs x clock
            hbm_bytes_per_chip=32 * GIB,  # [v6e]
            hbm_reserved_bytes_per_device=32 * GIB - 33550237696,  # [limit]
            hbm_bytes_per_second_per_chip=1638e9,  # [v6e]
            vmem_bytes_per_core=128 * MIB,  # [tpu_info]
            pod_shape=(16, 16),  # [v6e] 256 chips
            max_chips=256,  # [v6e]
            ici_links_per_chip=4,  # [v6e]
            ici_bytes_per_second_per_link=100e9,  # [v6e] 800 GB/s both ways
            ici_hop_seconds=1e-6,  # [scaling]
            dcn_bytes_per_second_per_chip=12.5e9,  # [v6e] 100 Gbit/s
            launch_seconds=5e-6,  # [scaling] a few microseconds of dispatch
        ),
        Generation(
            name="7x",
            name_prefix="tpu7x",  # xpk, system_characteristics.py
            names_count="cores",  # xpk, system_characteristics.py
            device_kind="TPU7x",  # [kinds]
            cores_per_chip=2,  # [7x]
            devices_per_chip=2,  # [tpu_info] no megacore
            mxus_per_core=2,  # [tpu_info]
            mxu_dim=256,  # [tpu_info]
            clock_hz=1750e6,  # not published: v5p's
            bf16_flops_per_chip=2307e12,  # [7x]
            vector_flops_per_chip=2 * 8 * 128 * 4 * 1750e6,  # [scaling] cores x sublanes x lanes x 4 ALUs x clock
            hbm_bytes_per_chip=192 * GIB,  # [7x]
            hbm_reserved_bytes_per_device=1280 * MIB,  # [oom]
            hbm_bytes_per_second_per_chip=7380e9,  # [7x]
            vmem_bytes_per_core=64 * MIB,  # [tpu_info]
            pod_shape=(16, 24, 24),  # xpk, system_characteristics.py: 144 cubes
            max_chips=9216,  # [7x]
            ici_links_per_chip=6,  # [7x] 3D
            ici_bytes_per_second_per_link=100e9,  # [7x] 1200 GB/s both ways
            ici_hop_seconds=1e-6,  # [scaling]
            dcn_bytes_per_second_per_chip=12.5e9,  # [7x] 100 Gbit/s
            launch_seconds=5e-6,  # [scaling] a few microseconds of dispatch
        ),
    )
}

ALIASES = {"v5litepod": "v5e", "v5lite": "v5e", "tpu7x": "7x", "v7x": "7x"}
"""Other words for a generation that users and their scripts know."""


class UnknownGeneration(ValueError):
    """No generation has this name; the message gives those there are."""

    def __init__(self, name: str) -> None:
        super().__init__(f'"{name}" is not a TPU generation; there are {", ".join(GENERATIONS)}')
        self.name = name


def generation(name: str) -> Generation:
    """The generation called ``name`` ("v3"), or by one of its aliases. Raises UnknownGeneration."""
    try:
        return GENERATIONS[ALIASES.get(name, name)]
    except KeyError:
        raise UnknownGeneration(name) from None
