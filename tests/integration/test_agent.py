"""The agent: what it says to a node, what it does when told, and what it keeps when nobody listens."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.asyncio.server import ServerConnection, serve

from fairway.wire.messages import (
    Acks,
    Adjust,
    Beat,
    Begin,
    Draining,
    FromWorker,
    Goodbye,
    HandBack,
    Heard,
    Held,
    Hello,
    Logs,
    Look,
    Refusal,
    Result,
    Results,
    Seen,
    Stop,
    ToWorker,
    Welcome,
)
from fairway.worker.agent import Agent
from fairway.worker.app import WorkerOptions, build_agent
from fairway.worker.socket_transport import address_of, connector
from fairway.worker.transport import LocalTransport
from tests.integration.worker_world import (
    PATIENCE_SECONDS,
    call,
    command,
    eventually,
    few_descriptors,
    is_gone,
    wait_behind_others,
)


class Port:
    """A node's end of one connection, played by the test."""

    def __init__(self, term: int = 1, beat_seconds: float = 0.05, lease_seconds: float = 0.0) -> None:
        """*lease_seconds*: of what ends with it; 0: the hello is not heard."""
        self.heard: list[FromWorker] = []
        self.answers = lease_seconds > 0  # beats
        self.outgoing: asyncio.Queue[list[ToWorker] | None] = asyncio.Queue()
        self.outgoing.put_nowait(
            [Welcome(1, term, "node", beat_seconds, 0.5, [], lease_seconds, heard=self.answers)]
        )
        self._news = asyncio.Event()
        self.straight: asyncio.Future[Callable[[list[ToWorker]], None]] = asyncio.Future()

    async def receive(self, message: FromWorker) -> None:
        """Remember what the worker said."""
        self.heard.append(message)
        self._news.set()
        if self.answers and isinstance(message, Beat):
            self.say(Heard(1, message.number))

    async def next_frames(self) -> AsyncIterator[list[ToWorker]]:
        """Say what the test wants said, until it hangs up."""
        while (messages := await self.outgoing.get()) is not None:
            yield messages

    def give_straight(self, give: Callable[[list[ToWorker]], None]) -> None:
        """What the worker hears comes from the queue, but for what the test gives it by this call."""
        self.straight.set_result(give)

    def closed(self) -> None:
        """The worker hung up."""

    def say(self, *messages: ToWorker) -> None:
        """Send messages to the worker."""
        self.outgoing.put_nowait(list(messages))

    def hang_up(self) -> None:
        """End the connection."""
        self.outgoing.put_nowait(None)

    def of(self, kind: type[Any]) -> list[Any]:
        """Return all messages of one kind."""
        return [message for message in self.heard if isinstance(message, kind)]

    def results(self) -> list[Result]:
        """Return all results told."""
        return [result for message in self.of(Results) for result in message.results]

    def returned(self) -> list[Held]:
        """Return all attempts handed back."""
        return [held for message in self.of(HandBack) for held in message.attempts]

    async def until(self, fact: Callable[[], Any]) -> None:
        """Wait until *fact* holds, looking after every message."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not fact():
                self._news.clear()
                await self._news.wait()


class Node:
    """Gives the agent one port after the other; the test holds each."""

    def __init__(self) -> None:
        self.ports: asyncio.Queue[Port] = asyncio.Queue()

    async def connect(self) -> LocalTransport:
        """Hand out the next port, when the test has one."""
        return LocalTransport(await self.ports.get())

    async def open(self, **options: Any) -> Port:
        """Let the agent in, and wait for its hello."""
        port = Port(**options)
        self.ports.put_nowait(port)
        await port.until(lambda: port.of(Hello))
        return port


@pytest.fixture
def node() -> Node:
    """A node that is not there until the test opens a port."""
    return Node()


@pytest.fixture
async def agent(node: Node, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Agent]:
    """A running agent."""
    monkeypatch.chdir(Path(__file__).parent)
    options = WorkerOptions(name="w1", slots=2, apps=["adapter_tasks:app"], tags=["red"])
    agent = build_agent(options, node.connect)
    await agent.start()
    running = asyncio.create_task(agent.run())
    yield agent
    await agent.close(0)
    await asyncio.wait([running], timeout=5)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a slot is not handed back because this machine is busy."""
    wait_behind_others(monkeypatch)


