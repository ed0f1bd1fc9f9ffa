"""Record a session on D, replay it with frozen outputs on a neighbour D′, and hold the two against each other (R3).

`compare` returns every violation, by the rule that it breaks:

    draws       another number of draws, or other kinds, labels, cells, declared sensitivities, scales
    statements  other SQL, or the same SQL with other arguments
    answers     another answer or refusal, although every noisy value was the same
    plans       another plan from dp_plan, or another of its errors
    notices     another NOTICE or log line
    records     other rows in any table of schema dp
    accounts    other accounts, or other amounts in them
    sensitivity |exact - exact′| of one draw above what the mechanism declared
    price       a draw declared dearer than what its request charged to any account in its scope
    loss        the realised losses of a request, or of all draws of the session together, above what was charged to
                the accounts of the unit (composition.md §13), in the accountant's own measure; rounds that paid delta
                count as advanced composition has them
    epoch       a sparse vector tested against a threshold that was not opened for it, or again after its FAIL

Nothing here is statistical: a violation is a fact about two runs, not a likelihood.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import psycopg

from fix_decide_oracles import run_law
from fix_privacy import tap
from privacy.neighbours import Account, Neighbour

Connection = psycopg.Connection[Any]
Question = tuple[str, str, str]
SPARSE = frozenset({"sparse_start", "sparse_test"})
RUN_ERROR = 1e-9  # of a run's log-probability, which is a numeric integral
TOLERANCE = 1e-9  # of the Rényi curves, which are computed in doubles here and rounded up in the ledger


@dataclass(frozen=True)
class Spent:
    """What one account has spent."""

    epsilon: Fraction = Fraction(0)
    rdp: tuple[Fraction, ...] = ()
    delta: Fraction = Fraction(0)

    def __sub__(self, other: Spent) -> Spent:
        before = other.rdp or (Fraction(0),) * len(self.rdp)
        rdp = tuple(a - b for a, b in zip(self.rdp, before, strict=True))
        return Spent(self.epsilon - other.epsilon, rdp, self.delta - other.delta)


@dataclass
class Step:
    """One request of a session: what was said, drawn, issued, and paid by whom."""

    question: Question
    forecast: str
    reply: str
    draws: list[dict[str, Any]]
    statements: list[list[str]]
    said: list[list[str]]
    paid: dict[Account, Spent]


@dataclass
class Session:
    steps: list[Step] = field(default_factory=list)
    tables: dict[str, list[str]] = field(default_factory=dict)
    paid: dict[Account, Spent] = field(default_factory=dict)

    @property
    def outputs(self) -> list[list[int]]:
        return [draw["output"] for step in self.steps for draw in step.draws]


# Of what the plan of a question about a stored release says.
STORED = '"path": "stored release"', '"path": "family"'


def requests(conn: Connection, questions: Sequence[Question]) -> list[tuple[Question, str]]:
    """Each call as the request that the public function makes of it, once: the analyst's clock is in it.

    A question whose outcome is `set` changes his settings for those that follow; one that is `stopped` is a release in
    steps that ends after STOPPED_AFTER of them.
    """
    made = []
    for question in questions:
        if question[1] == "set":
            conn.execute(f"SET LOCAL {question[2]}")
            continue
        call = re.sub(r"^dp_(\w+)\(", r"dp.dp_\1_request(", question[2])
        row = conn.execute("SELECT " + call).fetchone()
        assert row is not None
        made.append((question, json.dumps(row[0])))
    conn.rollback()
    return made


ATTEMPTS = 40
"""Recordings that a control has to be seen in one of: a draw may hide it (an empty group that is answered by 0, where
the noisy answer is 0 too), at most every second one of any control; 2^-40 is left to chance."""


def run(
    conn: Connection,
    dataset: str,
    asked: Sequence[tuple[Question, str]],
    *,
    neighbour: Neighbour | None = None,
    frozen: list[list[int]] | None = None,
    controls: Sequence[str] = (),
    planned: bool = True,
) -> Session:
    """One session in one transaction of one backend of the installed engine; rolled back, rows and ledger alike.

    planned: each question is asked of dp_plan first; of a control that breaks another rule than `plans`, that is a
    third of its time for nothing.
    """
    notices: list[list[str]] = []

    def heard(message: psycopg.errors.Diagnostic) -> None:
        notices.append(["client", str(message.sqlstate), str(message.message_primary), str(message.message_detail)])

    session = Session()
    conn.add_notice_handler(heard)
    try:
        for statement in neighbour.statements if neighbour is not None else ():
            conn.execute(statement)
        start = before = accounts(conn, dataset)
        tap(conn, "begin", {"frozen": frozen, "controls": list(controls)})
        clock: set[str] = set()
        for number, (question, request) in enumerate(asked):
            notices.clear()
            forecast = plan(conn, question[0], request) if planned else ""
            name = str(uuid.uuid5(uuid.NAMESPACE_URL, str(number)))
            reply = ask(conn, name, question[0], request, stop=question[1] == "stopped")
            found = tap(conn, "collect")
            clock |= set(found["clock"])
            after = accounts(conn, dataset)
            session.steps.append(
                Step(
                    question,
                    timeless(
                        forecast, clock if any(path in forecast for path in STORED) else ()
                    ),  # when that was is told
                    timeless(json.dumps(reply, sort_keys=True), clock),
                    found["draws"],
                    [
                        [unhashed(timeless(str(part), clock), statement) for part in statement]
                        for statement in found["statements"]
                    ],
                    found["said"] + notices,
                    difference(after, before),
                )
            )
            before = after
        session.paid = difference(before, start)
        session.tables = tables(conn, clock)
        check_clock(clock)
        return session
    finally:
        conn.remove_notice_handler(heard)
        if not conn.broken:
            conn.rollback()
            tap(conn, "end")
            conn.rollback()


def plan(conn: Connection, who: str, request: str) -> str:
    """What dp_plan tells this analyst beforehand; its errors are raised, so it runs in a savepoint."""
    try:
        with conn.transaction():
            conn.execute(f"SET LOCAL SESSION AUTHORIZATION {who}")
            row = conn.execute("SELECT dp.dp_plan(%s::jsonb)", (request,)).fetchone()
            conn.execute("SET LOCAL SESSION AUTHORIZATION DEFAULT")
    except psycopg.Error as error:
        return str([error.sqlstate, error.diag.message_primary, error.diag.message_detail, error.diag.message_hint])
    return json.dumps(row)


STOPPED_AFTER = 2
"""Steps of a release that somebody stops: the number of rows, and one round."""


def ask(conn: Connection, request_id: str, who: str, request: str, *, stop: bool = False) -> dict[str, Any]:
    """The two steps of the channel, as dp.dp_query takes them; the second as often as there is more to draw.

    stop: after STOPPED_AFTER of them, as a cancel does.
    """
    row = conn.execute("SELECT dp._charge(%s, %s, %s)", (request_id, who, request)).fetchone()
    assert row is not None
    reply: dict[str, Any] = row[0]
    steps = 0
    while not {"answer", "refusal"} & set(reply):
        row = conn.execute(
            "SELECT dp._answer(%s, stop => %s)", (request_id, stop and steps == STOPPED_AFTER)
        ).fetchone()
        assert row is not None
        reply, steps = row[0], steps + 1
    return chainless(reply)


def chainless(reply: dict[str, Any]) -> dict[str, Any]:
    """A reply without the chain's new head, which holds a random salt and the time."""
    return {name: value for name, value in reply.items() if name != "chain"}


