"""Connections of the service: many at a time, each with bounded memory and time, and a fast refusal beyond the limits.

One event loop in a thread of its own. A connection reads one request at a time; what is sent behind it waits. Every
step of a request costs the same however many connections there are: those that wait for the same thing stand in one
table in the order in which they began, so that a look at its first entries finds all that have waited too long.
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
"""Within which the next head is complete, from the connection or the last answer on."""
BODY_SECONDS = 10.0
SPARE_SECONDS = 1.0
"""Within which a connection beyond the limit has its answer; for so long no idle one is closed for a new one."""
MOST_HEAD_BYTES = 16 << 10
MOST_SKIPPED_BYTES = 1 << 20
"""Of the body of a request that was refused: behind a longer one the connection is closed."""
MOST_READING_BYTES = 64 << 20
"""Of bodies that have begun to arrive, of all connections together."""
SWEEP_SECONDS = 0.25
FREE_REFUSALS = 250
"""Between two sweeps: who is refused after so many others is not read again before the time in `Retry-After`."""
ACCEPTED_AT_ONCE = 64
BACKLOG = 4096
STOP_SECONDS = 2.0
"""For which answers may still be sent when the server ends."""
SWITCH_SECONDS = 0.0005
"""After which the interpreter lets another thread go on; the usual 5 ms are several runs of a small model."""


class Application(Protocol):
    """What requests are for."""

    def admit(self, request: Request) -> Response | None:
        """Return the refusal of a request whose body need not be read, None if it is wanted."""

    def answer(self, request: Request, body: bytes, reply: Callable[[Response], None]) -> Response | None:
        """Return the answer; None if `reply` will be called with it, in the thread of the loop."""

    def essential(self, request: Request) -> bool:
        """Return whether a request is answered however many connections there are; its answer comes at once."""

    def refuse(self, request: Request, reason: Literal["late", "crowded"]) -> Response:
        """Return the answer to a request whose body came too late, or for which too much else is being read."""


class _State(Enum):
    HEAD = auto()
    BODY = auto()
    BUSY = auto()
    LAST = auto()
    """The last answer was sent: what still comes is thrown away, until the other side hangs up."""


class _Connection(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: Server, spare: bool) -> None:
        self._server = server
        self._spare = spare
        self._state = _State.HEAD
        self._received = bytearray()
        self._searched = 0
        """Bytes in which the head does not end."""
        self._skipped = 0
        """Bytes of a refused body that are still to come."""
        self._request: Request | None = None
        self._reading = 0
        """Bytes that count as being read."""
        self._held = self._unread = self._ended = False
        self._transport: asyncio.Transport

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.take(self, self._spare)

    def data_received(self, data: bytes) -> None:
        if self._state is _State.LAST:
            return
        self._received += data
        self._go_on()
        if self._state in (_State.HEAD, _State.BUSY) and len(self._received) > MOST_HEAD_BYTES:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Return whether the connection stays open, for an answer to be sent."""
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
        self._server.forget(self)

    # Requests

    def _go_on(self) -> None:
        """Take up what has arrived, one request after the other, up to one that has to be waited for."""
        while not (self._held or self._unread):
            if self._state is _State.HEAD:
                if not self._take_head():
                    return
            elif self._state is not _State.BODY or not self._take_body():
                return

    def _take_head(self) -> bool:
        """Read a head, if it is complete, and answer it if its body is not wanted; return whether to look further."""
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

    def _take_body(self) -> bool:
        """Answer the request, if its body is complete; return whether to look further."""
        request = self._request
        assert request is not None
        if len(self._received) < request.length:
            if not self._reading:
                if self._server.has_read_too_much(request.length):
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
        except Exception as error:  # a mistake of ours, or no memory: whoever asked is told, and the others go on
            found = refusal(500, f"the service failed: {type(error).__name__}")
        if found is None:
            return False
        self._respond(found)
        return True

    def _reply(self, response: Response) -> None:
        """Send an answer that had to be waited for, if anybody still waits for it, and take up what came meanwhile."""
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
        if response.status in (429, 503) and self._server.refuses_too_often():
            self._held = True
            self._transport.pause_reading()
            self._server.hold(self)

    def _resume(self) -> None:
        """Go on with what has arrived, and read more."""
        self._go_on()
        if not self._held and self._state is not _State.BUSY and not self._transport.is_closing():
            self._transport.resume_reading()

    def _end(self, response: Response | None, at_once: bool = False) -> None:
        """Send a last answer, if there is one, and close; unless `at_once`, when the other side has hung up.

        What arrives at a closed connection makes the system of the other side throw the answer away unread.
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
        with suppress(OSError):  # the other side is gone already
            self._transport.write_eof()

    def _count_reading(self, count: int) -> None:
        self._server.reading += count - self._reading
        self._reading = count

    # Called by the server

    def release(self) -> None:
        """Read on after a refusal."""
        self._held = False
        self._server.wait_for_head(self)
        self._resume()

    def expire(self) -> None:
        """End a connection that has taken too long with what is expected of it."""
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
        """End when the answer that is being waited for has been sent; at once if there is none."""
        if self._state in (_State.HEAD, _State.BODY):
            self._end(None)


FULL = refusal(503, "too many connections: try again later")
_FULL_BYTES = encode(FULL, False)

_Table = dict[_Connection, float]
"""Since when connections wait, the longest first."""


class Server:
    """Accepts connections within limits, and sees to it that none waits for ever."""

    def __init__(self, app: Application, listening: socket.socket, limits: Limits) -> None:
        self.app = app
        self.limits = limits
        self.reading = 0
        """Bytes of bodies that have begun to arrive."""
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
        """Given up for a moment to refuse a connection when no other descriptor is left."""
        self._opening: set[asyncio.Task[None]] = set()

    async def run(self, stopped: asyncio.Event) -> None:
        """Answer until `stopped` is set, then for a moment what is still being answered."""
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
                return  # so that the loop reads or ends the others before the next one is looked at

    def _admit(self, accepted: socket.socket) -> bool:
        """Begin a connection, or refuse it; return whether it is one beyond the limit."""
        beyond = self._open >= self.limits.connections
        closed = beyond and (
            self._close_one(self._for_end, SPARE_SECONDS) or self._close_one(self._for_head, SPARE_SECONDS)
        )
        spare = beyond and not closed
        if spare and len(self._spare) >= self.limits.spare:
            closed = self._close_one(self._spare, 0.0)
        # Where another one was closed for it, its descriptor is free before the next connection is accepted.
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
        """Close the connection that stands longest in a table, if that is for so long; return whether there is one."""
        for connection, since in table.items():
            if self._loop.time() - since < seconds:
                return False
            del table[connection]
            connection.expire()
            return True
        return False

    def _refuse_with_reserve(self) -> bool:
        """Refuse one connection by the descriptor that is kept for it; return whether that was possible."""
        with suppress(OSError):  # it could not be opened again the last time
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
        """Accept no connection for a moment: the system has no means for it."""
        self._loop.remove_reader(self._listening)

        def again() -> None:
            if not self.stopping:
                self._loop.add_reader(self._listening, self._accept)

        self._loop.call_later(SWEEP_SECONDS, again)

    def take(self, connection: _Connection, spare: bool) -> None:
        """Note that a connection can be read; `spare` if it is one beyond the limit."""
        self._all.add(connection)
        if spare:
            self._spare[connection] = self._loop.time()
        self.wait_for_head(connection)

    def forget(self, connection: _Connection) -> None:
        """Note that a connection is gone."""
        self._all.discard(connection)
        self._open -= 1
        self._leave(connection)
        self._spare.pop(connection, None)

    # What connections wait for

    def _leave(self, connection: _Connection) -> None:
        for table in (self._for_head, self._for_body, self._for_end, self._held):
            table.pop(connection, None)

    def _enter(self, table: _Table, connection: _Connection) -> None:
        self._leave(connection)
        table[connection] = self._loop.time()

    def wait_for_head(self, connection: _Connection) -> None:
        """Note that a connection is to send the next head."""
        self._enter(self._for_head, connection)

    def wait_for_body(self, connection: _Connection) -> None:
        """Note that a connection is to send a body."""
        self._enter(self._for_body, connection)

    def wait_for_answer(self, connection: _Connection) -> None:
        """Note that a connection is to be answered: that has its own limits."""
        self._leave(connection)

    def wait_for_end(self, connection: _Connection) -> None:
        """Note that a connection got its last answer."""
        self._enter(self._for_end, connection)

    def hold(self, connection: _Connection) -> None:
        """Read a connection again after the time in `Retry-After`."""
        self._enter(self._held, connection)

    def _sweep(self) -> None:
        """Close what has waited too long, and read on where enough time has passed; again after a while."""
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
        """Return the refusal of a request whose body need not be read, None if it is wanted."""
        found = self.app.admit(request)
        return FULL if found is None and spare and not self.app.essential(request) else found

    def has_read_too_much(self, length: int) -> bool:
        """Return whether another body of this length is too much beside those that are being read."""
        return bool(self.reading) and self.reading + length > MOST_READING_BYTES

    def refuses_too_often(self) -> bool:
        """Count a refusal; return whether there were many lately."""
        self._refusals += 1
        return self._refusals > FREE_REFUSALS


def _refuse_unread(accepted: socket.socket) -> None:
    """Refuse a connection without waiting for what it asks."""
    with suppress(OSError), accepted:
        accepted.send(_FULL_BYTES)
        accepted.shutdown(socket.SHUT_WR)
        accepted.recv(MOST_HEAD_BYTES)  # what is unread when it is closed would take the answer back


def _reopened() -> int:
    try:
        return os.open(os.devnull, os.O_RDONLY)
    except OSError:
        return -1


@contextmanager
def serving_in_thread(app: Application, listening: socket.socket, handoff: Handoff) -> Iterator[Server]:
    """Answer requests beside what the caller does, in a thread of its own, which also makes the calls of `handoff`."""
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