async def test_an_agent_introduces_itself(agent: Agent, node: Node) -> None:
    hello = (await node.open()).of(Hello)[0]
    assert (hello.name, hello.slots, hello.tags) == ("w1", 2, ["red"])
    assert hello.adapters == ["command", "http", "python"]
    assert {"fairway", "python", "http"} <= set(hello.facts["versions"])
    assert "add" in {task.name for task in hello.tasks}
    assert hello.facts["pid"] == os.getpid() and hello.holds == []


async def test_it_runs_what_it_is_told_and_says_so_once(agent: Agent, node: Node) -> None:
    port = await node.open()
    begin = Begin(1, [call(1, "add", 2, 3), command(2, ["echo", "hi"]), call(3, "nap", 0)])
    port.say(begin, begin)
    await port.until(lambda: len(port.results()) >= 3 and port.of(Logs))
    assert {(result.job, result.kind) for result in port.results()} == {(1, "ok"), (2, "ok"), (3, "ok")}
    assert port.of(Logs)[0].pieces[0].text == "hi\n"


async def test_it_takes_what_a_node_in_its_own_process_gives_it_by_a_call(agent: Agent, node: Node) -> None:
    port = await node.open()
    begin = Begin(1, [call(1, "add", 2, 3)])
    give = await asyncio.wait_for(port.straight, PATIENCE_SECONDS)
    give([begin])
    port.say(begin)  # heard before
    await port.until(lambda: port.results())
    assert [(result.job, result.kind) for result in port.results()] == [(1, "ok")]


async def test_it_beats_and_names_what_it_holds_even_if_a_job_holds_the_gil(agent: Agent, node: Node) -> None:
    port = await node.open()
    port.say(Begin(1, [call(1, "hold_gil", 1.0)]))
    held = Held(1, 1, True)
    await port.until(lambda: sum(held in beat.holds for beat in port.of(Beat)) >= 5)
    assert port.results() == []


async def test_results_are_told_again_until_they_are_acknowledged(agent: Agent, node: Node) -> None:
    port = await node.open()
    port.say(Begin(1, [call(1, "add", 2, 3), call(2, "add", 2, 3)]))
    await port.until(lambda: len(port.results()) == 2)
    port.say(Acks(1, [(1, 1)], []))
    port.hang_up()
    second = await node.open()
    hello = second.of(Hello)[0]
    assert [result[:3] for result in hello.results] == [(2, 1, "ok")]
    assert hello.holds == []
    second.say(Acks(1, [], [(2, 1)]))
    second.hang_up()
    assert (await node.open()).of(Hello)[0].results == []


async def test_work_goes_on_while_no_node_answers(agent: Agent, node: Node) -> None:
    port = await node.open()
    port.say(Begin(1, [call(1, "sleep", 0.5)]))
    await port.until(lambda: any(beat.holds for beat in port.of(Beat)))
    port.hang_up()
    second = await node.open()
    assert [held[:2] for held in second.of(Hello)[0].holds] == [(1, 1)]
    await second.until(lambda: second.results())
    assert second.results()[0].kind == "ok"


async def test_a_begin_that_was_handed_back_is_handed_back_again(agent: Agent, node: Node) -> None:
    port = await node.open()
    stranger = call(1, "add", 1, 1)._replace(adapter="rails")
    port.say(Begin(1, [stranger]))
    await port.until(lambda: port.returned())
    port.say(Begin(1, [stranger]))
    await port.until(lambda: len(port.returned()) == 2)
    assert set(port.returned()) == {Held(1, 1, False)}


# --- what is begun ahead -----------------------------------------------------------------------------------
@pytest.mark.usefixtures("patient")
async def test_what_is_begun_ahead_starts_when_a_slot_is_free_in_its_order(agent: Agent, node: Node) -> None:
    port = await node.open()
    assert port.of(Hello)[0].ahead
    port.say(Begin(1, [call(1, "sleep", 0.3), call(2, "sleep", 0.25)]))
    bundle = [call(3, "add", 1, 1, bundle=1), call(4, "add", 1, 1, bundle=1)]
    port.say(Begin(1, [*bundle, call(5, "add", 1, 1)], ahead=True))
    await port.until(lambda: len(port.results()) == 5)
    told = [result.job for result in port.results()]
    assert told[0] in (1, 2) and [job for job in told if job in (3, 4)] == [3, 4]
    assert port.returned() == [] and len(agent._held) == agent._used == 0


