"""What the VMs of a slice tell of themselves."""

from __future__ import annotations

from backend.host.workers import HostedSlice, Worker
from tpuctl.api.actions import GuestAttributes, GuestAttributesEntry, GuestAttributesResponse, GuestAttributesValue
from tpuctl.api.errors import InvalidArgument

NAMESPACE = "guestInventory"


def workers_of(hosted: HostedSlice, member: int | None, wanted: list[str]) -> list[Worker]:
    """The workers ``wanted`` by their numbers in the node, all for none. Raises InvalidArgument.

    ``member`` is the node's number in a multislice whose slices are nodes of their own.
    """
    each = hosted.kind.num_hosts
    own = hosted.workers if member is None else hosted.workers[member * each : (member + 1) * each]
    numbers = [text for text in wanted if text]
    wrong = [text for text in numbers if not (text.isascii() and text.isdigit() and int(text) < len(own))]
    if wrong:
        raise InvalidArgument.of_fields({"workerIds": f"{wrong[0]!r} is not a worker: they are 0 to {len(own) - 1}"})
    return [own[int(text)] for text in numbers] or own


def attributes(workers: list[Worker], query_path: str, host_key: str | None = None) -> GuestAttributesResponse:
    """Those at ``query_path``: NAMESPACE/KEY, all of NAMESPACE/, or all. ``host_key`` is that of their SSH server."""
    namespace, _, key = query_path.partition("/")
    return GuestAttributesResponse(
        guest_attributes=[
            GuestAttributes(
                query_path=query_path,
                query_value=GuestAttributesValue(
                    items=[
                        entry
                        for entry in _entries(worker, host_key)
                        if namespace in ("", entry.namespace) and key in ("", entry.key)
                    ]
                ),
            )
            for worker in workers
        ]
    )


def _entries(worker: Worker, host_key: str | None) -> list[GuestAttributesEntry]:
    """``host_key`` is "ssh-ed25519 AAAA...", that of the server that lets users log in."""
    found = [GuestAttributesEntry(namespace=NAMESPACE, key="hostname", value=worker.name)]
    if host_key:
        kind, _, value = host_key.partition(" ")
        found.append(GuestAttributesEntry(namespace="hostkeys", key=kind, value=value))
    return found
