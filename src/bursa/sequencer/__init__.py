"""One order, durable, then the answer: the log, its leader, its feed, snapshots and replay."""

from bursa.sequencer.clock import Clock, GuardedClock
from bursa.sequencer.export import FORMS, export
from bursa.sequencer.feed import Feed, SlowReaderError, Subscription
from bursa.sequencer.log import Position, load
from bursa.sequencer.node import Node
from bursa.sequencer.records import Answer, Record, Submitter
from bursa.sequencer.verify import VerifyReport, verify

__all__ = [
    "FORMS",
    "Answer",
    "Clock",
    "Feed",
    "GuardedClock",
    "Node",
    "Position",
    "Record",
    "SlowReaderError",
    "Submitter",
    "Subscription",
    "VerifyReport",
    "export",
    "load",
    "verify",
]
