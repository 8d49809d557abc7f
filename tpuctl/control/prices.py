"""What does a chip cost at Google's, by the hour? List prices, as far as a public catalogue has them."""

from __future__ import annotations

from tpuctl.api.quota import Provisioning
from tpuctl.api.usage import Price

SOURCE = "on-demand and spot prices of SkyPilot's public catalogue (catalogs/v8/gcp/vms.csv), read in August 2026"
_DEMAND, _SPOT = Provisioning.ON_DEMAND, Provisioning.SPOT
PRICES = tuple(
    Price(generation=generation, kind=kind, where=where, dollars=dollars)
    for generation, kind, where, dollars in (
        ("v2", _DEMAND, "", 1.125),  # v2-8 at 4.50
        ("v3", _DEMAND, "", 2.00),  # v3-8 at 8.00, v3-2048 at 2048
        ("v4", _DEMAND, "", 3.22),  # v4-8 at 12.88
        ("v4", _SPOT, "", 0.9225),  # v4-8 at 3.69
        ("v5p", _DEMAND, "", 4.20),
        ("v6e", _DEMAND, "us-", 2.70),
        ("v6e", _DEMAND, "europe-", 2.97),
        ("v6e", _DEMAND, "asia-northeast1", 3.24),
    )
)
"""What is not here has no price that is known: nothing is guessed."""


def price_of(generation: str, kind: Provisioning, zone: str) -> float | None:
    """US dollars for one chip and one hour."""
    found = [one for one in PRICES if (one.generation, one.kind) == (generation, kind) and zone.startswith(one.where)]
    return max(found, key=lambda one: len(one.where)).dollars if found else None
