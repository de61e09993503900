"""Serving one stream: a seat, a reader, its head, its chunks, and leaving no task behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from bursa import services
from bursa.api.answers import Receive, Request
from bursa.api.gateway import Gateway
from bursa.api.operation import SSE_MEDIA, Call, Operation
from bursa.api.problems import problem_from
from bursa.api.streams import STREAM_HEAD, Reader, parse_event_id, pump, write_stream
from bursa.ops import metrics


async def follow(gateway: Gateway, op: Operation, request: Request, call: Call) -> None:
    """Send a stream until its reader goes, is dropped, or has had its time."""
    last_seq = parse_event_id(call.header(b"last-event-id"))
    if op.stream == "own" and last_seq is None:
        # "Now" is before the head is sent: whoever has seen the head misses nothing that comes after it.
        last_seq = gateway.exchange.feed.seq
    gateway.seats.take(call.address)
    try:
        if op.stream == "market":
            reader = await gateway.markets.open(call.path["instrument"], last_seq)
        else:
            reader = gateway.open_own()
        try:
            await _send(gateway, op, request, call, reader, last_seq)
        finally:
            reader.end()
            if reader.on_close is not None:
                reader.on_close()
    finally:
        gateway.seats.leave(call.address)


async def _send(
    gateway: Gateway, op: Operation, request: Request, call: Call, reader: Reader, last_seq: int | None
) -> None:
    """Send head and chunks; beside that, watch for the client's leaving, and fill the reader of an own stream."""

    def show_problem(error: BaseException) -> object:
        return problem_from(error, request.trace_id)

    async def check_key() -> None:
        await services.authenticate(gateway.exchange, call.secret)

    await request.start_stream(SSE_MEDIA)
    if request.is_head:
        await request.finish_stream()
        return
    tasks = [asyncio.create_task(_watch(request.receive, reader))]
    check: Callable[[], Awaitable[None]] | None = None
    if op.stream == "own":
        source = services.own_events(gateway.exchange, call.actor, after_seq=last_seq)
        tasks.append(asyncio.create_task(pump(reader, source, show_problem)))
        check = check_key
    try:
        await request.send_chunk(STREAM_HEAD)
        await write_stream(reader, request.send_chunk, gateway.limits, check, show_problem)
        await request.finish_stream()
    except TimeoutError:
        # The reader does not even take its last event: the server closes the connection of what is unfinished.
        metrics.SSE_DROPPED.inc()
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def _watch(receive: Receive, reader: Reader) -> None:
    """End a stream when its client goes."""
    while (await receive())["type"] != "http.disconnect":
        pass
    reader.end()
