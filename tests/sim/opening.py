"""The first day: parties sign up and pay in, hosts are checked, books go CLOSED → PREOPEN → NO_CANCEL → auction."""

from collections.abc import Generator
from typing import Final

from bursa.market import (
    MINUTE_NS,
    SECOND_NS,
    BookState,
    CheckHost,
    Command,
    CreditTopUp,
    Done,
    ListInstrument,
    OpenBook,
    Outcome,
    PreopenBook,
    RegisterParty,
    SetRate,
    SetTaxProfile,
)
from bursa.money import Currency
from tests.sim.fleet import Fleet
from tests.sim.people import People
from tests.sim.staff import Staff
from tests.sim.world import CENT_MICROS, INSTRUMENTS, MIDS, PROFILES, Plan, World

#: Orders sent before the opening auction, by party.
ORDERS_BEFORE_OPENING: Final = 4
#: Time to the opening for each of those orders, and at least: longer than the ten minutes without cancels.
OPENS_AFTER_MIN_NS: Final = 13 * MINUTE_NS
OPENS_AFTER_NS: Final = 2 * SECOND_NS

Opening = Generator[Command, Outcome, None]


def opening(world: World, people: People, staff: Staff, fleet: Fleet, parties: int) -> Opening:
    """Yield the commands of the first day; each is answered with its outcome."""
    for number in range(parties):
        yield from _sign_up(world, number)
    for currency, mid in MIDS.items():
        yield SetRate(command_id=world.next_id(), currency=currency, mid_micros=mid, as_of_ns=world.now_ns)
    for name, (price, _) in INSTRUMENTS.items():
        reference = 0 if name == "l40s" else price
        yield ListInstrument(command_id=world.next_id(), instrument=name, reference_micros=reference)
    for plan in world.sellers:
        for _ in range(plan.host_count):
            yield from _add_host(world, fleet, plan)
    for _ in range(20):
        yield people.bid()
        yield people.ask() or people.bid()
    yield PreopenBook(command_id=world.next_id(), opens_at_ns=0)
    orders = parties * ORDERS_BEFORE_OPENING
    opens_at_ns = world.now_ns + max(OPENS_AFTER_MIN_NS, orders * OPENS_AFTER_NS)
    yield PreopenBook(command_id=world.next_id(), opens_at_ns=opens_at_ns)
    for number in range(orders):
        yield _before_opening(world, people)
        if number == orders // 4:
            yield OpenBook(command_id=world.next_id(), instrument="l40s")
    while any(state in {BookState.PREOPEN, BookState.NO_CANCEL} for state in world.mirror.books.values()):
        yield people.cancel() or people.bid()
        yield people.amend_bid() or people.bid()
        yield staff.top_up()


def _before_opening(world: World, people: People) -> Command:
    dice = world.between(0, 20)
    command = people.ask() if dice < 7 else people.cancel() if dice == 7 else people.amend_bid() if dice == 8 else None
    return command or people.bid()


def _sign_up(world: World, number: int) -> Opening:
    """Register a party, decide its tax, pay in. One in eight is linked to another, one in ten is poor."""
    kind = number % 5
    owner = number // 2 if number % 8 == 1 else 1_000 + number
    outcome = yield RegisterParty(
        command_id=world.next_id(),
        tax_id="" if kind == 4 else f"T{owner}",
        payout_account=f"B{number // 3 if number % 16 == 5 else 1_000 + number}",
    )
    assert isinstance(outcome.result, Done), outcome
    party_id = outcome.result.id
    profile = world.pick(PROFILES)
    if number % 50 != 49:
        yield SetTaxProfile(command_id=world.next_id(), party_id=party_id, profile=profile)
    euro = profile.country in {"DE", "FR", "IT", "FI"}
    own = Currency.EUR if euro else Currency.GBP if profile.country == "GB" else Currency.USD
    currencies = (Currency.USD,) if world.chance(0.5) else (own,) if world.chance(0.7) else (Currency.USD, own)
    wealth = 600 if number % 10 == 3 else world.pick((20_000, 100_000, 500_000, 2_000_000))
    plan = Plan(party_id, kind < 2, kind != 1, tuple(dict.fromkeys(currencies)), wealth, world.between(1, 7))
    world.plans.append(plan)
    (world.sellers if plan.is_seller else world.buyers).append(plan)
    if plan.is_seller and plan.is_buyer:
        world.buyers.append(plan)
    for currency in plan.currencies if plan.is_buyer else ():
        micros = wealth * CENT_MICROS
        yield CreditTopUp(
            command_id=world.next_id(), party_id=party_id, currency=currency, micros=micros, provider="stripe"
        )


def _add_host(world: World, fleet: Fleet, plan: Plan) -> Opening:
    command = fleet.list_host(plan)
    if command is None:
        return
    outcome = yield command
    assert isinstance(outcome.result, Done), outcome
    host_id = outcome.result.id
    if world.chance(0.95):
        yield CheckHost(command_id=world.next_id(), host_id=host_id, is_verified=world.chance(0.6))
