"""HTTP server: many connections, each with bounded memory and time, and fast refusals beyond the limits.

One event loop in a thread of its own. A connection reads one request at a time; data after it is buffered. The cost
of a request does not depend on the number of connections: those that wait for the same event are in one table in order
of time, so that the first entries are those that have waited longest.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from typing import Literal, Protocol

from slipstream.service.handoff import Handoff
from slipstream.service.http import (
    CONTINUE,
    END_OF_HEAD,
    RETRY_SECONDS,
    BadRequestError,
    Request,
    Response,
    encode,
    parse_head,
    refusal,
)
from slipstream.service.limits import Limits, connection_limits

HEAD_SECONDS = 5.0
"""Time limit of the next head, from the connection or the last response on."""
BODY_SECONDS = 10.0
SPARE_SECONDS = 1.0
"""Time limit of a connection beyond the limit; also the least idle time before one is closed for a new one."""
MOST_HEAD_BYTES = 16 << 10
MOST_SKIPPED_BYTES = 1 << 20
"""Longest refused body that is skipped; after a longer one the connection is closed."""
MOST_READING_BYTES = 64 << 20
"""Total of the bodies being read on all connections."""
SWEEP_SECONDS = 0.25
FREE_REFUSALS = 250
"""Refusals between two sweeps; connections refused beyond it are read again only after the time in `Retry-After`."""
ACCEPTED_AT_ONCE = 64
BACKLOG = 4096
STOP_SECONDS = 2.0
"""Time for sending responses when the server ends."""
SWITCH_SECONDS = 0.0005
"""Switch interval of the interpreter's threads; the default of 5 ms is several runs of a small model."""


class Application(Protocol):
    """Interface of what the server serves."""

    def admit(self, request: Request) -> Response | None:
        """Return the refusal of a request before its body is read, None if it is admitted."""

    def answer(self, request: Request, body: bytes, reply: Callable[[Response], None]) -> Response | None:
        """Return the response; None if `reply` will be called with it, in the thread of the loop."""

    def essential(self, request: Request) -> bool:
        """Return whether a request is answered, immediately, also beyond the limit of connections."""

    def refuse(self, request: Request, reason: Literal["late", "crowded"]) -> Response:
        """Return the refusal of a request whose body came too late, or exceeds the limit of bodies being read."""


class _State(Enum):
    HEAD = auto()
    BODY = auto()
    BUSY = auto()
    LAST = auto()
    """The last response was sent: further data is discarded until the peer closes."""


