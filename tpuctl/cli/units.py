"""Numbers as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
PER_SECOND = {"us": 1e6, "ms": 1e3, "s": 1.0}
UNKNOWN = "-"


def bytes_text(count: float | None) -> str:
    """``1536`` is ``1.5 KiB``."""
    if count is None:
        return UNKNOWN
    for unit in BYTE_UNITS:
        if abs(count) < 1024 or unit == BYTE_UNITS[-1]:
            break
        count /= 1024
    digits = 0 if unit == "B" or float(count).is_integer() else 1
    return f"{count:.{digits}f} {unit}"


def seconds_text(seconds: float | None) -> str:
    """Three digits under a minute (``812 us``, ``4.31 ms``, ``12.9 s``), then ``2m05s``, ``3h07m``, ``2d04h``."""
    if seconds is None:
        return UNKNOWN
    for limit, unit in ((1e-3, "us"), (1, "ms"), (59.95, "s")):
        if seconds < limit:
            return f"{seconds * PER_SECOND[unit]:.3g} {unit}"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h{minutes:02}m"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours:02}h"


def age_text(timestamp: str | None) -> str:
    """How long ago an RFC 3339 time was, in whole seconds."""
    if not timestamp:
        return UNKNOWN
    passed = datetime.now(UTC) - datetime.fromisoformat(timestamp)
    seconds = max(0, int(passed.total_seconds()))
    return f"{seconds}s" if seconds < 60 else seconds_text(seconds)


def share_text(share: float | None) -> str:
    """``0.125`` is ``12.5%``."""
    return UNKNOWN if share is None else f"{share:.1%}"


def dollars(amount: float | None) -> str:
    """``1234.5`` is ``$1,234.50``."""
    return UNKNOWN if amount is None else f"${amount:,.2f}" if amount >= 0.01 or not amount else "< $0.01"


def seconds_until(moment: str) -> float:
    """From now until a time in RFC 3339; negative once that is over."""
    return (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds()