def accounts(conn: Connection, dataset: str) -> dict[Account, Spent]:
    found = conn.execute(
        "SELECT node, relation_key, leaf_key, spent_epsilon::text, spent_rdp::text[], spent_delta::text"
        " FROM dp.account"
        " WHERE dataset = %s AND role = ''",
        (dataset,),
    ).fetchall()
    return {
        tuple(part for part in (relation, leaf) if part): Spent(
            Fraction(epsilon), tuple(map(Fraction, rdp or ())), Fraction(delta)
        )
        for _, relation, leaf, epsilon, rdp, delta in found
    }


def difference(after: Mapping[Account, Spent], before: Mapping[Account, Spent]) -> dict[Account, Spent]:
    """What each account spent in between; accounts that spent nothing are left out."""
    changes = {node: spent - before.get(node, Spent()) for node, spent in after.items()}
    return {node: change for node, change in changes.items() if change.epsilon or change.delta or any(change.rdp)}


def tables(conn: Connection, clock: set[str]) -> dict[str, list[str]]:
    """Every row of every table of schema dp, without the times at which it was written."""
    names = conn.execute(
        "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'dp'::regnamespace AND c.relkind = 'r' ORDER BY 1"
    ).fetchall()
    # a return has a random id of its own (catalog.py): the n-th one is the n-th one
    ids = conn.execute("SELECT request_id::text FROM dp.ledger WHERE kind = 'return' ORDER BY seq").fetchall()
    numbers = {row[0]: f"<return {number}>" for number, row in enumerate(ids, 1)}
    found = {}
    for (name,) in names:
        rows = conn.execute(
            f"SELECT (to_jsonb(t) - '{{at,as_of,seq,{RANDOM}}}'::text[])::text FROM dp.{name} t"
        ).fetchall()
        texts = [timeless(row[0], clock) for row in rows]
        found[name] = sorted(_RETURN_ID.sub(lambda m: numbers.get(m[0], m[0]), text) for text in texts)
    return found


