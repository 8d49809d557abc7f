"""Pods and who gets which part of them: slice placement, defragmentation. Pure functions over snapshots."""

from backend.fleet.layout import Layout, Request, layout_of
from backend.fleet.placement import Placement, place
from backend.fleet.snapshot import Snapshot

__all__ = ["Layout", "Placement", "Request", "Snapshot", "layout_of", "place"]
