"""The operator, the payment provider and the bank: funds, disputes, invoices, rates, halts, rules, parties."""

from msgspec.structs import replace

from bursa.market import (
    HOUR_NS,
    INT_MAX,
    MINUTE_NS,
    BookState,
    ChangeRules,
    Command,
    CreditTopUp,
    FailRefund,
    HaltBook,
    ListInstrument,
    OpenBook,
    PostChargeback,
    PostEntry,
    Posting,
    PostInvoice,
    PreopenBook,
    RegisterParty,
    ReinstateParty,
    ResumeBook,
    ReturnPayout,
    SetRate,
    SetTaxProfile,
    SettlePayout,
    SettleRefund,
    SuspendParty,
    UpdateParty,
    WinChargeback,
    WriteOffDebt,
)
from bursa.money import Currency
from tests.sim.world import CENT_MICROS, INSTRUMENTS, MIDS, PROFILES, RULES, World


class Staff:
    """Each method makes one command of the current moment, or None."""

    def __init__(self, world: World) -> None:
        self.world = world

    # ---- funds -----------------------------------------------------------------------------------------------------

    def top_up(self) -> Command:
        world = self.world
        plan = world.pick(world.buyers)
        cents = max(500, plan.wealth_cents * world.between(50, 150) // 100)
        micros = cents * CENT_MICROS
        if world.chance(0.02):
            micros = world.pick((micros + 1, 4_990_000, 0, -micros, INT_MAX // CENT_MICROS * CENT_MICROS))
        party_id = plan.party_id if world.chance(0.995) else 1_000_000
        provider = world.pick(("stripe", "sandbox", "sepa"))
        currency = world.pick(plan.currencies)
        return CreditTopUp(
            command_id=world.next_id(), party_id=party_id, currency=currency, micros=micros, provider=provider
        )

    def refund_result(self) -> Command | None:
        world = self.world
        number = world.refunds.pop(world.between(0, len(world.refunds))) if world.refunds else 0
        if not number and not world.chance(0.05):
            return None
        number = number if world.chance(0.95) else world.between(1, 5_000)
        if world.chance(0.7):
            return SettleRefund(command_id=world.next_id(), refund_id=number, provider="stripe")
        return FailRefund(command_id=world.next_id(), refund_id=number)

    def payout_result(self) -> Command | None:
        world = self.world
        number = world.payouts.pop(world.between(0, len(world.payouts))) if world.payouts else 0
        if not number and not world.chance(0.05):
            return None
        number = number if world.chance(0.95) else world.between(1, 5_000)
        if world.chance(0.7):
            return SettlePayout(command_id=world.next_id(), payout_id=number)
        return ReturnPayout(command_id=world.next_id(), payout_id=number)

    def chargeback(self) -> Command:
        world = self.world
        plan = world.pick(world.buyers)
        kind = PostChargeback if world.chance(0.6) else WinChargeback
        return kind(
            command_id=world.next_id(),
            party_id=plan.party_id,
            currency=world.pick(plan.currencies),
            micros=max(1, plan.wealth_cents * world.between(0, 250) // 100) * CENT_MICROS,
            provider="stripe",
        )

    def write_off(self) -> Command:
        world = self.world
        debts = [
            (int(name.partition(":")[2]), Currency(currency))
            for currency, accounts in world.mirror.ledger.balances.items()
            for name in accounts
            if name.startswith("customer_receivable:")
        ]
        party_id, currency = world.pick(debts) if debts and world.chance(0.9) else (world.party_id(), Currency.USD)
        return WriteOffDebt(command_id=world.next_id(), party_id=party_id, currency=currency)

    def invoice(self) -> Command | None:
        world = self.world
        accrued = world.mirror.ledger.accrued
        if not accrued:
            return None
        (party_id, currency, country), micros = next(iter(accrued.items()))
        profile = world.mirror.parties[party_id].profile if party_id else None
        if profile is None or micros < CENT_MICROS:
            accrued[party_id, currency, country] = accrued.pop((party_id, currency, country))
            return None
        invoiced = micros // CENT_MICROS * CENT_MICROS
        if world.chance(0.03):
            invoiced += world.pick((1, -CENT_MICROS * 100, 10**12))
        return PostInvoice(
            command_id=world.next_id(),
            party_id=party_id,
            currency=Currency(currency),
            country=country,
            scheme=profile.scheme.value,
            accrued_micros=micros,
            invoiced_micros=invoiced,
            invoice=f"INV-{world.last_id}",
        )

    def entry(self) -> Command:
        """Post an operator's entry: settlement, fees, hedging; sometimes one that is not allowed."""
        world = self.world
        party_id = world.party_id()
        micros = world.between(1, 5_000_000)
        debit, credit = world.pick((
            ("bank", "psp_clearing:stripe"),
            ("cost.psp_fees", "psp_clearing:sandbox"),
            ("fx_gain_loss", "fx_position"),
            ("bank", "suspense"),
            (f"wallet:{party_id}", "bank"),
            (f"seller_pending:{party_id}", "bank"),
            ("revenue.passthrough", "bank"),
        ))  # fmt: skip
        currency = world.pick(tuple(Currency)).value
        postings = (Posting(currency, debit, micros, 0), Posting(currency, credit, 0, micros))
        if world.chance(0.05):
            postings = (postings[0], Posting(currency, credit, 0, micros + 1))
        made_by, approved_by = ("ana", "ben") if world.chance(0.95) else ("ana", "ana")
        return PostEntry(
            command_id=world.next_id(), made_by=made_by, approved_by=approved_by, memo="settlement", postings=postings
        )

    def rate(self) -> Command:
        """Set the ECB's mid; sometimes one that is older than what is in force, or of the future."""
        world = self.world
        currency = world.pick(tuple(MIDS))
        age = world.between(0, 20 * MINUTE_NS) if world.chance(0.9) else world.between(-HOUR_NS, 100 * HOUR_NS)
        mid = MIDS[currency] * world.between(970, 1_031) // 1_000
        return SetRate(command_id=world.next_id(), currency=currency, mid_micros=mid, as_of_ns=world.now_ns - age)

    # ---- books and rules -------------------------------------------------------------------------------------------

    def halt(self) -> Command:
        world = self.world
        halted = [name for name, state in world.mirror.books.items() if state is BookState.HALTED]
        if halted and world.chance(0.7):
            return ResumeBook(command_id=world.next_id(), instrument=world.pick(halted) if world.chance(0.8) else "")
        name = "" if world.chance(0.1) else world.pick(tuple(INSTRUMENTS))
        return HaltBook(command_id=world.next_id(), instrument=name if world.chance(0.97) else "no-such-gpu")

    def resume(self) -> Command | None:
        """Reopen what has been halted; halts shall not last for most of a run."""
        world = self.world
        halted = [name for name, state in world.mirror.books.items() if state is BookState.HALTED]
        return ResumeBook(command_id=world.next_id(), instrument=world.pick(halted)) if halted else None

    def book(self) -> Command:
        """Try a book command in a state where it mostly does not apply, or set a new reference price."""
        world = self.world
        name = world.pick((*INSTRUMENTS, "no-such-gpu"))
        dice = world.between(0, 3)
        if dice == 0:
            return PreopenBook(command_id=world.next_id(), instrument=name, opens_at_ns=world.now_ns + HOUR_NS)
        if dice == 1:
            return OpenBook(command_id=world.next_id(), instrument=name)
        listed = world.pick(tuple(INSTRUMENTS))
        return ListInstrument(command_id=world.next_id(), instrument=listed, reference_micros=INSTRUMENTS[listed][0])

    def rules(self) -> Command:
        world = self.world
        now = world.mirror.rules
        changed = world.pick((
            replace(RULES, fee_bps=world.pick((0, 500, 1_000, 1_250))),
            replace(RULES, fx_margin_bps=world.pick((0, 50, 100, 300))),
            replace(now, fx_age_hours_max=world.pick((1, 96))),
            replace(now, dispute_hours=world.pick((0, 2, 6, 12))),
            replace(now, halt_move_percent=world.pick((15, 25, 30)), halt_minutes=world.pick((1, 5))),
            replace(now, penalty_failed_bps=world.pick((0, 1_000, 10_000))),
            replace(now, tick_micros=0),
            replace(now, lost_seconds=5),
            RULES,
        ))  # fmt: skip
        return ChangeRules(command_id=world.next_id(), rules=changed)

    # ---- parties ---------------------------------------------------------------------------------------------------

    def suspend(self) -> Command:
        world = self.world
        suspended = [party.party_id for party in world.mirror.parties.values() if party.is_suspended]
        if suspended and world.chance(0.6):
            return ReinstateParty(command_id=world.next_id(), party_id=world.pick(suspended))
        party_id = world.party_id() if world.chance(0.95) else 1_000_000
        return SuspendParty(command_id=world.next_id(), party_id=party_id)

    def party(self) -> Command:
        """Change a party's papers or its tax; or sign up a new one that never trades."""
        world = self.world
        dice = world.between(0, 10)
        if dice == 0:
            return RegisterParty(command_id=world.next_id(), tax_id=f"late-{world.last_id}")
        party_id = world.party_id() if world.chance(0.95) else 1_000_000
        if dice < 6:
            return SetTaxProfile(command_id=world.next_id(), party_id=party_id, profile=world.pick(PROFILES))
        owner = world.between(0, 40)
        return UpdateParty(
            command_id=world.next_id(), party_id=party_id, tax_id=f"T{owner}", payout_account=f"B{party_id}"
        )