# of a link: its salt, and the digests that hold the salt or the time; what `answered` digests is compared
RANDOM = "salt,asked,hash"
_HASH = re.compile(r"\b[0-9a-f]{64}\b")
_RETURN_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def timeless(text: str, clock: Iterable[str]) -> str:
    """The clock is public; two runs read it at two times."""
    for reading in clock:
        text = text.replace(reading, "<clock>")
    return text


def unhashed(part: str, statement: Sequence[Any]) -> str:
    """A statement about the chain without its hashes, which hold a random salt, and the random ids of returns."""
    return _RETURN_ID.sub("<id>", _HASH.sub("<hash>", part)) if "dp.chain" in str(statement[1]) else part


def check_clock(clock: Iterable[str]) -> None:
    """What we overlook as a clock's reading is one: within an hour of now."""
    for reading in clock:
        assert abs(datetime.fromisoformat(reading) - datetime.now(UTC)) < timedelta(hours=1), reading


def compare(
    record: Session, replay: Session, unit: frozenset[Account], orders: Sequence[float], cap: Fraction
) -> list[str]:
    """All violations (see the module) of two sessions that differ by one unit with these accounts."""
    found: list[str] = []
    for number, (one, two) in enumerate(zip(record.steps, replay.steps, strict=True)):
        where = f"request {number}, {one.question[2]}"
        found += [f"{rule}: {where}" for rule, a, b in _views(one, two) if a != b]
        if [_public(d) for d in one.draws] == [_public(d) for d in two.draws]:
            found += [f"{problem}: {where}" for problem in _step_losses(one, two, unit, orders)]
    found += [f"records: dp.{name}" for name in record.tables if record.tables[name] != replay.tables[name]]
    if record.paid != replay.paid:
        found.append("accounts: at the end of the session")
    if not any(problem.startswith("draws") for problem in found):
        found += _session_losses(record, replay, unit, orders, cap)
    return found


def _views(one: Step, two: Step) -> Iterator[tuple[str, Any, Any]]:
    yield "draws", [_public(draw) for draw in one.draws], [_public(draw) for draw in two.draws]
    yield "statements", one.statements, two.statements
    yield "answers", one.reply, two.reply
    yield "plans", one.forecast, two.forecast
    yield "notices", one.said, two.said
    yield "accounts", one.paid, two.paid


def _public(draw: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in draw.items() if name not in ("exact", "output")}


@dataclass(frozen=True)
class Loss:
    """Realised loss of one draw: pure epsilon (Laplace, selection, AboveThreshold) or rho (Gaussian); exact.

    ranged: a selection, whose log-odds move by epsilon at most: a epsilon²/8 at order a (composition.md §4, row 3).
    """

    epsilon: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    ranged: bool = False

    @property
    def none(self) -> bool:
        return not self.epsilon and not self.rho


