"""Handlers of gates, of standing approvals, and of calls of tools."""

from __future__ import annotations

import msgspec

from holdfast.core.values.actor import folded
from holdfast.core.values.ids import CallId, GateId, RunId, run_of
from holdfast.errors import InvalidInput, NotPermitted
from holdfast.ports import ToDecide
from holdfast.service import listing, view
from holdfast.service.access.key import expect_roles
from holdfast.service.control.base import word
from holdfast.service.control.command import GateDecision
from holdfast.service.control.gate import run_that_asks, story_of
from holdfast.service.control.standing_approval import no_approval
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query as ask
from holdfast.service.declarations.declaration import Rows
from holdfast.service.gate import decidable, expect_hash, whole
from holdfast.service.handler import Request, handles, optional_value
from holdfast.service.view import ApprovalRow, EffectRow, GateRow, GateWhole, NewLinkRow


@handles
async def gates(request: Request, query: ask.Gates) -> Rows[GateRow]:
    return await listing.gates(request.control, query, request.whose)


@handles
async def gate(request: Request, query: ask.Gate) -> GateWhole:
    row = await run_that_asks(request.control, query.gate)
    try:
        await request.permission.expect(request.who, cmd.Decide(query.gate, "approve"))
    except NotPermitted as refused:
        return await whole(request.control, await story_of(request.control, query.gate), row, request.by, refused.message)
    return await whole(request.control, await story_of(request.control, query.gate), row, request.by, None)


@handles
async def decide(request: Request, command: cmd.Decide) -> RunId:
    gate, control = GateId(command.gate), request.engine
    await expect_hash(control, [gate], command.shown_hash)
    await control.decide(
        gate,
        command.decision,
        optional_value(command.data),
        by=request.by,
        roles=request.who.acts_as,
        reason=command.reason,
        shown_hash=command.shown_hash,
    )
    return run_of(gate)


@handles
async def decide_together(request: Request, command: cmd.DecideTogether) -> RunId:
    run, decisions = run_of(GateId(command.gate)), command.decisions
    if wrong := next((gate for gate in decisions if run_of(GateId(gate)) != run), None):
        raise InvalidInput(f"{wrong!r:.200} is no gate of run {run}. Nothing was decided.")
    await expect_hash(request.engine, map(GateId, decisions), command.shown_hash)
    answers = {gate: _answer(answer) for gate, answer in decisions.items()}
    await request.engine.decide_together(answers, by=request.by, roles=request.who.acts_as, shown_hash=command.shown_hash)
    return run


def _answer(answer: str | cmd.GateAnswer) -> GateDecision | str:
    return answer if isinstance(answer, str) else GateDecision(answer.decision, optional_value(answer.data), answer.reason)


@handles
async def make_gate_link(request: Request, command: cmd.MakeGateLink) -> NewLinkRow:
    row = await request.engine.find(run_of(GateId(command.gate)))
    opens = await _to_decide(request, command)
    return await request.keys.link(request.who, row.tenant, opens, command.life_s, command.roles)


async def _to_decide(request: Request, command: cmd.MakeGateLink) -> ToDecide:
    """Return what a link may be made for. Who has it in hand can use it, so it allows its maker nothing that they may not do
    already. Raises InvalidInput, NotPermitted, NotFound, AlreadyDecided, DecisionRefused."""
    who, gate = request.who, GateId(command.gate)
    by = word("name of the reviewer", request.engine.payloads.redact(command.reviewer), "reviewer")
    if not folded(by):
        raise InvalidInput("A link decides in a person's name: give it as reviewer. Nothing was made.")
    if not (who.answers_for_callers or who.may_speak_for(by)):
        raise NotPermitted(
            f"{who.claim} may act for no other person, and could use a link for {by!r}. Nothing was made: a program makes it,"
            " with a token or key of its own and without saying for whom it acts, or a person who is an admin."
        )
    expect_roles(who, command.roles)
    return await decidable(request.engine, gate, by, command.roles, who.name, who.maker)


# --- Calls of tools ---------------------------------------------------------------------------------------------------


@handles
async def effects(request: Request, query: ask.Effects) -> Rows[EffectRow]:
    listing.expect_effect_state(query.state)
    found = await request.control.effects(
        query.run, tenant=request.whose, state=query.state, after=query.cursor, limit=query.limit + 1
    )
    return listing.page([await view.of_effect(request.control, *each) for each in found], query.limit, "call")


@handles
async def resolve(request: Request, command: cmd.Resolve) -> RunId:
    gate = await request.engine.gate_about(command.call)
    await decide(request, cmd.Decide(gate, command.decision, command.response, command.reason, command.shown_hash))
    return run_of(CallId(command.call))


# --- Standing approvals -----------------------------------------------------------------------------------------------


@handles
async def approvals(request: Request, query: ask.Approvals) -> Rows[ApprovalRow]:
    found = sorted((await request.control.standing_approvals(tenant=request.tenant)).items())
    now_ms = request.control.now_ms()
    rows = [view.of_approval(*each, request.tenant, now_ms) for each in found if query.cursor is None or each[0] > query.cursor]
    return listing.page(rows, query.limit, "approval")


@handles
async def approval(request: Request, query: ask.Approval) -> ApprovalRow:
    found = (await request.control.standing_approvals(tenant=request.tenant)).get(query.approval)
    if found is None:
        raise no_approval(query.approval, request.tenant)
    return view.of_approval(query.approval, found, request.tenant, request.control.now_ms())


@handles
async def grant_approval(request: Request, command: cmd.GrantApproval) -> ApprovalRow:
    tenant, options = request.tenant, msgspec.structs.asdict(command)
    if (run := options.pop("run")) is not None:
        tenant = (await request.engine.find(run)).tenant
    options |= {"run_id": run, "tenant": tenant}
    id_ = await request.engine.grant_approval(**options, by=request.by, roles=request.who.acts_as)
    kept = (await request.engine.standing_approvals(tenant=tenant))[id_]
    return view.of_approval(id_, kept, tenant, request.engine.now_ms())
