"""Names of a scenario: what people call parties, hosts, orders, rentals and transfers, and the ids behind them.

Invariant: one name means one id of a kind for the whole scenario; ids never show in a scenario, except as `#7`.
"""

from dataclasses import dataclass, field
from typing import Final

from bursa.market.rules import MarketRules
from tests.market.scenario_grammar import Place

#: Time 0:00 of every scenario: 2026-01-01T00:00:00Z.
START_NS: Final = 1_767_225_600 * 10**9

#: Ledger accounts that carry the id of something behind a colon, and of what.
_ACCOUNT_KINDS: Final = {
    "customer_receivable": "party",
    "seller_receivable": "party",
    "wallet": "party",
    "frozen": "party",
    "seller_pending": "party",
    "seller_available": "party",
    "payout_in_transit": "party",
    "refund_in_transit": "party",
    "hold": "order",
    "held": "rental",
}
#: The ledger accounts without an id in them, up to their first colon.
_OTHER_ACCOUNTS: Final = (
    "psp_clearing", "bank", "input_vat", "fx_position", "vat_accrued", "vat_payable", "suspense",
    "revenue.passthrough", "revenue.platform_fee", "revenue.fx_margin", "rounding", "cost.gpu_hours", "cost.psp_fees",
    "cost.dispute_fees", "cost.payout_fees", "cost.chargeback_loss", "cost.goodwill", "fx_gain_loss",
)  # fmt: skip


@dataclass
class Names:
    """Ids by name and names by id, for each kind of thing; and the few facts that short lines leave out."""

    ids: dict[tuple[str, str], int] = field(default_factory=dict)
    shown: dict[tuple[str, int], str] = field(default_factory=dict)
    host_gpus: dict[str, int] = field(default_factory=dict)
    instruments: list[str] = field(default_factory=list)
    rules: MarketRules = field(default_factory=MarketRules)

    def bind(self, place: Place, kind: str, name: str, thing_id: int) -> None:
        """Give an id a name; a second name for it is an alias, and shown from then on."""
        assert thing_id > 0, (kind, name, thing_id)
        if self.ids.get((kind, name), thing_id) != thing_id:
            raise place.error(kind, name, f"a new name, this one is taken by {kind} #{self.ids[kind, name]}")
        self.ids[kind, name] = thing_id
        self.shown[kind, thing_id] = name

    def id_of(self, place: Place, kind: str, name: str) -> int:
        """Return the id behind a name, or behind `#7`; raise ScenarioError for an unknown name."""
        if name.startswith("#"):
            return int(name[1:])
        found = self.ids.get((kind, name))
        if found is None:
            known = ", ".join(known_name for known_kind, known_name in self.ids if known_kind == kind)
            raise place.error(kind, name, f"a {kind} named before: {known or 'there is none yet'}")
        return found

    def name_of(self, kind: str, thing_id: int) -> str:
        """Return the name of an id, or `#7` if the scenario gave it none."""
        return self.shown.get((kind, thing_id), f"#{thing_id}")

    def account_name(self, account: str) -> str:
        """Return a ledger account with its id replaced by the name: `hold:B1`."""
        head, colon, tail = account.partition(":")
        kind = _ACCOUNT_KINDS.get(head)
        return f"{head}:{self.name_of(kind, int(tail))}" if kind and colon and tail.isdecimal() else account

    def account_id(self, place: Place, account: str) -> str:
        """Return a ledger account as the engine writes it, from one with a name in it."""
        head, colon, tail = account.partition(":")
        if head not in _ACCOUNT_KINDS and head not in _OTHER_ACCOUNTS:
            known = ", ".join(sorted((*_ACCOUNT_KINDS, *_OTHER_ACCOUNTS)))
            raise place.error("account", account, f"a ledger account, one of {known}")
        kind = _ACCOUNT_KINDS.get(head)
        return f"{head}:{self.id_of(place, kind, tail)}" if kind and colon else account

    def instrument(self, place: Place, text: str) -> str:
        """Return the instrument named, or the only one there is where a line names none."""
        if text:
            return text
        if len(self.instruments) != 1:
            raise place.error("instrument", "", f"`of INSTRUMENT`, since there are {len(self.instruments)} instruments")
        return self.instruments[0]
