"""Buyers and sellers: what they order, amend, cancel, stop, extend, take back and take out."""

from msgspec.structs import replace

from bursa.market import (
    DAY_NS,
    HOUR_NS,
    MINUTE_NS,
    NO_FILTERS,
    AmendAsk,
    AmendBid,
    CancelOrder,
    Command,
    ExtendRental,
    Filters,
    HostOffer,
    HostState,
    PlaceAsk,
    PlaceBid,
    ReclaimRental,
    RequestPayout,
    RequestRefund,
    SetAutoExtend,
    StopRental,
    TimeInForce,
)
from bursa.money import Currency
from tests.sim.world import CENT_MICROS, COUNTRIES, TICK_MICROS, Plan, Wheel, World

_TIMES = Wheel([(55, "GTC"), (15, "GTD"), (24, "IOC"), (6, "FOK")])
_GPUS = Wheel([(52, "1"), (14, "2"), (14, "4"), (16, "8"), (2, "3"), (2, "16")])
_HOURS = Wheel([(20, "1"), (18, "2"), (15, "3"), (15, "4"), (14, "6"), (10, "8"), (5, "12"), (2, "24"), (1, "60")])


class People:
    """Each method makes one command of the current moment, or None when there is nothing to act on."""

    def __init__(self, world: World) -> None:
        self.world = world

    # ---- buyers ----------------------------------------------------------------------------------------------------

    def bid(self) -> Command:
        world = self.world
        plan = world.pick(world.buyers)
        instrument = world.instruments.spin(world.rng)
        time_in_force = TimeInForce(_TIMES.spin(world.rng))
        is_wild = world.chance(0.03)
        currency = Currency.USD if world.chance(0.02) else world.pick(plan.currencies)
        bid = PlaceBid(
            command_id=world.next_id(),
            party_id=plan.party_id,
            instrument=instrument,
            gpus=int(_GPUS.spin(world.rng)),
            hours=int(_HOURS.spin(world.rng)),
            limit_micros=world.price_near(instrument, 80, 95)
            if world.chance(0.4)
            else world.price_near(instrument, 95, 112),
            lots=1 if world.chance(0.75) else world.between(2, 6),
            currency=currency,
            time_in_force=time_in_force,
            expires_at_ns=world.now_ns + world.between(MINUTE_NS, 2 * DAY_NS)
            if time_in_force is TimeInForce.GTD
            else 0,
            filters=self._filters() if world.chance(0.3) else NO_FILTERS,
        )
        return self._wild(bid) if is_wild else bid

    def pile(self) -> Command:
        """One of a few large buyers puts one more small bid on the pile: these reach the limit of open orders."""
        world = self.world
        plan = world.buyers[world.between(0, min(40, len(world.buyers)))]
        instrument = world.instruments.spin(world.rng)
        return PlaceBid(
            command_id=world.next_id(),
            party_id=plan.party_id,
            instrument=instrument,
            gpus=1,
            hours=1,
            limit_micros=world.price_near(instrument, 55, 85),
            currency=world.pick(plan.currencies),
        )

    def _filters(self) -> Filters:
        world = self.world
        country, group = world.pick(COUNTRIES)
        dice = world.between(0, 8)
        if dice == 0:
            return Filters(regions=(group or country,))
        if dice == 1:
            return Filters(regions=("DE", "US"), is_verified_only=True)
        if dice == 2:
            return Filters(reliability_min=world.pick((500, 880, 900, 950)))
        if dice == 3:
            return Filters(ram_gib_min=world.pick((8, 32, 128)), vcpus_min=world.pick((0, 4, 16)))
        if dice == 4:
            return Filters(disk_gib_min=world.pick((10, 50, 500)), regions=(country,))
        if dice == 5:
            hosts = world.mirror.hosts
            return Filters(avoid_hosts=tuple(sorted({world.between(1, len(hosts) + 2) for _ in range(3)})))
        return Filters(is_verified_only=True)

    def _wild(self, bid: PlaceBid) -> PlaceBid:
        """Return the bid with one thing that the rules refuse (or nearly)."""
        world = self.world
        changes: tuple[dict[str, object], ...] = (
            {"limit_micros": bid.limit_micros + 1},
            {"limit_micros": bid.limit_micros * 3 // TICK_MICROS * TICK_MICROS},
            {"limit_micros": 0},
            {"gpus": 17},
            {"gpus": 0},
            {"hours": 241},
            {"hours": 0},
            {"lots": 65},
            {"lots": 0},
            {"lots": 64},
            {"time_in_force": TimeInForce.GTD, "expires_at_ns": world.now_ns + 5 * DAY_NS},
            {"time_in_force": TimeInForce.GTD, "expires_at_ns": max(1, world.now_ns - MINUTE_NS)},
            {"time_in_force": TimeInForce.GTC, "expires_at_ns": world.now_ns + DAY_NS},
            {"instrument": "b200-from-nowhere"},
            {"party_id": 1_000_000},
            {"currency": world.pick(tuple(Currency))},
            {"limit_micros": 10**12, "hours": 240, "lots": 64, "gpus": 16},
        )
        return replace(bid, **world.pick(changes))

    def amend_bid(self) -> Command | None:
        world = self.world
        order_id = world.mirror.open_bids.pick(world.rng)
        if not order_id:
            return None
        bid = world.mirror.bids[order_id]
        limit = bid.limit_micros if world.chance(0.4) else world.price_near(bid.terms.instrument, 88, 112)
        lots = bid.lots if world.chance(0.5) else world.between(1, 8)
        party_id = bid.terms.party_id if world.chance(0.98) else world.party_id()
        return AmendBid(command_id=world.next_id(), party_id=party_id, order_id=order_id, limit_micros=limit, lots=lots)

    def cancel(self) -> Command | None:
        world = self.world
        mirror = world.mirror
        is_bid = world.chance(0.85)
        order_id = (mirror.open_bids if is_bid else mirror.open_asks).pick(world.rng)
        if world.chance(0.03):
            order_id = world.between(1, mirror.last_order + 20)
        if not order_id:
            return None
        order = mirror.bids.get(order_id) or mirror.asks.get(order_id)
        party_id = order.terms.party_id if order and world.chance(0.98) else world.party_id()
        return CancelOrder(command_id=world.next_id(), party_id=party_id, order_id=order_id)

    def cancel_bids(self) -> Command | None:
        """Cancel a bid that has stood long enough; keeps the number of open orders in bounds."""
        world = self.world
        order_id = world.mirror.open_bids.pick(world.rng)
        if not order_id:
            return None
        party_id = world.mirror.bids[order_id].terms.party_id
        return CancelOrder(command_id=world.next_id(), party_id=party_id, order_id=order_id)

    def _rental(self) -> tuple[int, int]:
        """Return a rental and who acts on it: mostly the renter of a live one."""
        world = self.world
        mirror = world.mirror
        rental_id = mirror.live_rentals.pick(world.rng)
        if world.chance(0.03):
            rental_id = world.between(1, mirror.last_rental + 5)
        rental = mirror.rentals.get(rental_id)
        if rental is None or world.chance(0.02):
            return rental_id, world.party_id()
        return rental_id, rental.trade.buyer_id

    def stop(self) -> Command | None:
        rental_id, party_id = self._rental()
        if not rental_id:
            return None
        return StopRental(command_id=self.world.next_id(), party_id=party_id, rental_id=rental_id)

    def extend(self) -> Command | None:
        world = self.world
        rental_id, party_id = self._rental()
        rental = world.mirror.rentals.get(rental_id)
        if not rental_id:
            return None
        price = rental.trade.price_micros if rental else TICK_MICROS
        return ExtendRental(
            command_id=world.next_id(),
            party_id=party_id,
            rental_id=rental_id,
            hours=world.pick((1, 1, 2, 3, 5, 8, 0, 230)),
            limit_micros=price * world.between(9, 14) // 10 // TICK_MICROS * TICK_MICROS,
        )

    def auto_extend(self) -> Command | None:
        world = self.world
        rental_id, party_id = self._rental()
        rental = world.mirror.rentals.get(rental_id)
        if rental is None:
            return None
        hours = world.pick((0, 1, 1, 2, 4))
        price = rental.trade.price_micros
        return SetAutoExtend(
            command_id=world.next_id(),
            party_id=party_id,
            rental_id=rental_id,
            hours=hours,
            limit_micros=price * world.between(9, 15) // 10 // TICK_MICROS * TICK_MICROS if hours else 0,
            cap_micros=price * rental.trade.gpus * world.between(1, 40) if hours else 0,
        )

    def refund(self) -> Command:
        world = self.world
        plan = world.pick(world.buyers)
        currency = world.pick(plan.currencies)
        free = world.mirror.ledger.balance(f"wallet:{plan.party_id}", currency)
        cents = free // CENT_MICROS if world.chance(0.3) else world.between(1, max(2, free // CENT_MICROS // 4))
        micros = cents * CENT_MICROS + (1 if world.chance(0.03) else 0) + (CENT_MICROS if world.chance(0.05) else 0)
        return RequestRefund(command_id=world.next_id(), party_id=plan.party_id, currency=currency, micros=micros)

    # ---- sellers ---------------------------------------------------------------------------------------------------

    def ask(self) -> Command | None:
        world = self.world
        mirror = world.mirror
        plan = world.pick(world.sellers)
        hosts = [mirror.hosts[host_id] for host_id in mirror.parties[plan.party_id].hosts]
        idle = [host for host in hosts if not host.ask_id and (host.state is HostState.HEALTHY or world.chance(0.05))]
        if not idle and not world.chance(0.1):
            return None
        if not hosts:
            return None
        first = world.pick(idle or hosts)
        offers = [first]
        if world.chance(0.3):
            offers += [host for host in idle if host is not first and host.instrument == first.instrument][:5]
        ask = PlaceAsk(
            command_id=world.next_id(),
            party_id=plan.party_id,
            offers=tuple(HostOffer(host.host_id, self._offered(host.spec.gpus)) for host in offers),
            price_micros=world.price_near(first.instrument, 94, 116),
            min_gpus=1 if world.chance(0.8) else world.pick((2, 4, 8)),
            min_hours=1 if world.chance(0.7) else world.pick((2, 4, 6)),
            max_hours=240 if world.chance(0.7) else world.pick((4, 8, 24)),
            price_lock_hours=world.pick((1, 24, 24, 0)),
            until_ns=0 if world.chance(0.7) else world.now_ns + world.between(3 * HOUR_NS, 4 * DAY_NS),
        )
        return self._wild_ask(ask, plan) if world.chance(0.06) else ask

    def _offered(self, gpus: int) -> int:
        return gpus if self.world.chance(0.8) else self.world.between(1, gpus + 1)

    def _wild_ask(self, ask: PlaceAsk, plan: Plan) -> PlaceAsk:
        world = self.world
        host_id = ask.offers[0].host_id
        stranger = world.between(1, len(world.mirror.hosts) + 3)
        changes: tuple[dict[str, object], ...] = (
            {"price_micros": ask.price_micros + 7},
            {"price_micros": max(TICK_MICROS, ask.price_micros // 4 // TICK_MICROS * TICK_MICROS)},
            {"price_micros": 0},
            {"offers": (HostOffer(host_id, 17),)},
            {"offers": (HostOffer(host_id, 0),)},
            {"offers": ()},
            {"offers": (HostOffer(host_id, 1), HostOffer(host_id, 1))},
            {"offers": (HostOffer(stranger, 1),)},
            {"offers": (HostOffer(999_999, 1),)},
            {"offers": tuple(HostOffer(host_id + n, 1) for n in range(5))},
            {"min_gpus": 17},
            {"min_hours": 9, "max_hours": 8},
            {"max_hours": 241},
            {"until_ns": world.now_ns + 400 * DAY_NS},
            {"until_ns": max(1, world.now_ns - HOUR_NS)},
            {"party_id": world.party_id()},
            {"party_id": plan.party_id + 1_000_000},
        )
        return replace(ask, **world.pick(changes))

    def amend_ask(self) -> Command | None:
        world = self.world
        mirror = world.mirror
        order_id = mirror.open_asks.pick(world.rng)
        if not order_id:
            return None
        ask = mirror.asks[order_id]
        offers = tuple(HostOffer(host_id, gpus) for host_id, gpus in ask.offers.items())
        dice = world.between(0, 10)
        if dice < 2:
            offers = tuple(HostOffer(host_id, self._offered(mirror.hosts[host_id].spec.gpus)) for host_id in ask.offers)
        elif dice == 2:
            others = mirror.parties[ask.terms.party_id].hosts
            offers = (*offers, HostOffer(world.pick(others), 1))
        elif dice == 3 and len(offers) > 1:
            offers = offers[1:]
        price = ask.price_micros if world.chance(0.25) else world.price_near(ask.terms.instrument, 94, 116)
        party_id = ask.terms.party_id if world.chance(0.98) else world.party_id()
        return AmendAsk(
            command_id=world.next_id(), party_id=party_id, order_id=order_id, price_micros=price, offers=offers
        )

    def reclaim(self) -> Command | None:
        world = self.world
        rental_id = world.mirror.live_rentals.pick(world.rng)
        if world.chance(0.05):
            rental_id = world.between(1, world.mirror.last_rental + 5)
        if not rental_id:
            return None
        rental = world.mirror.rentals.get(rental_id)
        party_id = rental.trade.seller_id if rental and world.chance(0.95) else world.party_id()
        return ReclaimRental(command_id=world.next_id(), party_id=party_id, rental_id=rental_id)

    def payout(self) -> Command:
        world = self.world
        plan = world.pick(world.sellers)
        free = world.mirror.ledger.balance(f"seller_available:{plan.party_id}", "USD")
        cents = free // CENT_MICROS if world.chance(0.7) else world.between(1, 100_000)
        currency = Currency.EUR if world.chance(0.03) else Currency.USD
        return RequestPayout(
            command_id=world.next_id(), party_id=plan.party_id, currency=currency, micros=cents * CENT_MICROS
        )