def loss_of(one: Mapping[str, Any], two: Mapping[str, Any]) -> Loss:
    """Laplace: sum of |change| / scale. Gaussian: sum of change² / 2 sigma². Else |ln of the output's odds' ratio|."""
    scale = Fraction(float.fromhex(one["scale"]))
    changes = [Fraction(a) - Fraction(b) for a, b in zip(one["exact"], two["exact"], strict=True)]
    if one["kind"] == "gaussian":
        return Loss(rho=sum((c * c for c in changes), Fraction(0)) / (2 * scale * scale))
    if one["kind"] == "laplace":
        return Loss(epsilon=sum((abs(c) for c in changes), Fraction(0)) / scale)
    if one["kind"] in SPARSE:
        return Loss()  # the bits of an epoch are one output: `epoch_losses`
    if one["kind"] == "first_above":
        first, second = (_log_of_run(draw, one["output"][0]) for draw in (one, two))
        return Loss(epsilon=Fraction(max(0.0, abs(first - second) - RUN_ERROR)))
    logs = [_log_probability(draw, one["output"][0], float(scale)) for draw in (one, two)]
    return Loss(epsilon=Fraction(abs(logs[0] - logs[1])), ranged=True)


def _log_probability(draw: Mapping[str, Any], pick: int, scale: float) -> float:
    scores = [float(Fraction(score)) / scale for score in draw["exact"]]
    top = max(scores)
    return scores[pick] - top - math.log(sum(math.exp(score - top) for score in scores))


def _log_of_run(draw: Mapping[str, Any], index: int) -> float:
    """ln of the probability that AboveThreshold returns this index (-1: none), on the integer lattice."""
    gaps, scales = [Fraction(gap) for gap in draw["exact"]], [draw["scale"], draw["query_scale"]]
    threshold, query = map(float.fromhex, scales)
    return run_law(gaps, None if index < 0 else index, threshold, query, lattice=True)


def _sensitivity(one: Mapping[str, Any], two: Mapping[str, Any]) -> Fraction:
    """What the draw's vectors differ by, in the norm in which its sensitivity was declared.

    A selection is the same when all its scores move by one constant: half of the range of the changes counts.
    The gaps of AboveThreshold must move by -fall … sensitivity, or all by the opposite of that, or its proof does not
    hold: else that counts as anything.
    """
    signed = [Fraction(a) - Fraction(b) for a, b in zip(one["exact"], two["exact"], strict=True)]
    changes = [abs(c) for c in signed]
    if one["kind"] == "first_above":
        ends = -min(signed, default=Fraction(0)), max(signed, default=Fraction(0))
        rise, fall = Fraction(one["declared"]), Fraction(one.get("fall", 0))
        sound = any(down <= fall and up <= rise for down, up in (ends, ends[::-1]))
        return Fraction(0) if sound else sum(changes, rise + fall)
    if one["kind"] == "gaussian":
        return sum((c * c for c in changes), Fraction(0))
    if one["kind"] == "select":
        return (max(signed, default=Fraction(0)) - min(signed, default=Fraction(0))) / 2
    return sum(changes, Fraction(0))


def _step_losses(one: Step, two: Step, unit: frozenset[Account], orders: Sequence[float]) -> Iterator[str]:
    pairs = list(zip(one.draws, two.draws, strict=True))
    if any(_sensitivity(a, b) > Fraction(a["declared"]) for a, b in pairs):
        yield "sensitivity"
    if _underpaid(one, orders):
        yield "price"
    losses = composed(one, [loss_of(a, b) for a, b in pairs])
    if _exceeds(losses, [spent for node, spent in one.paid.items() if node in unit], orders):
        yield "loss"


