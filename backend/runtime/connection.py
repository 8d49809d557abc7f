"""What happens on one connection? The greeting, then messages until the client leaves or breaks the rules."""

from __future__ import annotations

import contextlib
import hmac
import logging
import socket
import struct
from concurrent.futures import Executor

from backend.compiler.program import Program
from backend.errors import FailedPrecondition, Internal, InvalidArgument, TpuError, Unauthenticated
from backend.link.arena import Arena
from backend.link.framing import (
    FRAME_LIMIT,
    GREETING_LIMIT,
    EndOfStream,
    FrameReader,
    MalformedFrame,
    request_reader,
)
from backend.link.messages import (
    VERSION,
    Assemble,
    Compile,
    Compiled,
    Copy,
    Data,
    Execute,
    Failed,
    Fault,
    Fetch,
    Hello,
    HostAnswer,
    HostError,
    HostReached,
    MemoryStats,
    Message,
    Notice,
    Put,
    Refused,
    Region,
    RegionFree,
    Release,
    Request,
    Stage,
    Status,
    Telemetry,
    Tensor,
    Unload,
)
from backend.runtime.executable import Share
from backend.runtime.host_calls import HostCalls
from backend.runtime.occupancy import Holder
from backend.runtime.outbox import Outbox
from backend.runtime.parties import Party
from backend.runtime.session import Session
from backend.runtime.slice import Slice
from backend.runtime.streams import Stream
from backend.runtime.uploads import Uploads

_log = logging.getLogger(__name__)
_GREETING_SECONDS = 10.0
_PEER_CREDENTIALS = struct.Struct("3i")