@pytest.mark.usefixtures("patient")
async def test_it_starts_at_once_if_a_slot_is_free(agent: Agent, node: Node) -> None:
    port = await node.open()
    port.say(Begin(1, [call(1, "sleep", 5)]), Begin(1, [call(2, "add", 1, 1)], ahead=True))
    await port.until(lambda: port.results())
    assert [result[:3] for result in port.results()] == [(2, 1, "ok")]


async def test_it_is_handed_back_if_no_slot_is_free_for_a_moment(agent: Agent, node: Node) -> None:
    port = await node.open()
    port.say(Begin(1, [call(1, "sleep", 1.0), call(2, "sleep", 1.0)]))
    port.say(Begin(1, [call(3, "add", 1, 1, bundle=1), call(4, "add", 1, 1, bundle=1)], ahead=True))
    await port.until(lambda: len(port.returned()) == 2)
    assert set(port.returned()) == {Held(3, 1, False), Held(4, 1, False)} and port.results() == []
    await port.until(lambda: len(port.results()) == 2)
    assert {result.job for result in port.results()} == {1, 2}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("kind", ["cancelled", "stopped"])
async def test_what_waits_for_a_slot_can_be_stopped(agent: Agent, node: Node, kind: str) -> None:
    port = await node.open()
    port.say(Begin(1, [call(1, "sleep", 0.3), call(2, "sleep", 0.3)]))
    port.say(Begin(1, [call(3, "add", 1, 1), call(4, "add", 1, 1)], ahead=True))
    port.say(Stop(1, [Held(3, 1)], False, kind))
    await port.until(lambda: len(port.results()) + len(port.returned()) == 4)
    told = {result.job: result.kind for result in port.results()}
    assert told.get(3) == ("cancelled" if kind == "cancelled" else None)
    assert port.returned() == ([] if kind == "cancelled" else [Held(3, 1, False)])
    assert told[4] == "ok"


@pytest.mark.usefixtures("patient")
async def test_what_waits_for_a_slot_and_is_not_ours_any_more_never_starts(agent: Agent, node: Node) -> None:
    port = await node.open()
    port.say(Begin(1, [call(1, "sleep", 0.3), call(2, "sleep", 0.3)]))
    port.say(Begin(1, [call(3, "add", 1, 1)], ahead=True), Acks(1, [], [], [(3, 1)]))
    await port.until(lambda: len(port.results()) == 2)
    port.say(Begin(1, [call(4, "add", 1, 1)]))
    await port.until(lambda: len(port.results()) == 3)
    assert {result.job for result in port.results()} == {1, 2, 4}
    assert set(port.returned()) <= {Held(3, 1, False)}  # said of one that stood in its process


@pytest.mark.usefixtures("patient")
async def test_a_worker_that_drains_hands_back_what_waits_for_a_slot(agent: Agent, node: Node) -> None:
    port = await node.open()
    port.say(Begin(1, [call(1, "sleep", 0.5), call(2, "sleep", 0.5)]))
    port.say(Begin(1, [call(3, "add", 1, 1)], ahead=True), Adjust(1, None, None, True, None))
    await port.until(lambda: port.returned())
    assert port.returned() == [Held(3, 1, False)] and port.results() == []


async def test_an_older_term_is_not_obeyed(agent: Agent, node: Node) -> None:
    port = await node.open(term=5)
    port.say(Begin(4, [call(1, "add", 1, 1)]), Begin(5, [call(2, "add", 1, 1)]))
    await port.until(lambda: port.results())
    port.say(
        Begin(6, [call(3, "add", 1, 1)]), Begin(5, [call(4, "add", 1, 1)]), Begin(6, [call(5, "add", 1, 1)])
    )
    await port.until(lambda: len(port.results()) == 3)
    assert sorted(result.job for result in port.results()) == [2, 3, 5]


async def test_a_stop_ends_an_attempt_as_cancelled(agent: Agent, node: Node) -> None:
    port = await node.open()
    port.say(Begin(1, [call(1, "sleep", 60), command(2, ["sleep", "60"])]))
    await port.until(lambda: any({Held(1, 1, True), Held(2, 1, True)} <= set(b.holds) for b in port.of(Beat)))
    port.say(Stop(1, [Held(1, 1), Held(2, 1), Held(9, 9)]))
    await port.until(lambda: len(port.results()) == 2)
    assert {result.kind for result in port.results()} == {"cancelled"}


