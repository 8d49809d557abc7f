"""Which programs are compiled already? What several processes of a job compile is compiled once, and loaded once."""

from __future__ import annotations

import dataclasses
import hashlib
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property

from backend.compiler.program import Identity, Program
from backend.runtime.machine import Loaded, Machine

_IDENTITIES_KEPT = 1024


class Ready:
    """A compiled program, kept as long as a client has it; ``signature`` is the same for the same program."""

    def __init__(self, program: Program, load: Callable[[], Loaded], signature: bytes = b"") -> None:
        self.program = program
        self.signature = signature
        self._load = load

    @cached_property
    def loaded(self) -> Loaded:
        """The program in the engine."""
        return self._load()


class Programs:
    """Compiles for the clients of one slice. For one thread."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._identities: OrderedDict[bytes, Identity] = OrderedDict()
        self._ready: weakref.WeakValueDictionary[bytes, Ready] = weakref.WeakValueDictionary()

    def compile(self, module: bytes, options: bytes, *, several: bool) -> Ready:
        """Compile, or find what another of a job's ``several`` processes compiled. Raises TpuError."""
        if not several:
            return self._compile(module, options)
        identity = self._identify(module, options)
        ready = self._ready.get(identity.signature)
        if ready is None or ready.program.inspections:
            ready = self._ready[identity.signature] = self._compile(module, options, identity.signature)
        if ready.program.device_ids == identity.device_ids:
            return ready
        elsewhere = dataclasses.replace(ready.program, device_ids=identity.device_ids)
        return Ready(elsewhere, lambda: ready.loaded, identity.signature)

    def _compile(self, module: bytes, options: bytes, signature: bytes = b"") -> Ready:
        program = self._machine.compile(module, options)
        return Ready(program, lambda: self._machine.load(program), signature)

    def _identify(self, module: bytes, options: bytes) -> Identity:
        """What a module is; the same bytes are looked into once."""
        key = hashlib.sha256(len(module).to_bytes(8, "little") + module + options).digest()
        if key in self._identities:
            self._identities.move_to_end(key)
        else:
            self._identities[key] = self._machine.identify(module, options)
            while len(self._identities) > _IDENTITIES_KEPT:
                self._identities.popitem(last=False)
        return self._identities[key]
