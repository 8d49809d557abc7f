"""How do buffers of several clients become one argument? Each brings those of its own cores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from backend.runtime.buffers import Argument, Column, Part, Storage, parts_of, same_bits
from backend.tensorcore.value import Value

Places = Sequence[int]
"""Positions of a client's cores among those of a program, in their order."""


def gather_shared(arguments: Sequence[tuple[Argument, Places]], num_cores: int) -> Value:
    """The value that the buffers of all clients make up. Raises the error of a poisoned buffer.

    What one launch made goes into the next one as it is. Other buffers are assembled, and share that from then on.
    """
    if (storage := _shared(arguments, num_cores)) is not None:
        return storage.value
    by_place: dict[int, Part] = {}
    for argument, places in arguments:
        by_place.update(zip(places, parts_of(argument), strict=True))
    parts = [by_place[place] for place in range(num_cores)]
    arrays = [column.part(position) for column, position in parts]
    first = arrays[0]
    if all(same_bits(first, array) for array in arrays[1:]):
        storage = Storage(Value(first, True), base=parts[0][0].contents())
    else:
        storage = Storage(Value(np.stack(arrays), False))
    for argument, places in arguments:
        _rebind(argument, places, storage)
    return storage.value


def _shared(arguments: Sequence[tuple[Argument, Places]], num_cores: int) -> Storage | None:
    """The storage that all columns are the clients' parts of, if there is one."""
    first = arguments[0][0]
    if not isinstance(first, Column):
        return None
    storage = first.contents()
    if not storage.value.uniform and len(storage.value.array) != num_cores:
        return None
    for argument, places in arguments:
        if not isinstance(argument, Column) or argument.contents() is not storage:
            return None
        if not storage.value.uniform and not argument.lies_at(places):
            return None
    return storage


def _rebind(argument: Argument, places: Places, storage: Storage) -> None:
    if isinstance(argument, Column):
        argument.storage, argument.places = storage, places
        return
    for (column, _), place in zip(argument, places, strict=True):
        if column.count == 1:
            column.storage, column.places = storage, (place,)