async def test_it_says_where_an_attempt_is_or_that_it_does_not_run_it(agent: Agent, node: Node) -> None:
    port = await node.open()
    port.say(Begin(1, [call(1, "sleep", 60)]))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not any("time.sleep" in seen.text for seen in port.of(Seen)):
            before = len(port.of(Seen))
            port.say(Look(1, before, 1, 1))
            await port.until(lambda before=before: len(port.of(Seen)) > before)
    port.say(Look(1, 777, 1, 2))
    await port.until(lambda: port.of(Seen)[-1].number == 777)
    assert not port.of(Seen)[-1].found


async def test_what_an_attempt_wrote_is_told_before_its_result(agent: Agent, node: Node) -> None:
    port = await node.open()
    for job in range(1, 21):
        port.say(Begin(1, [command(job, ["echo", "hello"])]))
    await port.until(lambda: len(port.results()) == 20)
    ended: set[int] = set()
    for message in port.heard:
        if isinstance(message, Logs):
            assert ended.isdisjoint(piece.job for piece in message.pieces)
        elif isinstance(message, Results):
            ended |= {result.job for result in message.results}


async def test_a_refused_agent_tries_again(agent: Agent, node: Node) -> None:
    refusing = Port()
    refusing.outgoing = asyncio.Queue()
    refusing.say(Refusal("protocol", "too old"))
    node.ports.put_nowait(refusing)
    port = await node.open()
    await asyncio.wait_for(agent.connected.wait(), PATIENCE_SECONDS)
    assert len(refusing.of(Hello)) == len(port.of(Hello)) == 1


async def test_refusals_that_follow_each_welcome_come_to_be_warned_of(
    agent: Agent, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "fairway")
    for _ in range(4):
        port = await node.open()
        port.say(Refusal("bad_frame", "no such note"))
    await node.open()
    said = [record.levelname for record in caplog.records if "no such note" in record.getMessage()]
    assert said == ["INFO", "INFO", "INFO", "WARNING"]


@pytest.mark.parametrize("when", ["connecting", "receiving"])
async def test_an_unforeseen_error_ends_a_connection_and_not_the_worker(
    agent: Agent, node: Node, caplog: pytest.LogCaptureFixture, when: str
) -> None:
    broken = Port()
    if when == "connecting":
        node.ports.put_nowait(None)  # type: ignore[arg-type]
    else:
        broken.outgoing.put_nowait(["not a message"])  # type: ignore[list-item]
        node.ports.put_nowait(broken)
    port = await node.open()
    port.say(Begin(1, [command(1, ["true"])]))
    await port.until(lambda: port.results())
    assert "AttributeError" in caplog.text


async def test_without_descriptors_it_beats_on_and_work_comes_to_an_end(agent: Agent, node: Node) -> None:
    port = await node.open()
    port.say(Begin(1, [call(1, "sleep", 60)]))
    await port.until(lambda: any(Held(1, 1, True) in beat.holds for beat in port.of(Beat)))
    with few_descriptors(0):
        port.say(
            Begin(1, [command(2, ["true"]), call(3, "sleep", 60), call(4, "nap", 0), call(5, "add", 1, 1)])
        )
        await port.until(lambda: len(port.returned()) == 3)
        beats = len(port.of(Beat))
        await port.until(lambda: len(port.of(Beat)) > beats + 2)
    assert port.results() == []  # nothing is the jobs' fault
    assert set(port.returned()) == {Held(2, 1, False), Held(4, 1, False), Held(5, 1, False)}
    assert {held.job for held in port.of(Beat)[-1].holds} == {1, 3}  # the third found a warm child
    port.say(Begin(1, [command(6, ["true"]), call(7, "add", 1, 1), call(8, "nap", 0)]))
    await port.until(lambda: len(port.results()) == 3)
    assert {result.kind for result in port.results()} == {"ok"}