def _underpaid(step: Step, orders: Sequence[float]) -> bool:
    """Whether an account in the scope of the request paid less than its draws declare.

    The draws of Turbo read partitions, and a leaf pays for those that read it: which, is held against the losses. Here
    each of them must be covered by the account that paid most. A test in an open epoch was paid at its start.
    """
    draws = [draw for draw in step.draws if draw["kind"] != "sparse_test"]
    if draws and not step.paid:
        return True
    partial = [_declared(d) for d in draws if d["kind"] in SPARSE or d["label"].startswith("turbo ")]
    if any(all(_exceeds([one], [spent], orders) for spent in step.paid.values()) for one in partial):
        return True
    whole = [d for d in draws if d["kind"] not in SPARSE and not d["label"].startswith("turbo ")]
    one_by_one = _in_sequence(whole)
    return any(
        _exceeds(advanced(one_by_one, [*map(_declared, one_by_one)], spent.delta), [spent], orders)
        for spent in step.paid.values()
    )


_TURN = re.compile(r" (?:round|query) (\d+)\b")


def advanced(draws: Sequence[Mapping[str, Any]], losses: Sequence[Loss], delta: Fraction) -> list[Loss]:
    """The losses of draws; where delta was paid those of rounds, or queries, together as one of them, if that is less.

    T turns of e each are (e sqrt(2 T ln(1 / delta)) + T e (exp(e) - 1), delta)-DP together (numeric-release.md §2):
    e is what the dearest turn declared, so that a loss within it is within that.
    """
    if not delta:
        return list(losses)
    costs: dict[str, Fraction] = {}
    rest, inside = [], []
    for draw, loss in zip(draws, losses, strict=True):
        turn = _TURN.search(draw["label"])
        if turn:
            costs[turn[1]] = costs.get(turn[1], Fraction(0)) + Fraction(draw["cost"])
        (inside if turn else rest).append(loss)
    if not costs:
        return rest
    each, many = float(max(costs.values())), len(costs)
    whole = each * math.sqrt(2 * many * math.log(1 / float(delta))) + many * each * math.expm1(each)
    return [*rest, Loss(epsilon=min(sum((one.epsilon for one in inside), Fraction(0)), Fraction(whole)))]


def composed(step: Step, losses: Sequence[Loss]) -> list[Loss]:
    """The losses of a request's draws, by what it paid of delta."""
    return advanced(step.draws, losses, max((spent.delta for spent in step.paid.values()), default=Fraction(0)))


def epoch_losses(record: Session, replay: Session) -> Iterator[tuple[Step, Loss]]:
    """The realised loss of every epoch of a sparse vector, all of its bits together, at the step that opened it."""
    for label, tests in _epochs(record, replay).items():
        opened = [(step, d) for step in record.steps for d in step.draws if _starts(d, label)]
        if opened and tests:
            step, start = opened[0]
            scale, threshold = float.fromhex(start["scale"]), start["threshold"]
            index = next((i for i, (one, _) in enumerate(tests) if not one["output"][0]), None)
            logs = [
                run_law(
                    [Fraction(pair[side]["exact"][0]) - threshold for pair in tests], index, scale, scale, lattice=True
                )
                for side in (0, 1)
            ]
            yield step, Loss(epsilon=Fraction(max(0.0, abs(logs[0] - logs[1]) - RUN_ERROR)))


def _starts(draw: Mapping[str, Any], label: str) -> bool:
    return draw["kind"] == "sparse_start" and draw["label"] == label


