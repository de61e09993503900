"""Sellers' machines. Today only simulated ones: what the demo sells, and who plays their part in a rental."""

from bursa.hosts.demo import (
    DEMO_OFFERS,
    DEMO_SELLERS,
    DemoOffer,
    DemoSeller,
    seed_demo,
)
from bursa.hosts.ports import (
    Answered,
    CommandPort,
    Committed,
)
from bursa.hosts.simulated import (
    BATCH_COMMANDS_MAX,
    RECHECK_NS,
    RETRY_NS,
    START_NS_MAX,
    START_NS_MIN,
    WIPE_NS,
    SimulatedFleet,
)

__all__ = [
    "BATCH_COMMANDS_MAX",
    "DEMO_OFFERS",
    "DEMO_SELLERS",
    "RECHECK_NS",
    "RETRY_NS",
    "START_NS_MAX",
    "START_NS_MIN",
    "WIPE_NS",
    "Answered",
    "CommandPort",
    "Committed",
    "DemoOffer",
    "DemoSeller",
    "SimulatedFleet",
    "seed_demo",
]