async def test_a_lost_guardian_crashes_what_ran_and_work_goes_on(
    agent: Agent, node: Node, tmp_path: Path
) -> None:
    port, runs = await node.open(), tmp_path / "runs"
    # One whose process the guardian has not told of is handed back: the program itself says that it runs.
    port.say(Begin(1, [call(1, "sleep", 60), command(2, ["sh", "-c", f"echo > {runs}; exec sleep 60"])]))
    await port.until(lambda: any({Held(1, 1, True), Held(2, 1, True)} <= set(b.holds) for b in port.of(Beat)))
    await eventually(runs.exists)
    beats = len(port.of(Beat))
    await port.until(lambda: len(port.of(Beat)) > beats + 1)  # by then the agent has heard of it, too
    assert agent.warden.pid is not None
    os.kill(agent.warden.pid, signal.SIGKILL)
    await port.until(lambda: len(port.results()) == 2)
    assert {result.kind for result in port.results()} == {"crashed"}
    for attempt in range(1, 5):  # one that meets an idle child which is just dying comes back at no cost
        port.say(Begin(1, [call(3, "add", 1, 1)._replace(attempt=attempt)]))
        await port.until(lambda: len(port.results()) == 3 or len(port.returned()) == attempt)  # noqa: B023
        if len(port.results()) == 3:
            break
    assert port.results()[2].kind == "ok"


# --- the lease ------------------------------------------------------------------------------------------
KILLED, KEPT = Held(1, 1, True), Held(2, 1, True)


async def begin_both(port: Port) -> None:
    """Let two commands run: one that is to end with the lease, and one that is not."""
    port.say(Begin(1, [command(1, ["sleep", "60"])._replace(kill=True), command(2, ["sleep", "60"])]))
    await port.until(lambda: any({KILLED, KEPT} <= set(beat.holds) for beat in port.of(Beat)))


async def test_code_ends_with_the_lease_if_it_must_and_is_handed_back(agent: Agent, node: Node) -> None:
    port = await node.open(lease_seconds=1.5)
    await begin_both(port)
    beats = len(port.of(Beat))
    await port.until(lambda: len(port.of(Beat)) > beats + 40)  # two seconds of being heard
    assert port.returned() == []
    port.answers = False
    await port.until(lambda: port.returned())
    assert port.returned() == [KILLED] and port.results() == []
    beats = len(port.of(Beat))
    await port.until(lambda: len(port.of(Beat)) > beats)
    assert KEPT in port.of(Beat)[-1].holds


async def test_code_ends_with_the_lease_although_no_node_is_there_to_be_told(
    agent: Agent, node: Node
) -> None:
    port = await node.open(lease_seconds=1.5)
    await begin_both(port)
    port.hang_up()
    await eventually(lambda: (1, 1) in agent._outbox.handed_back)
    second = await node.open(lease_seconds=1.5)
    await second.until(lambda: second.returned())
    assert second.returned() == [KILLED]
    assert [held[:2] for held in second.of(Hello)[0].holds] == [(2, 1)]
    second.say(Begin(1, [command(1, ["true"])._replace(attempt=2, kill=True)]))
    await second.until(lambda: second.results())
    assert second.results()[0][:3] == (1, 2, "ok")


async def test_without_a_lease_what_must_end_with_it_is_handed_back(agent: Agent, node: Node) -> None:
    port = await node.open()
    port.say(Begin(1, [call(1, "sleep", 60)._replace(kill=True)]))
    await port.until(lambda: port.returned())
    assert port.returned() == [Held(1, 1, False)]


async def test_what_is_not_ours_any_more_ends_if_it_must(agent: Agent, node: Node) -> None:
    port = await node.open(lease_seconds=60.0)
    await begin_both(port)
    port.say(Acks(1, [], [], [(1, 1), (2, 1)]))
    await port.until(lambda: port.returned())
    assert port.returned() == [KILLED] and port.results() == []


# --- what it offers -------------------------------------------------------------------------------------
async def test_what_it_is_told_to_offer_its_next_hello_says(agent: Agent, node: Node) -> None:
    port = await node.open()
    port.say(Adjust(1, slots=5, queues=["acme/*"], draining=True))
    port.say(Begin(1, [call(1, "add", 1, 1)]))
    await port.until(lambda: port.returned())
    assert port.returned() == [Held(1, 1, False)]
    port.hang_up()
    second = await node.open()
    hello = second.of(Hello)[0]
    assert (hello.slots, hello.queues, hello.draining) == (5, ["acme/*"], True)
    second.say(Adjust(1, draining=False), Begin(1, [call(2, "add", 1, 1)]))
    await second.until(lambda: second.results())
    second.hang_up()
    assert not (await node.open()).of(Hello)[0].draining


