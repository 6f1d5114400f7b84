"""The HTTP server by itself: what it understands, what it refuses, and that nobody can keep others out."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from slipstream.device.workers.polling import readable
from slipstream.service import server as module
from slipstream.service.handoff import Handoff
from slipstream.service.http import Response, json_response, refusal
from slipstream.service.limits import Limits, connection_limits
from slipstream.service.server import serving_in_thread
from tests.device.test_cpu import open_files_limited

LARGEST = 1 << 20


class Echo:
    """Gives bodies back: at once, or for /later when it is told to."""

    def __init__(self, handoff):
        self.waiting = []
        self._handoff = handoff

    def admit(self, request):
        if "transfer-encoding" in request.headers or request.length > LARGEST:
            return refusal(413, "expected a length")
        return refusal(429, "full") if request.path == "/full" else None

    def answer(self, request, body, reply):
        if request.path == "/later":
            self.waiting.append((body, reply))
            return None
        if request.path == "/fails":
            raise MemoryError
        return Response(200, (body or request.path.encode()) * int(request.headers.get("times", "1")), "text/plain")

    def essential(self, request):
        return request.path == "/healthz"

    def refuse(self, request, reason):
        return refusal({"late": 408, "crowded": 429}[reason], reason)

    def answer_all(self):
        for body, reply in self.waiting:
            self._handoff.hand(lambda body=body, reply=reply: reply(json_response(200, {"body": body.decode()})))
        self.waiting = []


@contextmanager
def echoing():
    """Run a server; give its port, its application and itself."""
    handoff = Handoff()
    app = Echo(handoff)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    with serving_in_thread(app, listening, handoff) as server:
        yield port, app, server


@pytest.fixture(scope="module")
def port():
    with echoing() as (found, _, _):
        yield found


@contextmanager
def connected(port, sent=b""):
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(sent)
        yield connection


def everything(connection):
    """Return all that comes until the other side closes."""
    found = b""
    while True:
        try:
            part = connection.recv(1 << 16)
        except ConnectionResetError:
            return found
        if not part:
            return found
        found += part


def answers(received):
    """Return status and body of each answer in what was received."""
    found = []
    while received:
        head, _, rest = received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split()[0]) if b"ontent-" in head else 0
        found.append((int(head.split()[1]), rest[:length]))
        received = rest[length:]
    return found


def next_answer(connection):
    """Return status and body of the next answer of a connection that stays open."""
    received = b""
    while True:
        part = connection.recv(1 << 16)
        assert part, received
        received += part
        head, blank, rest = received.partition(b"\r\n\r\n")
        if blank and len(rest) >= int(head.lower().partition(b"content-length:")[2].split()[0]):
            return int(head.split()[1]), rest


def ask(port, sent):
    """Return the answers to what is sent on a connection whose sender says that it sends no more."""
    with connected(port, sent) as connection:
        return answers(everything(connection))


def request(path="/", body=b"", method="POST", close=True, **headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if close:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode() + body


def wait_until(met):
    until = time.monotonic() + 60
    while not met():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_requests_sent_at_once_are_answered_in_their_order(port):
    sent = [request("/", f"number {number}".encode(), close=number == 49) for number in range(50)]
    assert ask(port, b"".join(sent)) == [(200, f"number {number}".encode()) for number in range(50)]


def test_requests_behind_one_that_takes_time_wait_for_it():
    with echoing() as (port, app, _):
        parts = [
            request("/later", b"slow", close=False),
            request("/", b"x" * 100_000, close=False),
            request("/", b"end"),
        ]
        with connected(port, b"".join(parts)) as connection:
            wait_until(lambda: app.waiting)
            app.answer_all()
            found = answers(everything(connection))
    assert found == [(200, b'{"body":"slow"}'), (200, b"x" * 100_000), (200, b"end")]


def test_a_request_that_arrives_byte_by_byte_is_one_request(port):
    with connected(port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request("/", b"slowly"):
            connection.sendall(bytes([byte]))
        assert answers(everything(connection)) == [(200, b"slowly")]


def test_a_connection_stays_open_unless_one_side_wants_otherwise(port):
    with connected(port, request("/", b"a", close=False)) as connection:
        assert next_answer(connection) == (200, b"a")
        connection.sendall(request("/", b"b", close=False))
        assert next_answer(connection) == (200, b"b")
    assert ask(port, b"GET /old HTTP/1.0\r\n\r\nGET /ignored HTTP/1.0\r\n\r\n") == [(200, b"/old")]
    with connected(port, b"GET /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n") as connection:
        assert next_answer(connection) == (200, b"/old")
        connection.sendall(b"GET /older HTTP/1.0\r\n\r\n")
        assert next_answer(connection) == (200, b"/older")


def test_whoever_sends_no_more_still_gets_the_answer():
    with echoing() as (port, app, _), connected(port, request("/later", b"half", close=False)) as connection:
        connection.shutdown(socket.SHUT_WR)
        wait_until(lambda: app.waiting)
        app.answer_all()
        assert answers(everything(connection)) == [(200, b'{"body":"half"}')]


def test_a_body_is_sent_for_where_that_is_asked(port):
    head, _, body = request("/", b"wanted", Expect="100-continue").partition(b"\r\n\r\n")
    with connected(port, head + b"\r\n\r\n") as connection:
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert answers(everything(connection)) == [(200, b"wanted")]


MALFORMED = {
    "no request": b"hello\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "other version": b"PRI * HTTP/2.0\r\n\r\n",
    "spaces": b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a line feed alone": b"GET / HTTP/1.1\nHost: a\r\n\r\n",
    "a line feed in a header": b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
    "a carriage return in a header": b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
    "a NUL": b"GET / HTTP/1.1\r\nHost: a\0\r\n\r\n",
    "folded": b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
    "no colon": b"GET / HTTP/1.1\r\nHost\r\n\r\n",
    "space before the colon": b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "bytes in the path": b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    "a list of lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx",
    "negative length": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    "signed length": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx",
    "endless length": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
    "length and chunks": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_not_http_is_refused_and_nothing_behind_it_is_read(port, name):
    ((status, body),) = ask(port, MALFORMED[name] + request("/smuggled"))
    assert status == 400
    assert "expected" in json.loads(body)["error"]


def test_a_body_in_chunks_is_refused_and_not_taken_for_requests(port):
    sent = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + request("/smuggled")
    assert [status for status, _ in ask(port, sent)] == [413]


def test_a_head_without_end_is_refused(port):
    assert [status for status, _ in ask(port, b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000)] == [431]
    assert [status for status, _ in ask(port, b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n")] == [431]


def test_the_body_of_a_refused_request_is_no_request(port):
    sent = request("/full", request("/smuggled"), close=False) + request("/", b"next")
    assert [status for status, _ in ask(port, sent)] == [429, 200]
    with connected(port, request("/full", b"", close=False).replace(b"Length: 0", b"Length: 9999999")) as connection:
        received = everything(connection)  # so long a body is not waited for
        assert answers(received)[0][0] == 413
        assert b"Connection: close" in received


def test_a_mistake_in_an_answer_is_told_and_others_go_on(port):
    assert [status for status, _ in ask(port, request("/fails", close=False) + request("/", b"on"))] == [500, 200]


def test_a_head_that_does_not_end_is_closed_after_a_while(monkeypatch):
    monkeypatch.setattr(module, "HEAD_SECONDS", 0.3)
    with echoing() as (port, _, _):
        with connected(port, b"POST / HTTP/1.1\r\nHost: a\r\nX: ") as slow, connected(port) as silent:
            assert [status for status, _ in answers(everything(slow))] == [408]
            assert everything(silent) == b""
        assert ask(port, request("/", b"fine")) == [(200, b"fine")]


def test_a_body_that_does_not_end_is_closed_after_a_while(monkeypatch):
    monkeypatch.setattr(module, "BODY_SECONDS", 0.3)
    with echoing() as (port, _, server):
        with connected(port, request("/", b"12345")[:-1]) as slow:
            assert [status for status, _ in answers(everything(slow))] == [408]
        assert server.reading == 0


def test_bodies_that_are_being_read_have_a_budget(monkeypatch):
    monkeypatch.setattr(module, "MOST_READING_BYTES", 1000)
    with echoing() as (port, _, server):
        body = b"x" * 900
        with connected(port, request("/", body)[:-1]) as first:
            wait_until(lambda: server.reading == 900)
            with connected(port, request("/", body)[:-1]) as second:
                assert [status for status, _ in answers(everything(second))] == [429]
            first.sendall(b"x")
            assert answers(everything(first)) == [(200, body)]
        assert ask(port, request("/", body)) == [(200, body)]
        assert server.reading == 0


def test_answers_that_nobody_reads_stop_the_requests(monkeypatch):
    """A thousand answers of a megabyte are asked for, and none is read: few of them are made, then it is closed."""
    monkeypatch.setattr(module, "HEAD_SECONDS", 0.5)
    with echoing() as (port, _, server), connected(port) as deaf:
        deaf.settimeout(30)
        endless = request("/", b"x" * 1000, close=False, times=1000) * 20_000
        with pytest.raises(ConnectionError):
            deaf.sendall(endless)
        wait_until(lambda: not server._all)


# Limits


@contextmanager
def limited(monkeypatch, connections, spare=2):
    monkeypatch.setattr(module, "connection_limits", lambda: Limits(connections, spare))
    with echoing() as found:
        yield found


def test_beyond_the_limit_connections_are_refused_at_once_but_for_health(monkeypatch):
    with limited(monkeypatch, 4) as (port, app, _), ExitStack() as stack:
        sent = [request("/later", f"{number}".encode()) for number in range(4)]
        admitted = [stack.enter_context(connected(port, one)) for one in sent]
        wait_until(lambda: len(app.waiting) == 4)
        for _ in range(10):
            with connected(port, request("/", b"more")) as refused:
                received = everything(refused)
            assert answers(received)[0][0] == 503
            assert b"Retry-After: 1" in received
            assert ask(port, request("/healthz", method="GET")) == [(200, b"/healthz")]
        app.answer_all()
        found = [answers(everything(one)) for one in admitted]
        assert found == [[(200, f'{{"body":"{number}"}}'.encode())] for number in range(4)]
        assert ask(port, request("/", b"again")) == [(200, b"again")]


def test_half_sent_heads_keep_nobody_out(monkeypatch):
    monkeypatch.setattr(module, "SPARE_SECONDS", 0.1)
    with limited(monkeypatch, 8) as (port, _, _), ExitStack() as stack:
        half = [stack.enter_context(connected(port, b"POST / HTTP/1.1\r\nX: ")) for _ in range(100)]
        wait_until(lambda: len(readable([one.fileno() for one in half], 0.0)) >= 92)  # told or hung up on
        time.sleep(0.2)
        for _ in range(20):
            assert ask(port, request("/", b"in")) == [(200, b"in")]
            assert ask(port, request("/healthz", method="GET")) == [(200, b"/healthz")]
        assert {status for one in half for status, _ in answers(everything(one))} <= {408, 503}


def test_a_crowd_beyond_the_limit_is_told_so(monkeypatch):
    """Every one of 300 that come at once gets an answer, or is hung up on; the service goes on."""
    with limited(monkeypatch, 4) as (port, app, server), ExitStack() as stack:
        held = [stack.enter_context(connected(port, request("/later", b"held"))) for _ in range(4)]
        wait_until(lambda: len(app.waiting) == 4)
        crowd = [stack.enter_context(connected(port, request("/", b"crowd"))) for _ in range(300)]
        statuses = Counter(status for one in crowd for status, _ in answers(everything(one)))
        assert set(statuses) == {503}
        assert statuses[503] > 0
        assert len(server._all) <= 4 + 2 * 2
        app.answer_all()
        assert [answers(everything(one)) for one in held] == [[(200, b'{"body":"held"}')]] * 4


def test_health_is_told_in_the_middle_of_a_crowd_that_came_at_once(monkeypatch):
    """All of them wait to be accepted when the loop looks: silent ones before and behind the one that asks."""
    blocked, release = threading.Event(), threading.Event()

    def block():
        blocked.set()
        release.wait(60)

    with limited(monkeypatch, 4, 4) as (port, app, _), ExitStack() as stack:
        app._handoff.hand(block)
        assert blocked.wait(60)
        crowd = [stack.enter_context(connected(port)) for _ in range(100)]
        asking = stack.enter_context(connected(port, request("/healthz", method="GET")))
        crowd += [stack.enter_context(connected(port)) for _ in range(3)]
        release.set()
        assert answers(everything(asking)) == [(200, b"/healthz")]
        assert len(crowd) == 103


def test_who_is_refused_again_and_again_is_read_less_often_but_answered(monkeypatch):
    monkeypatch.setattr(module, "FREE_REFUSALS", 0)
    with echoing() as (port, _, server):
        with connected(port, request("/full", close=False)) as eager:
            assert next_answer(eager)[0] == 429
            wait_until(lambda: server._held)
            eager.sendall(request("/", b"patience"))
            assert answers(everything(eager)) == [(200, b"patience")]
        assert not server._held


@contextmanager
def no_descriptor_left():
    """Open files until no more can be."""
    with ExitStack() as stack:
        highest = max(int(entry.name) for entry in Path("/dev/fd").iterdir())
        stack.enter_context(open_files_limited(highest + 1))
        with suppress(OSError):
            while True:
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        yield


def test_without_a_descriptor_connections_are_refused_and_later_taken():
    with echoing() as (port, _, _), ExitStack() as stack:
        assert ask(port, request("/", b"before")) == [(200, b"before")]
        clients = [stack.enter_context(socket.socket()) for _ in range(20)]
        with no_descriptor_left():
            for client in clients:
                client.settimeout(30)
                client.connect(("127.0.0.1", port))
                client.sendall(request("/", b"now"))
            statuses = Counter(status for client in clients for status, _ in answers(everything(client)))
        assert set(statuses) == {503}
        assert ask(port, request("/", b"after")) == [(200, b"after")]


def test_where_not_even_a_refusal_is_possible_connections_wait_until_it_is():
    with echoing() as (port, _, _), socket.socket() as client:
        client.settimeout(30)
        with open_files_limited(3):
            client.connect(("127.0.0.1", port))
            client.sendall(request("/", b"patience"))
            time.sleep(0.5)
        assert answers(everything(client)) == [(200, b"patience")]


def test_the_limit_of_connections_follows_that_of_open_files():
    for files in (64, 256, 4096):
        with open_files_limited(files):
            limits = connection_limits()
        assert 1 <= limits.connections < files
        assert limits.connections + 2 * limits.spare < files
    with open_files_limited(10_000):
        assert connection_limits().connections > 5000


# The thread of the loop


def test_calls_from_another_thread_wake_the_loop_once_for_many():
    handoff, made = Handoff(), []
    listening = socket.create_server(("127.0.0.1", 0))
    blocked, release = threading.Event(), threading.Event()
    with serving_in_thread(Echo(handoff), listening, handoff):

        def block():
            blocked.set()
            release.wait(60)

        handoff.hand(block)
        assert blocked.wait(60)
        before = handoff.wakeups
        for number in range(1000):
            handoff.hand(lambda number=number: made.append(number))
        assert handoff.wakeups - before <= 1
        release.set()
        wait_until(lambda: len(made) == 1000)
    assert made == list(range(1000))


def test_a_server_that_ends_sends_the_answers_that_are_there_and_leaves_no_thread():
    threads = threading.active_count()
    with ExitStack() as stack:
        with echoing() as (port, app, _):
            connection = stack.enter_context(connected(port, request("/later", b"last", close=False)))
            idle = stack.enter_context(connected(port))
            wait_until(lambda: app.waiting)
            app.answer_all()
        assert answers(everything(connection)) == [(200, b'{"body":"last"}')]
        assert everything(idle) == b""
    assert threading.active_count() == threads
