"""Parties and the parameters of the market: who may trade, how they are taxed, under which rules."""

from __future__ import annotations

from bursa.market.commands import (
    ChangeRules,
    RegisterParty,
    ReinstateParty,
    SetTaxProfile,
    SuspendParty,
    UpdateParty,
)
from bursa.market.events import (
    Done,
    PartyRegistered,
    PartyReinstated,
    PartySuspended,
    PartyUpdated,
    Rejected,
    RulesChanged,
    TaxProfileSet,
)
from bursa.market.refusals import check_profile, check_text, known_party, refuse
from bursa.market.rules import RULE_LIMITS, broken_rule
from bursa.market.state import Party, State
from bursa.market.trading import cancel_all
from bursa.market.types import Rejection


def on_register_party(state: State, command: RegisterParty, at_ns: int) -> Done | Rejected:
    """Add a party."""
    refusal = _check_identifiers(command)
    if refusal:
        return refusal
    state.counters.party += 1
    party = Party(state.counters.party, _plain(command.tax_id), _plain(command.payout_account))
    assert party.party_id not in state.parties, party
    assert at_ns >= state.now_ns, at_ns
    state.parties[party.party_id] = party
    state.open_orders[party.party_id] = set()
    state.events.append(PartyRegistered(party.party_id, party.tax_id, party.payout_account))
    return Done(party.party_id)


def _check_identifiers(command: RegisterParty | UpdateParty) -> Rejected | None:
    return check_text("tax_id", command.tax_id, may_be_empty=True) or check_text(
        "payout_account", command.payout_account, may_be_empty=True
    )


def _plain(identifier: str) -> str:
    """Return a tax id or account without what people put between its characters, so that equal ones are equal."""
    return "".join(character for character in identifier.upper() if character not in " -./")


def on_update_party(state: State, command: UpdateParty, at_ns: int) -> Done | Rejected:
    """Replace a party's identifiers; not while it has open orders, for they decide who may trade with whom."""
    refusal = _check_identifiers(command)
    if refusal:
        return refusal
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    if state.open_orders[party.party_id]:
        return refuse(Rejection.WRONG_STATE, "party_id", "a party without open orders")
    party.tax_id, party.payout_account = _plain(command.tax_id), _plain(command.payout_account)
    assert state.parties[party.party_id] is party, party
    assert at_ns >= state.now_ns, at_ns
    state.events.append(PartyUpdated(party.party_id, party.tax_id, party.payout_account))
    return Done(party.party_id)


def on_set_tax_profile(state: State, command: SetTaxProfile, at_ns: int) -> Done | Rejected:
    """Set how future purchases are taxed."""
    profile = command.profile
    refusal = (
        check_profile(profile.country, profile.scheme, profile.vat_ppm)
        or check_text("profile.evidence", profile.evidence, may_be_empty=True)
        or check_text("profile.rule_version", profile.rule_version, may_be_empty=True)
    )
    if refusal:
        return refusal
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    party.tax = profile
    assert state.parties[party.party_id].tax is profile, party
    assert at_ns >= state.now_ns, at_ns
    state.events.append(TaxProfileSet(party.party_id, profile))
    return Done(party.party_id)


def on_suspend_party(state: State, command: SuspendParty, at_ns: int) -> Done | Rejected:
    """Cancel a party's open orders and take no new ones."""
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    if party.is_suspended:
        return refuse(Rejection.PARTY_SUSPENDED, "party_id", "a party that is not suspended yet")
    party.is_suspended = True
    state.events.append(PartySuspended(party.party_id))
    cancel_all(state, party.party_id, at_ns)
    assert party.is_suspended, party
    assert not state.open_orders[party.party_id], party
    return Done(party.party_id)


def on_reinstate_party(state: State, command: ReinstateParty, at_ns: int) -> Done | Rejected:
    """Lift a suspension."""
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    if not party.is_suspended:
        return refuse(Rejection.WRONG_STATE, "party_id", "a party that is suspended")
    party.is_suspended = False
    assert not state.open_orders[party.party_id], party
    assert at_ns >= state.now_ns, at_ns
    state.events.append(PartyReinstated(party.party_id))
    return Done(party.party_id)


def on_change_rules(state: State, command: ChangeRules, at_ns: int) -> Done | Rejected:
    """Replace the parameters; orders and rentals that exist keep what was agreed."""
    rule = broken_rule(command.rules)
    if rule:
        low, high = RULE_LIMITS[rule]
        hint = ", and more than in_doubt_seconds" if rule == "lost_seconds" else ""
        return refuse(Rejection.INVALID_FIELD, f"rules.{rule}", f"{low} to {high}{hint}")
    state.rules = command.rules
    assert not broken_rule(state.rules), state.rules
    assert at_ns >= state.now_ns, at_ns
    state.events.append(RulesChanged(command.rules))
    return Done()
