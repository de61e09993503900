"""Market scenarios: text files of commands, each with the result and postings that must come, run against the engine.

Role: the runner. `run_scenario` reads a file, plays it, and raises ScenarioError for a line that cannot be used or
AssertionError for one that came out otherwise, both with file and line. Docs: docs/reference/scenario-format.md.
The parts: scenario_grammar (text), scenario_names (names and ids), scenario_commands and scenario_checks (the forms),
scenario_world (the engine with its audit, replay and snapshots).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bursa.market.commands import ChangeRules, Command, ListInstrument, PostEntry
from bursa.market.events import Event, Rejected
from tests.market.scenario_checks import (
    EFFECT_FORMS,
    EXPECT_FORMS,
    RESULT_FORMS,
    check_effects,
    check_expectation,
    check_result,
)
from tests.market.scenario_commands import FORMS, Context
from tests.market.scenario_grammar import (
    Fields,
    Form,
    Place,
    Statement,
    match_form,
    read_clock_ns,
    read_span_ns,
    read_statements,
)
from tests.market.scenario_names import START_NS
from tests.market.scenario_world import World

AT_FORM: Final = Form("at {clock:clock}", lambda: None)
WAIT_FORM: Final = Form("wait {span:span}", lambda: None)
TIME_FORMS: Final = (AT_FORM, WAIT_FORM)

#: Every form of the format as the reference page shows it, by the section it stands in.
SHOWN_FORMS: Final = {
    "time": tuple(form.shown for form in TIME_FORMS),
    "commands": tuple(form.shown for form in FORMS),
    "results": tuple(form.shown for form in RESULT_FORMS),
    "effects": tuple(form.shown for form in EFFECT_FORMS),
    "expectations": tuple(form.shown for form in EXPECT_FORMS),
}


@dataclass(frozen=True)
class Played:
    """What became of a scenario: the exchange as it stands at the end, and which forms and refusals occurred."""

    world: World
    forms: frozenset[str]
    refusals: frozenset[str]


def run_scenario(path: Path, *, restores: bool = False) -> Played:
    """Play a scenario file; with `restores`, put the engine back from its own snapshot after each command."""
    return run_text(path.read_text(encoding="utf-8"), path.name, restores=restores)


def run_text(text: str, file: str, *, restores: bool = False) -> Played:
    """Play the text of a scenario; raise ScenarioError or AssertionError at the first line that is not right."""
    world = World(restores=restores)
    forms: set[str] = set()
    statements = read_statements(text, file)
    for statement in statements:
        for _repetition in range(statement.times):
            forms.add(_play(world, statement))
        for place, effect in statement.effects:
            forms.add(match_form(EFFECT_FORMS, place, effect)[0].shown)
    last = statements[-1].place if statements else Place(file, 1, "")
    world.demand_replay(last)
    refusals = frozenset(
        str(outcome.result.code) for _c, _at, outcome in world.log if isinstance(outcome.result, Rejected)
    )
    return Played(world, frozenset(forms), refusals)


def _play(world: World, statement: Statement) -> str:
    """Play one statement; return the form it has."""
    place, body = statement.place, statement.body
    if body.startswith("expect "):
        if statement.result is not None:
            raise place.error("result", statement.result, "no result behind an expectation")
        check_expectation(world, place, body)
        return match_form(EXPECT_FORMS, place, body)[0].shown
    if body.split()[0] in ("at", "wait"):
        if statement.result is not None:
            raise place.error("result", statement.result, "no result behind a time")
        form, fields = match_form(TIME_FORMS, place, body)
        is_span = fields.texts.get("span") is not None
        target = (
            world.now_ns + read_span_ns(fields.text("span"))
            if is_span
            else START_NS + read_clock_ns(fields.text("clock"))
        )
        _refuse_stray_input(statement, None)
        check_effects(world, statement.effects, world.tick_until(place, target))
        return form.shown
    return _play_command(world, statement)


def _play_command(world: World, statement: Statement) -> str:
    """Apply one command and what is due at once after it; compare result and effects."""
    place = statement.place
    form, fields = match_form(FORMS, place, statement.body)
    command_id = statement.tag or f"{place.file}-{len(world.log)}"
    command = form.build(Context(fields, world.names, command_id, world.now_ns, statement))
    _refuse_stray_input(statement, command)
    earlier = world.accepted.get(command_id)
    outcome = world.apply(place, command, _new_of(form, fields))
    is_repeated = earlier is not None and earlier == (command, outcome)
    check_result(place, statement.result or "ok", command, outcome, is_repeated=is_repeated)
    events: tuple[Event, ...] = outcome.events
    if not isinstance(outcome.result, Rejected) and not is_repeated:
        _learn(world, command)
        events += world.tick_until(place, world.now_ns)
    check_effects(world, statement.effects, events)
    return form.shown


def _refuse_stray_input(statement: Statement, command: Command | None) -> None:
    """Refuse `with` lines below a command that reads none: a line without a meaning would pass unseen."""
    for place, effect in statement.effects:
        if effect.startswith("with ") and not isinstance(command, PostEntry):
            raise place.error("effect", effect, "`with` only below `operator posts`; `post` is what checks a posting")


def _new_of(form: Form[Command], fields: Fields) -> tuple[str, str] | None:
    return (form.names, fields.text("new")) if form.names else None


def _learn(world: World, command: Command) -> None:
    """Keep the facts that later lines may leave out."""
    if isinstance(command, ListInstrument) and command.instrument not in world.names.instruments:
        world.names.instruments.append(command.instrument)
    if isinstance(command, ChangeRules):
        world.names.rules = command.rules
