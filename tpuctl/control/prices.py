"""What does a chip cost at Google's, by the hour? List prices, as far as a public catalogue has them.

Divided by chips from the prices of whole slices: v2-8 at 4.50 is 1.125 a chip. There are none of reserved slices (they
depend on commitments) and of 7x; nothing is guessed.
"""

from __future__ import annotations

from backend.hardware import AcceleratorType
from tpuctl.api.quota import Provisioning
from tpuctl.api.usage import Price, Size

SOURCE = "on-demand and spot prices of SkyPilot's public catalogue (catalogs/v8/gcp/vms.csv), read in December 2026"
_HOST, _PODS = Size.HOST, Size.PODS
_TABLE: tuple[tuple[str, Size | None, str, float, float | None], ...] = (
    ("v2", _HOST, "us-central1", 1.125, 0.3375),  # v2-8
    ("v2", _HOST, "europe-west4", 1.2375, 0.315563),
    ("v2", _HOST, "asia-east1", 1.305, 0.3915),
    ("v2", _PODS, "", 1.50, 0.3825),  # v2-32 to v2-512
    ("v3", _HOST, "us-", 2.00, 0.51),  # v3-8
    ("v3", _HOST, "europe-west4", 2.20, 0.561),
    ("v3", _PODS, "us-east1", 2.00, 0.60),  # v3-32 to v3-2048
    ("v3", _PODS, "europe-west4", 2.00, 0.66),
    ("v4", None, "us-central2", 3.22, 0.9215),
    ("v5e", None, "us-central1", 1.20, 0.24493),
    ("v5e", None, "us-west1", 1.20, 0.24493),
    ("v5e", None, "us-west4", 1.20, 0.48),
    ("v5e", None, "us-east5", 1.20, 0.60),
    ("v5e", None, "us-south1", 1.416, 0.5664),
    ("v5e", None, "europe-west4", 1.56, 0.44498),
    ("v5p", None, "us-central1", 4.20, 0.8357),
    ("v5p", None, "us-east5", 4.20, 1.68),
    ("v5p", None, "europe-west4", 4.2525, 1.34849),
    ("v6e", None, "us-central1", 2.70, 0.54421),
    ("v6e", None, "us-east1", 2.70, 0.54421),
    ("v6e", None, "us-east5", 2.70, 1.215),
    ("v6e", None, "us-south1", 2.70, 1.35),
    ("v6e", None, "europe-west4", 2.97, 1.03748),
    ("v6e", None, "asia-northeast1", 3.24, 0.94352),
    ("v6e", None, "southamerica-west1", 2.70, None),
)
"""Generation, size, where, US dollars on demand and as spot."""
PRICES = tuple(
    Price(generation=generation, size=size, kind=kind, where=where, dollars=dollars)
    for generation, size, where, *both in _TABLE
    for kind, dollars in zip((Provisioning.ON_DEMAND, Provisioning.SPOT), both, strict=True)
    if dollars is not None
)


def price_of(kind: AcceleratorType, how: Provisioning, zone: str) -> float | None:
    """US dollars for one chip of such a slice and one hour; None where that is not known."""
    size, generation = Size.HOST if kind.num_hosts == 1 else Size.PODS, kind.generation.name
    known = (one for one in PRICES if (one.generation, one.kind) == (generation, how) and one.size in (None, size))
    return next((one.dollars for one in known if zone.startswith(one.where)), None)
