"""Which pods are there? As a file says (TOML or YAML), or one in each zone for what is offered there."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from backend.hardware import GENERATIONS
from tpuctl.api.errors import InvalidArgument
from tpuctl.api.fleet import FleetFile, PodSpec
from tpuctl.api.names import check_id
from tpuctl.control.catalogue import OFFERS, check_zone, offers_pods
from tpuctl.control.pods import Pod, shape_of


def default_fleet() -> FleetFile:
    """A pod of each generation in each zone that offers it, and another wherever one is full."""
    offered = dict.fromkeys((zone, generation) for generation, _, zones in OFFERS for zone in zones.split())
    return FleetFile(elastic=True, pods=[PodSpec(zone=zone, generation=generation) for zone, generation in offered])


def read_fleet(path: Path) -> FleetFile:
    """What a file says. Raises InvalidArgument."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidArgument(f"cannot read the fleet file {path}: {reason}") from error
    try:
        said: Any = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except (tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise InvalidArgument(f"the fleet file {path} is not {_format(path)}: {reason}") from error
    try:
        fleet = FleetFile.model_validate(said or {})
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(map(str, wrong["loc"])) or "the file"
        raise InvalidArgument(f"the fleet file {path} is wrong at {where}: {wrong['msg']}") from error
    if not fleet.pods:
        raise InvalidArgument(f"the fleet file {path} names no pods; each needs a zone and a generation")
    for number, pod in enumerate(fleet.pods):
        _check(path, number, pod)
    return fleet


def _check(path: Path, number: int, pod: PodSpec) -> None:
    where = f"the fleet file {path} is wrong at pods.{number}"
    check_zone(pod.zone)
    if pod.generation not in GENERATIONS:
        raise InvalidArgument(f"{where}: {pod.generation!r} is no generation; there are {', '.join(GENERATIONS)}")
    if not offers_pods(pod.zone, pod.generation):
        raise InvalidArgument(f"{where}: {pod.generation} is not offered in {pod.zone}")
    largest = GENERATIONS[pod.generation].pod_shape
    try:
        for name in [*([] if pod.name is None else [pod.name]), *(part.reservation for part in pod.reserved)]:
            check_id("pod" if name == pod.name else "reservation", name)
        if pod.shape is not None and math.prod(shape_of(pod.shape)) > math.prod(largest):
            raise InvalidArgument(f"{pod.shape} is more than a pod of {pod.generation}, {'x'.join(map(str, largest))}")
        Pod.of(pod, pod.name or "")
    except (ValueError, InvalidArgument) as error:
        raise InvalidArgument(f"{where}: {error}") from error


def _format(path: Path) -> str:
    return "TOML" if path.suffix == ".toml" else "YAML"