class _Connection(asyncio.Protocol):
    """State machine of one connection."""

    def __init__(self, server: Server, spare: bool) -> None:
        self._server = server
        self._spare = spare
        self._state = _State.HEAD
        self._received = bytearray()
        self._searched = 0
        """Bytes already searched for the end of the head."""
        self._skipped = 0
        """Remaining bytes of a refused body."""
        self._request: Request | None = None
        self._reading = 0
        """Bytes of this connection in the total being read."""
        self._held = self._unread = self._ended = False
        self._transport: asyncio.Transport

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.register(self, self._spare)

    def data_received(self, data: bytes) -> None:
        if self._state is _State.LAST:
            return
        self._received += data
        self._process_received()
        if self._state in (_State.HEAD, _State.BUSY) and len(self._received) > MOST_HEAD_BYTES:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Return whether the connection stays open, for a response to be sent."""
        self._ended = True
        return self._state is _State.BUSY

    def pause_writing(self) -> None:
        self._unread = True

    def resume_writing(self) -> None:
        self._unread = False
        self._resume()

    def connection_lost(self, error: Exception | None) -> None:
        self._state = _State.LAST
        self._count_reading(0)
        self._server.unregister(self)

    # Requests

    def _process_received(self) -> None:
        """Process the received requests in turn, up to one that is incomplete or waits for its response."""
        while not (self._held or self._unread):
            if self._state is _State.HEAD:
                if not self._read_head():
                    return
            elif self._state is not _State.BODY or not self._read_body():
                return

    def _read_head(self) -> bool:
        """Parse a head, if it is complete, and respond if it is refused; return whether to continue."""
        if self._skipped:
            dropped = min(self._skipped, len(self._received))
            del self._received[:dropped]
            self._skipped -= dropped
        end = self._received.find(END_OF_HEAD, self._searched)
        if end < 0 and len(self._received) <= MOST_HEAD_BYTES:
            self._searched = max(0, len(self._received) - len(END_OF_HEAD) + 1)
            return False
        if not 0 <= end <= MOST_HEAD_BYTES:
            self._end(refusal(431, f"expected a head of at most {MOST_HEAD_BYTES:,} bytes"))
            return False
        head = bytes(self._received[:end])
        del self._received[: end + len(END_OF_HEAD)]
        self._searched = 0
        try:
            self._request = request = parse_head(head.lstrip(b"\r\n"))
        except BadRequestError as error:
            self._end(refusal(400, str(error)))
            return False
        found = self._server.refusal(request, self._spare)
        if found is not None:
            self._skipped = request.length
            self._respond(found)
            return True
        self._state = _State.BODY
        self._server.wait_for_body(self)
        if len(self._received) < request.length and request.headers.get("expect", "").lower() == "100-continue":
            self._transport.write(CONTINUE)
        return True

    def _read_body(self) -> bool:
        """Pass the request to the application, if its body is complete; return whether to continue."""
        request = self._request
        assert request is not None
        if len(self._received) < request.length:
            if not self._reading:
                if self._server.exceeds_read_limit(request.length):
                    self._skipped = request.length
                    self._respond(self._server.app.refuse(request, "crowded"))
                    return True
                self._count_reading(request.length)
            return False
        self._count_reading(0)
        body = bytes(self._received[: request.length])
        del self._received[: request.length]
        self._state = _State.BUSY
        self._server.wait_for_answer(self)
        try:
            found = self._server.app.answer(request, body, self._reply)
        except Exception as error:  # a defect, or no memory: only this request fails
            found = refusal(500, f"the service failed: {type(error).__name__}")
        if found is None:
            return False
        self._respond(found)
        return True

    def _reply(self, response: Response) -> None:
        """Send a deferred response, if the connection still waits for it, and process what was received meanwhile."""
        if self._state is _State.BUSY:
            self._respond(response)
            self._resume()

    def _respond(self, response: Response) -> None:
        request = self._request
        assert request is not None
        self._request = None
        keeps = request.keep_alive and self._skipped <= MOST_SKIPPED_BYTES
        if not keeps or self._spare or self._ended or self._server.stopping:
            all_read = not (self._skipped or self._received or "transfer-encoding" in request.headers)
            self._end(response, at_once=all_read)
            return
        self._transport.write(encode(response, True))
        self._state = _State.HEAD
        self._server.wait_for_head(self)
        if response.status in (429, 503) and self._server.count_refusal():
            self._held = True
            self._transport.pause_reading()
            self._server.hold(self)

    def _resume(self) -> None:
        """Process what was received, and read more."""
        self._process_received()
        if not self._held and self._state is not _State.BUSY and not self._transport.is_closing():
            self._transport.resume_reading()

    def _end(self, response: Response | None, at_once: bool = False) -> None:
        """Send a last response, if there is one, and close: `at_once`, or when the peer has closed.

        Data that arrives at a closed connection resets it, and the peer would lose the response.
        """
        if self._state is _State.LAST:
            return
        self._state = _State.LAST
        self._received.clear()
        self._count_reading(0)
        self._server.wait_for_end(self)
        if response is not None:
            self._transport.write(encode(response, False))
        if response is None or at_once or self._ended:
            self._transport.close()
            return
        self._transport.resume_reading()
        with suppress(OSError):  # the peer has closed already
            self._transport.write_eof()

    def _count_reading(self, count: int) -> None:
        self._server.reading += count - self._reading
        self._reading = count

    # Called by the server

    def release(self) -> None:
        """Resume reading after a refusal."""
        self._held = False
        self._server.wait_for_head(self)
        self._resume()

    def expire(self) -> None:
        """End a connection that has exceeded its time limit."""
        if self._state is _State.LAST or self._transport.get_write_buffer_size():
            self._transport.abort()
        elif self._state is _State.BODY:
            assert self._request is not None
            self._end(self._server.app.refuse(self._request, "late"))
        elif self._spare:
            self._end(FULL, at_once=True)
        elif self._received or self._skipped:
            late = refusal(408, f"the head of the request did not arrive within {HEAD_SECONDS:g} s")
            self._end(late, at_once=True)
        else:
            self._end(None)

    def finish(self) -> None:
        """End the connection after its pending response; at once if there is none."""
        if self._state in (_State.HEAD, _State.BODY):
            self._end(None)


FULL = refusal(503, "too many connections: try again later")
_FULL_BYTES = encode(FULL, False)

_Table = dict[_Connection, float]
"""Time at which each connection began to wait, in order of time."""


class Server:
    """Accepts connections within limits, and enforces their time limits."""

    def __init__(self, app: Application, listening: socket.socket, limits: Limits) -> None:
        self.app = app
        self.limits = limits
        self.reading = 0
        """Total bytes of the bodies being read."""
        self.stopping = False
        self._listening = listening
        self._loop: asyncio.AbstractEventLoop
        self._sweeping: asyncio.TimerHandle
        self._open = 0
        self._for_head: _Table = {}
        self._for_body: _Table = {}
        self._for_end: _Table = {}
        self._held: _Table = {}
        self._spare: _Table = {}
        self._all: set[_Connection] = set()
        self._refusals = 0
        self._reserve = os.open(os.devnull, os.O_RDONLY)
        """Descriptor that is freed for a moment to refuse a connection when no other is left."""
        self._opening: set[asyncio.Task[None]] = set()

    async def run(self, stopped: asyncio.Event) -> None:
        """Serve until `stopped` is set, then wait shortly for pending responses."""
        self._loop = asyncio.get_running_loop()
        self._listening.setblocking(False)
        self._listening.listen(BACKLOG)
        self._loop.add_reader(self._listening, self._accept)
        self._sweep()
        try:
            await stopped.wait()
        finally:
            self._loop.remove_reader(self._listening)
            self.stopping = True
            for connection in list(self._all):
                connection.finish()
            until = self._loop.time() + STOP_SECONDS
            while self._open and self._loop.time() < until:
                await asyncio.sleep(0.01)
            self._sweeping.cancel()
            for connection in list(self._all):
                connection.expire()
            with suppress(OSError):
                os.close(self._reserve)

    # Connections

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._refuse_with_reserve():
                    self._pause_accepting()
                return
            accepted.setblocking(False)
            if self._admit(accepted):
                return  # the loop reads or ends other connections before the next one is accepted

    def _admit(self, accepted: socket.socket) -> bool:
        """Open a connection, or refuse it; return whether it exceeds the limit."""
        beyond = self._open >= self.limits.connections
        closed = beyond and (
            self._close_one(self._for_end, SPARE_SECONDS) or self._close_one(self._for_head, SPARE_SECONDS)
        )
        spare = beyond and not closed
        if spare and len(self._spare) >= self.limits.spare:
            closed = self._close_one(self._spare, 0.0)
        # If another one was closed for it, that descriptor is free before the next connection is accepted.
        if not closed and self._open >= self.limits.connections + 2 * self.limits.spare:
            _refuse_unread(accepted)
            return True
        self._open += 1
        opening = self._loop.create_task(self._begin(accepted, spare))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        return beyond

    async def _begin(self, accepted: socket.socket, spare: bool) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: _Connection(self, spare), accepted)
        except BaseException as error:
            accepted.close()
            self._open -= 1
            if not isinstance(error, OSError):
                raise

    def _close_one(self, table: _Table, seconds: float) -> bool:
        """Close the oldest connection of `table` if it has waited for `seconds`; return whether one was closed."""
        for connection, since in table.items():
            if self._loop.time() - since < seconds:
                return False
            del table[connection]
            connection.expire()
            return True
        return False

    def _refuse_with_reserve(self) -> bool:
        """Refuse one connection with the reserved descriptor; return whether that was possible."""
        with suppress(OSError):  # it could not be reopened the last time
            os.close(self._reserve)
        try:
            accepted, _ = self._listening.accept()
            accepted.setblocking(False)
            _refuse_unread(accepted)
            return True
        except OSError:
            return False
        finally:
            self._reserve = _reopened()

    def _pause_accepting(self) -> None:
        """Stop accepting connections for a moment: the system has no resources."""
        self._loop.remove_reader(self._listening)

        def again() -> None:
            if not self.stopping:
                self._loop.add_reader(self._listening, self._accept)

        self._loop.call_later(SWEEP_SECONDS, again)

    def register(self, connection: _Connection, spare: bool) -> None:
        """Register an open connection; `spare` if it exceeds the limit."""
        self._all.add(connection)
        if spare:
            self._spare[connection] = self._loop.time()
        self.wait_for_head(connection)

    def unregister(self, connection: _Connection) -> None:
        """Unregister a closed connection."""
        self._all.discard(connection)
        self._open -= 1
        self._remove(connection)
        self._spare.pop(connection, None)

    # Time limits of connections

    def _remove(self, connection: _Connection) -> None:
        for table in (self._for_head, self._for_body, self._for_end, self._held):
            table.pop(connection, None)

    def _move_to(self, table: _Table, connection: _Connection) -> None:
        self._remove(connection)
        table[connection] = self._loop.time()

    def wait_for_head(self, connection: _Connection) -> None:
        """Start the time limit of the next head."""
        self._move_to(self._for_head, connection)

    def wait_for_body(self, connection: _Connection) -> None:
        """Start the time limit of a body."""
        self._move_to(self._for_body, connection)

    def wait_for_answer(self, connection: _Connection) -> None:
        """Stop the time limit while the application works on the response."""
        self._remove(connection)

    def wait_for_end(self, connection: _Connection) -> None:
        """Start the time limit of a connection after its last response."""
        self._move_to(self._for_end, connection)

    def hold(self, connection: _Connection) -> None:
        """Resume reading a connection after the time in `Retry-After`."""
        self._move_to(self._held, connection)

    def _sweep(self) -> None:
        """Close connections that exceed their time limit, resume those whose pause is over; then schedule itself."""
        self._sweeping = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        self._refusals = 0
        for table, seconds in (
            (self._for_head, HEAD_SECONDS),
            (self._for_body, BODY_SECONDS),
            (self._for_end, HEAD_SECONDS),
            (self._spare, SPARE_SECONDS),
        ):
            while self._close_one(table, seconds):
                pass
        for connection in [one for one, since in self._held.items() if self._loop.time() - since >= RETRY_SECONDS]:
            connection.release()

    # Limits

    def refusal(self, request: Request, spare: bool) -> Response | None:
        """Return the refusal of a request before its body is read, None if it is admitted."""
        found = self.app.admit(request)
        return FULL if found is None and spare and not self.app.essential(request) else found

    def exceeds_read_limit(self, length: int) -> bool:
        """Return whether a body of `length` bytes would exceed the limit of bodies being read."""
        return bool(self.reading) and self.reading + length > MOST_READING_BYTES

    def count_refusal(self) -> bool:
        """Count a refusal; return whether the limit between two sweeps is exceeded."""
        self._refusals += 1
        return self._refusals > FREE_REFUSALS


def _refuse_unread(accepted: socket.socket) -> None:
    """Refuse a connection without reading its request."""
    with suppress(OSError), accepted:
        accepted.send(_FULL_BYTES)
        accepted.shutdown(socket.SHUT_WR)
        accepted.recv(MOST_HEAD_BYTES)  # unread data at the close would reset the connection and discard the response


def _reopened() -> int:
    try:
        return os.open(os.devnull, os.O_RDONLY)
    except OSError:
        return -1


@contextmanager
def serving_in_thread(app: Application, listening: socket.socket, handoff: Handoff) -> Iterator[Server]:
    """Serve `app` in a thread of its own, which also makes the calls of `handoff`."""
    loop = asyncio.new_event_loop()
    stopped = asyncio.Event()
    server = Server(app, listening, connection_limits())
    handoff.connect(loop)

    def work() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(server.run(stopped))

    thread = threading.Thread(target=work, name="service", daemon=True)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    thread.start()
    try:
        yield server
    finally:
        handoff.hand(stopped.set)
        thread.join(10.0)
        sys.setswitchinterval(interval)
        listening.close()
