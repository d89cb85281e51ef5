"""Handlers of the commands that are done by one method of the engine, with just their fields.

Never here: a command whose answer or fields need more than that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from holdfast.core.values.ids import CallId, RunId, run_of
from holdfast.service.control.control import Control
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations.declaration import Answer, Command, declaration_of
from holdfast.service.handler import Request, handles, optional_value

_METHODS: Final[Mapping[type[Command], Callable[..., Coroutine[Any, Any, Any]]]] = {
    cmd.LabelRun: Control.label_run,
    cmd.Pause: Control.pause,
    cmd.Resume: Control.resume,
    cmd.Retry: Control.retry,
    cmd.Cancel: Control.cancel,
    cmd.Signal: Control.signal,
    cmd.Extend: Control.extend,
    cmd.RaiseBudget: Control.raise_budget,
    cmd.GiveScore: Control.score,
    cmd.Reconcile: Control.reconcile,
    cmd.Delegate: Control.delegate,
    cmd.Reassign: Control.reassign,
    cmd.EditDeadLetter: Control.edit_dead_letter,
    cmd.RetryDeadLetter: Control.retry_dead_letter,
    cmd.ResolveDeadLetter: Control.resolve_dead_letter,
    cmd.PauseSchedule: Control.pause_schedule,
    cmd.ResumeSchedule: Control.resume_schedule,
    cmd.RemoveSchedule: Control.remove_schedule,
    cmd.SetPool: Control.set_pool,
    cmd.RemovePool: Control.remove_pool,
    cmd.SetTeamBudget: Control.set_team_budget,
    cmd.RemoveTeamBudget: Control.remove_team_budget,
    cmd.WriteSharedValue: Control.write_shared_value,
    cmd.ForgetCachedAnswer: Control.forget_cached_answer,
    cmd.RevokeApproval: Control.revoke_approval,
    cmd.DeleteConversation: Control.delete_conversation,
}


def _forward(kind: type[Command], method: Callable[..., Coroutine[Any, Any, Any]]) -> None:
    """Have a command handled by a method: its first field first, the others by their names, for the tenant that is meant, and
    with the caller and their roles if the method takes those. Raises TypeError for a field that the method does not take."""
    taken = inspect.signature(method).parameters
    first, *rest = kind.__struct_fields__
    if unknown := [name for name in rest if name not in taken]:
        raise TypeError(f"{method.__qualname__} takes no {unknown[0]!r}, a field of {kind.__name__}: write a handler for it.")
    answers_run, is_signed, has_roles = declaration_of(kind).answers is Answer.RUN, "by" in taken, "roles" in taken

    async def handler(request: Request, command: Any) -> Any:
        options = {name: optional_value(getattr(command, name)) for name in rest}
        if "tenant" in options:
            options["tenant"] = request.tenant
        if is_signed:
            options["by"] = request.by
        if has_roles:
            options["roles"] = request.who.acts_as
        about = getattr(command, first)
        await method(request.engine, about, **options)
        return run_of(CallId(about)) if answers_run else None  # whatever is in a run has an id that begins with its run's

    handler.__qualname__ = method.__name__
    handler.__annotations__ = {"request": Request, "command": kind, "return": RunId if answers_run else None}
    handles(handler)


for _kind, _method in _METHODS.items():
    _forward(_kind, _method)