def _epochs(record: Session, replay: Session) -> dict[str, list[tuple[Mapping[str, Any], Mapping[str, Any]]]]:
    """The tests of every epoch, on both sides, in order."""
    found: dict[str, list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = {}
    for step, other in zip(record.steps, replay.steps, strict=True):
        for one, two in zip(step.draws, other.draws, strict=True):
            if one["kind"] == "sparse_test":
                found.setdefault(one["label"], []).append((one, two))
    return found


def _broken_epochs(record: Session, replay: Session) -> Iterator[str]:
    for label, tests in _epochs(record, replay).items():
        if not all(one["paid_for"] for one, _ in tests):
            yield f"epoch: {label} was tested against a threshold that was not opened for it"
        if not all(one["output"][0] for one, _ in tests[:-1]):
            yield f"epoch: {label} was used after its FAIL"


def _in_sequence(draws: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The draws whose costs add up: selections of one aggregate group by group are parallel and cost one of them.

    That they are, for this unit, is what the realised losses are held against (loss), all of them added.
    """
    parallel = {
        draw["label"]: draw for draw in draws if draw["kind"] == "select" and draw["label"].endswith("by group")
    }
    return [draw for draw in draws if draw["label"] not in parallel or draw is parallel[draw["label"]]]


def _declared(draw: Mapping[str, Any]) -> Loss:
    cost = Fraction(draw["cost"])
    return Loss(rho=cost) if draw["kind"] == "gaussian" else Loss(epsilon=cost, ranged=draw["kind"] == "select")


def _session_losses(
    record: Session, replay: Session, unit: frozenset[Account], orders: Sequence[float], cap: Fraction
) -> list[str]:
    """All draws of the session together: against the accounts of the unit, against each of them, against the cap."""
    found = []
    losses = [
        (step, loss)
        for step, other in zip(record.steps, replay.steps, strict=True)
        for loss in composed(step, [loss_of(a, b) for a, b in zip(step.draws, other.draws, strict=True)])
    ]
    losses += epoch_losses(record, replay)
    found += _broken_epochs(record, replay)
    everything = [loss for _, loss in losses]
    if _exceeds(everything, [spent for node, spent in record.paid.items() if node in unit], orders):
        found.append("loss: the session")
    for node in unit:
        own = [loss for step, loss in losses if node in step.paid]
        if _exceeds(own, [record.paid.get(node, Spent())], orders):
            found.append(f"loss: account {node}")
    if not orders and sum(loss.epsilon for loss in everything) > cap:
        found.append("loss: above the dataset's cap")
    return found


def _exceeds(losses: Sequence[Loss], paid: Sequence[Spent], orders: Sequence[float]) -> bool:
    """Whether the losses together pass what was paid; without a payment, whether there is any loss."""
    if not paid:
        return any(not loss.none for loss in losses)
    if not orders:
        return any(loss.rho for loss in losses) or sum(x.epsilon for x in losses) > sum(x.epsilon for x in paid)
    spent = [sum((x.rdp[i] for x in paid if x.rdp), Fraction(0)) for i in range(len(orders))]
    return any(
        sum(curve(x, a) for x in losses) > float(s) * (1 + TOLERANCE) for a, s in zip(orders, spent, strict=True)
    )


def curve(loss: Loss, order: float) -> float:
    """The Rényi divergence that a realised loss stands for: a rho, resp. pure → RDP (turbo.md §6.2), in doubles.

    ln(1 + 2 sinh(a e/2) sinh((a-1) e/2) / cosh(e/2)) / (a-1); where a e is large, the same without overflow.
    """
    if loss.rho:
        return order * float(loss.rho)
    epsilon = float(loss.epsilon)
    if loss.ranged:
        return min(curve(Loss(epsilon=loss.epsilon), order), order * epsilon**2 / 8)
    if order * epsilon > 50:
        return epsilon + (math.log1p(math.exp((1 - 2 * order) * epsilon)) - math.log1p(math.exp(-epsilon))) / (
            order - 1
        )
    ratio = 2 * math.sinh(order * epsilon / 2) * math.sinh((order - 1) * epsilon / 2) / math.cosh(epsilon / 2)
    return math.log1p(ratio) / (order - 1)


def tightness(record: Session, replay: Session, unit: frozenset[Account]) -> dict[str, Fraction]:
    """By call: the realised share of what was charged, in epsilon or rho. An audit that never gets near 1 is weak."""
    found = {}
    for one, two in zip(record.steps, replay.steps, strict=True):
        if one.draws and unit & set(one.paid):
            losses = [loss_of(a, b) for a, b in zip(one.draws, two.draws, strict=True)]
            total = sum((x.epsilon + x.rho for x in losses), Fraction(0))
            found[one.question[2]] = total / sum((Fraction(d["cost"]) for d in one.draws), Fraction(0))
    return found