class Connection:
    """One client of the slice, served by one thread."""

    def __init__(self, sock: socket.socket, chips: Slice, token: str | None, compiler: Executor) -> None:
        """``token`` is what the client must know, None on a socket that only its owner can open."""
        self._sock = sock
        self._slice = chips
        self._token = token
        self._compiler = compiler
        self._outbox = Outbox(sock)
        self._reader: FrameReader[Request] = request_reader(sock)
        self._arena: Arena | None = None

    def serve(self) -> None:
        """Talk until the connection ends. Only this client notices what goes wrong here."""
        try:
            with self._sock:
                hello, rest = self._greeting()
                self._admit(hello)
                if hello.role == "driver":
                    self._serve_driver(hello, rest)
                else:
                    self._outbox.send(self._slice.greeting([]))
                    self._serve_monitor(rest)
        except MalformedFrame as error:
            _log.warning("connection ended: malformed frame", extra={"reason": str(error)})
        except (EndOfStream, OSError):
            return

    def _greeting(self) -> tuple[Hello, list[Request]]:
        self._sock.settimeout(_GREETING_SECONDS)
        messages: list[Request] = []
        while not messages:
            messages = self._reader.feed(self._receive_greeting())
        self._sock.settimeout(None)
        hello = messages[0]
        if not isinstance(hello, Hello):
            raise MalformedFrame("the first message was no greeting")
        self._reader.limit = FRAME_LIMIT
        return hello, messages[1:]

    def _receive_greeting(self) -> bytes:
        if self._sock.family != socket.AF_UNIX:
            data = self._sock.recv(GREETING_LIMIT)
        else:
            data, descriptors, _, _ = socket.recv_fds(self._sock, GREETING_LIMIT, 1)
            for descriptor in descriptors:
                self._arena = Arena(descriptor)
        if not data:
            raise EndOfStream
        return data

    def _admit(self, hello: Hello) -> None:
        """Refuse a client that does not know the token or speaks another version. Raises EndOfStream."""
        if self._token is not None and not hmac.compare_digest(self._token.encode(), hello.token.encode()):
            self._refuse(Unauthenticated("the token is missing or wrong; `tpuctl attach` prints the right one"))
        if hello.version != VERSION:
            self._refuse(
                FailedPrecondition(
                    f"the client speaks version {hello.version} of the device link, this slice {VERSION}; "
                    "start both from the same tpuctl"
                )
            )

    def _refuse(self, error: TpuError) -> None:
        self._outbox.send(Refused(error.code, error.message))
        raise EndOfStream

    def _peer_pid(self, hello: Hello) -> int:
        if self._sock.family != socket.AF_UNIX:
            return hello.pid
        credentials = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
        return int(_PEER_CREDENTIALS.unpack(credentials)[0])

    def _serve_monitor(self, messages: list[Request]) -> None:
        while True:
            for message in messages:
                self._outbox.send(self._answer_monitor(message))
            messages = self._reader.read()

    def _answer_monitor(self, message: Request) -> Message:
        match message:
            case Status():
                return Telemetry(message.request, self._slice.telemetry(cores=message.cores))
            case Fault(part=part, where=where, recover=recover, slice_index=index):
                try:
                    self._slice.links.change(part, where, recover=recover, slice_index=index)
                except InvalidArgument as error:
                    return Failed(message.request, error.code, error.message)
                return Telemetry(message.request, self._slice.telemetry())
            case _:
                raise MalformedFrame(f"a monitor sent {type(message).__name__}")

    def _serve_driver(self, hello: Hello, messages: list[Request]) -> None:
        holder = Holder(self._peer_pid(hello), hello.job, hello.process, hello.processes)
        try:
            share = self._slice.share(hello.process, hello.processes)
            self._slice.occupancy.take(holder)
        except (InvalidArgument, FailedPrecondition) as error:
            self._refuse(error)
        stream = self._stream(hello, holder, share)
        uploads = Uploads(self._arena, self._slice.hbm_bytes, self._slice.machine.allocate)
        client = {"client": holder.pid, "job": holder.job, "worker": holder.process}
        try:
            _log.info("driver attached", extra=client)
            self._outbox.send(self._slice.welcome(hello.processes))
            while True:
                for message in messages:
                    self._handle(message, stream, uploads)
                self._outbox.flush()
                messages = self._reader.read()
        finally:
            self._slice.occupancy.leave(holder)
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
            self._slice.launch_queue.end(stream, lambda: self._slice.occupancy.free(holder))
            _log.info("driver detached", extra=client)

    def _stream(self, hello: Hello, holder: Holder, share: Share | None) -> Stream:
        """What the client owns, and the stream of its operations."""
        party = Party(
            holder.process,
            holder.pid,
            hello.notice_seconds,
            hello.timeout_seconds,
            tell=lambda text: self._outbox.send(Notice(text)),
        )
        session = Session(
            hello.job,
            self._slice.machine,
            self._slice.hbm,
            self._slice.launcher,
            self._arena,
            HostCalls(self._outbox.send),
            party,
            share,
        )
        stream = Stream(session, self._outbox, self._slice.parties.attach(hello.job, hello.processes, party))
        party.idle = stream.is_idle
        return stream

    def _handle(self, message: Request, stream: Stream, uploads: Uploads) -> None:
        match message:
            case Execute() | Release() | Fetch() | Copy() | Assemble() | Unload() | MemoryStats():
                self._slice.launch_queue.submit(stream, message)
            case Stage():
                uploads.stage(message)
                self._free(message.data)
            case Put():
                upload = uploads.finish(message)
                self._free(message.data)
                self._slice.launch_queue.submit(stream, upload)
            case Compile():
                stream.session.party.compiling += 1
                self._compiler.submit(self._compile, message, stream.session)
            case HostAnswer() | HostReached() | HostError():
                stream.session.host_calls.hear(message)
            case Status():
                self._outbox.send(Telemetry(message.request, self._slice.telemetry(cores=message.cores)))
            case Hello() | Fault():
                raise MalformedFrame(f"a driver sent a second greeting or a fault: {type(message).__name__}")

    def _free(self, data: Data) -> None:
        if isinstance(data, Region):
            self._outbox.send(RegionFree(data.offset))

    def _compile(self, message: Compile, session: Session) -> None:
        if session.ended:
            return
        reply: Message
        try:
            ready = self._slice.programs.compile(message, several=session.shares_slice)
            if session.ended:
                return
            session.load(message.executable, ready)
            reply = describe(message.request, ready.program)
        except TpuError as error:
            reply = Failed(message.request, error.code, error.message)
        except Exception as error:  # noqa: BLE001 the outermost boundary of what a client's module can do
            _log.exception("compilation failed", extra={"job": session.job})
            reply = Failed(message.request, Internal.code, f"the compiler failed: {type(error).__name__}: {error}")
        finally:
            session.party.compiling -= 1
        self._outbox.send(reply)


def describe(request: int, program: Program) -> Compiled:
    """A program as the driver shows it to JAX."""
    return Compiled(
        request=request,
        name=program.name,
        num_replicas=program.num_replicas,
        num_partitions=program.num_partitions,
        device_ids=program.device_ids,
        parameters=[Tensor(list(kind.shape), kind.dtype.name) for kind in program.parameters],
        results=[Tensor(list(kind.shape), kind.dtype.name) for kind in program.results],
        donated=program.donated,
        argument_bytes=program.memory.argument_bytes,
        output_bytes=program.memory.output_bytes,
        alias_bytes=program.memory.alias_bytes,
        temp_bytes=program.memory.temp_bytes,
        code_bytes=program.memory.code_bytes,
        flops=program.cost.flops,
        transcendentals=program.cost.transcendentals,
        bytes_accessed=program.cost.bytes_accessed,
        optimized_module=program.optimized_module,
        argument_memories=program.argument_memories,  # type: ignore[arg-type]
        result_memories=program.result_memories,  # type: ignore[arg-type]
        argument_layouts=program.argument_layouts,
        result_layouts=program.result_layouts,
        inspections=program.inspections,
    )
