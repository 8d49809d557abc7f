"""Which programs are compiled already? What several processes of a job compile is compiled once, and loaded once."""

from __future__ import annotations

import dataclasses
import hashlib
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property

from backend.compiler.program import Identity, Program
from backend.link.messages import Compile
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
        self._identities: OrderedDict[str, Identity] = OrderedDict()
        self._ready: weakref.WeakValueDictionary[bytes, Ready] = weakref.WeakValueDictionary()

    def compile(self, message: Compile, *, several: bool) -> Ready:
        """Compile, or find what another of a job's ``several`` processes compiled. Raises TpuError."""
        if not several:
            return self._compile(message)
        identity = self._identify(message)
        ready = self._ready.get(identity.signature)
        if ready is None or ready.program.inspections:
            ready = self._ready[identity.signature] = self._compile(message, identity.signature)
        if ready.program.device_ids == identity.device_ids:
            return ready
        elsewhere = dataclasses.replace(ready.program, device_ids=identity.device_ids)
        return Ready(elsewhere, lambda: ready.loaded, identity.signature)

    def _compile(self, message: Compile, signature: bytes = b"") -> Ready:
        program = self._machine.compile(message.module, message.options)
        return Ready(program, lambda: self._machine.load(program), signature)

    def _identify(self, message: Compile) -> Identity:
        """What a module is. The same one is looked into once, compiled from its source or loaded as it was saved."""
        key = message.fingerprint or hashlib.sha256(message.module + message.options).hexdigest()
        if key in self._identities:
            self._identities.move_to_end(key)
        else:
            self._identities[key] = self._machine.identify(message.module, message.options)
            while len(self._identities) > _IDENTITIES_KEPT:
                self._identities.popitem(last=False)
        return self._identities[key]