async def test_when_the_deadline_is_over_what_can_be_is_handed_back(agent: Agent, node: Node) -> None:
    port = await node.open()
    once = command(3, ["sleep", "60"])._replace(once=True)
    port.say(Begin(1, [call(1, "sleep", 60), command(2, ["sleep", "60"]), once, call(4, "nap", 60)]))
    everything = {Held(job, 1, True) for job in (1, 2, 3, 4)}
    await port.until(lambda: any(everything <= set(beat.holds) for beat in port.of(Beat)))
    port.say(Adjust(1, draining=True, deadline_seconds=600.0), Adjust(1, draining=True, deadline_seconds=0.1))
    port.hang_up()  # the deadline is the worker's own
    second = await node.open()
    await second.until(lambda: {held.job for held in second.returned()} == {1, 2, 4})
    beats = len(second.of(Beat))
    await second.until(lambda: len(second.of(Beat)) > beats + 2)
    assert [held[:2] for held in second.of(Beat)[-1].holds] == [(3, 1)] and second.results() == []


async def test_a_drain_that_was_undone_stops_nothing(agent: Agent, node: Node) -> None:
    port = await node.open()
    port.say(Begin(1, [call(1, "sleep", 2)]))
    await port.until(lambda: any(Held(1, 1, True) in beat.holds for beat in port.of(Beat)))
    port.say(Adjust(1, draining=True, deadline_seconds=0.5), Adjust(1, draining=False))
    await port.until(lambda: port.results() or port.returned())
    assert [result.kind for result in port.results()] == ["ok"]


async def test_hurrying_hands_back_now_what_has_a_long_grace(agent: Agent, node: Node) -> None:
    port = await node.open()
    port.say(Begin(1, [call(1, "ignore_stops"), command(2, ["sleep", "60"])]))
    running = {Held(1, 1, True), Held(2, 1, True)}
    await port.until(lambda: any(running <= set(beat.holds) for beat in port.of(Beat)))
    closing = asyncio.create_task(agent.close(600.0))
    await port.until(lambda: port.of(Draining))
    agent.hurry()
    assert await asyncio.wait_for(closing, PATIENCE_SECONDS) == []
    assert set(port.returned()) == running and isinstance(port.heard[-1], Goodbye)


async def test_closing_leaves_nothing_untold(agent: Agent, node: Node) -> None:
    port = await node.open()
    bundle = [call(1, "sleep", 60, bundle=1), call(2, "add", 1, 1, bundle=1)]
    port.say(Begin(1, [*bundle, call(3, "nap", 60)]))
    running = {Held(1, 1, True), Held(3, 1, True)}
    await port.until(lambda: port.of(Beat) and running <= set(port.of(Beat)[-1].holds))
    closing = asyncio.create_task(agent.close(0.2))
    await asyncio.sleep(0)  # let it begin
    port.say(Begin(1, [call(4, "add", 1, 1)]))
    left = await asyncio.wait_for(closing, PATIENCE_SECONDS)
    assert set(port.returned()) == {Held(1, 1, True), Held(2, 1, False), Held(3, 1, True), Held(4, 1, False)}
    assert isinstance(port.heard[-1], Goodbye)
    assert left == []


async def test_closing_says_what_the_node_has_not_acknowledged(agent: Agent, node: Node) -> None:
    port = await node.open()
    port.say(Begin(1, [call(1, "add", 1, 1)]))
    await port.until(lambda: port.results())
    assert await agent.close(0) == [(1, 1)]


# --- who it is ------------------------------------------------------------------------------------------
async def test_a_worker_names_its_predecessor_once_that_is_gone(tmp_path: Path, node: Node) -> None:
    options = WorkerOptions(name="w/1", slots=1, data_dir=tmp_path)
    first = build_agent(options, node.connect)
    await first.start()
    rival = build_agent(options, node.connect)
    assert rival.identity.predecessor is None
    os.close(first.identity.lock_fd or -1)  # as its death would
    still_guarded = build_agent(options, node.connect)
    assert still_guarded.identity.predecessor is None
    await first.warden.close()
    second = build_agent(options, node.connect)
    assert second.identity.predecessor == first.identity.incarnation
    os.close(second.identity.lock_fd or -1)


