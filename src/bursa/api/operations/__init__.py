"""The table of operations: every method of every path of the API, in the order in which the document lists them."""

from typing import Final

from bursa.api.operation import Operation
from bursa.api.operations.admin import ADMIN_OPERATIONS
from bursa.api.operations.market import MARKET_OPERATIONS
from bursa.api.operations.selling import SELLING_OPERATIONS
from bursa.api.operations.service import SERVICE_OPERATIONS
from bursa.api.operations.trading import TRADING_OPERATIONS
from bursa.api.operations.wallet import WALLET_OPERATIONS

__all__ = ["OPERATIONS", "TAGS"]

#: What each tag of the document stands for.
TAGS: Final[dict[str, str]] = {
    "market": "GPUs, prices, books, trades: public, no key needed.",
    "orders": "Bids, and whatever both sides of the book have in common.",
    "rentals": "What was bought and what was let.",
    "wallet": "Balances, statement, top-ups, refunds, payouts.",
    "selling": "Hosts and asks.",
    "keys": "Who one is, and the keys of one's party.",
    "operator": "For the party that runs the exchange.",
    "service": "Health, metrics, and this document.",
}

OPERATIONS: Final[tuple[Operation, ...]] = (
    *TRADING_OPERATIONS,
    *MARKET_OPERATIONS,
    *WALLET_OPERATIONS,
    *SELLING_OPERATIONS,
    *ADMIN_OPERATIONS,
    *SERVICE_OPERATIONS,
)