# --- over a socket --------------------------------------------------------------------------------------
async def test_messages_travel_over_a_websocket() -> None:
    heard: list[FromWorker] = []
    hello = asyncio.Event()

    async def play_node(connection: ServerConnection) -> None:
        decoder = msgspec.msgpack.Decoder(FromWorker)
        heard.append(decoder.decode(await connection.recv()))
        await connection.send(msgspec.msgpack.encode(Welcome(1, 1, "node", 0.05, 10.0)))
        await connection.send(msgspec.msgpack.encode(Begin(1, [command(7, ["true"])])))
        hello.set()
        async for frame in connection:
            heard.append(decoder.decode(frame))

    async with serve(play_node, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        urls = ["http://127.0.0.1:1", f"http://127.0.0.1:{port}"]  # nobody answers at the first
        agent = build_agent(WorkerOptions(name="w1", slots=1), connector(urls))
        await agent.start()
        running = asyncio.create_task(agent.run())
        await eventually(lambda: any(isinstance(message, Results) for message in heard))
        await agent.close(0)
        await asyncio.wait([running], timeout=5)
    results = next(message for message in heard if isinstance(message, Results))
    assert isinstance(heard[0], Hello) and results.results[0][:3] == (7, 1, "ok")


def test_a_nodes_url_becomes_a_sockets_address() -> None:
    assert address_of("http://h:8899") == "ws://h:8899/v1/worker"
    assert address_of("https://h/x/") == "wss://h/x/v1/worker"
    assert address_of("h:1") == "ws://h:1/v1/worker"


# --- as a program ---------------------------------------------------------------------------------------
PROGRAM = """
import asyncio, sys
from fairway.worker.app import WorkerOptions, run_worker
options = WorkerOptions(join=sys.argv[1:2], name="w", slots=1, apps=sys.argv[2:], grace_seconds=600)
sys.exit(asyncio.run(run_worker(options)))
"""


async def start_program(*apps: str, join: str = "http://127.0.0.1:1") -> asyncio.subprocess.Process:
    """Start a worker; it finds no node, unless told where one is."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, join, *apps, stderr=asyncio.subprocess.PIPE, cwd=Path(__file__).parent
    )


async def test_an_app_that_fails_to_import_ends_the_worker_with_its_traceback() -> None:
    program = await start_program("no_such_module:app")
    _, errors = await asyncio.wait_for(program.communicate(), PATIENCE_SECONDS)
    assert program.returncode == 1
    assert b"cannot import no_such_module:app" in errors and b"ModuleNotFoundError" in errors


async def test_a_worker_ends_at_sigterm_although_no_node_answers() -> None:
    program = await start_program("adapter_tasks:app")
    assert program.stderr is not None
    await asyncio.wait_for(program.stderr.readline(), PATIENCE_SECONDS)  # it tried to connect
    program.terminate()
    await asyncio.wait_for(program.communicate(), PATIENCE_SECONDS)
    assert program.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_a_worker_at_once(number: int, tmp_path: Path) -> None:
    draining, said = asyncio.Event(), list[FromWorker]()
    path = tmp_path / "pid"

    async def play_node(connection: ServerConnection) -> None:
        await connection.recv()
        stubborn = command(7, ["sh", "-c", f"trap '' TERM; echo $$ > {path}; while :; do sleep 1; done"])
        for message in (Welcome(1, 1, "node", 2.0, 10.0), Begin(1, [stubborn])):
            await connection.send(msgspec.msgpack.encode(message))
        async for frame in connection:
            said.append(msgspec.msgpack.decode(frame, type=FromWorker))
            if isinstance(said[-1], Draining):
                draining.set()

    async with serve(play_node, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        program = await start_program(join=f"http://127.0.0.1:{port}")
        await eventually(lambda: path.exists() and path.read_text().strip())
        program.send_signal(number)
        await asyncio.wait_for(draining.wait(), PATIENCE_SECONDS)
        assert program.returncode is None  # its grace is ten minutes
        program.send_signal(number)
        await asyncio.wait_for(program.communicate(), PATIENCE_SECONDS)
    assert program.returncode == 0
    assert is_gone(int(path.read_text()))
    assert HandBack([Held(7, 1, True)]) in said and isinstance(said[-1], Goodbye)
