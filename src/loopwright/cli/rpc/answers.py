"""What each command does with the session, and what is answered.

Runs are not here: they are answered when they begin, and told of when they end (dialogue.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...messages import ImageContent, UserMessage, text_of
from ...permissions.gate import AllowAlways, AllowOnce
from ...permissions.gate import Deny as DenyCall
from ...session.rows import InboxItem, SessionInfo
from .commands import (
    Approvals,
    Approve,
    Commands,
    Compact,
    Deny,
    Export,
    FollowUp,
    Fork,
    Messages,
    Model,
    Models,
    Name,
    Navigate,
    New,
    Open,
    PermissionMode,
    Queued,
    Sessions,
    State,
    Steer,
    Thinking,
    Tree,
    Withdraw,
)
from .questions import Questions
from .requests import LineRefused, images_of
from .response_data import (
    ChosenLevel,
    ChosenMode,
    ChosenModel,
    Compacted,
    Data,
    Decided,
    Entries,
    Exported,
    GivenName,
    Item,
    KnownModels,
    ModelData,
    Named,
    NamedThings,
    Node,
    Place,
    Queue,
    SessionData,
    SessionList,
    StateData,
    TreeData,
    UnfinishedWork,
    Waiting,
    WaitingCalls,
    Withdrawn,
)

if TYPE_CHECKING:
    from ...models import Model as ModelRecord
    from ..live.session import LiveSession

__all__ = ["Answerable", "answer", "model_name", "place_of", "unfinished_work"]

Answerable = (
    Steer
    | FollowUp
    | Queued
    | Withdraw
    | Approvals
    | Approve
    | Deny
    | State
    | Messages
    | Commands
    | Models
    | Model
    | Thinking
    | PermissionMode
    | Name
    | Compact
    | Tree
    | Navigate
    | Fork
    | Open
    | New
    | Sessions
    | Export
)


async def answer(
    command: Answerable, live: LiveSession, questions: Questions, activity: str | None
) -> Data:
    """Do what *command* says. *activity* is the command that is being worked on.

    Raises `LineRefused`, `LoopwrightError`, and the OSError of an export.
    """
    match command:
        case Steer():
            images = images_of(command.images)
            interrupt = command.when == "interrupt"
            return _item(await live.steer(command.text, images, interrupt=interrupt))
        case FollowUp():
            return _item(await live.follow_up(command.text, images_of(command.images)))
        case Queued():
            return Queue([_item(item) for item in live.queued()])
        case Withdraw():
            return Withdrawn(await live.withdraw(command.item_id))
        case Approvals():
            return WaitingCalls([*questions.waiting(), *_parked(live)])
        case Approve():
            return await _approve(command, live, questions)
        case Deny():
            return await _deny(command, live, questions)
        case State():
            return _state(live, questions, activity)
        case Messages():
            return await _entries(command, live)
        case Commands():
            return NamedThings(_named(live))
        case Models():
            return KnownModels([_model_data(model) for model in live.known_models()])
        case Model():
            model = live.choose_model(command.model)
            return ChosenModel(model_name(model), live.thinking_level)
        case Thinking():
            live.set_thinking(command.level)
            return ChosenLevel(live.thinking_level)
        case PermissionMode():
            live.permission_mode = command.mode
            return ChosenMode(live.permission_mode)
        case Name():
            await live.rename(command.name)
            return GivenName(live.name)
        case Compact():
            entry = await live.compact(command.instructions)
            if entry is None:
                return Compacted(None, None, None)
            return Compacted(entry.id, entry.summary, entry.tokens_before)
        case Tree():
            nodes = [_node(node) for node in await live.outline()]
            branch = [node.id for node in nodes if node.on_branch]  # it runs straight down
            return TreeData(branch[-1] if branch else None, nodes)
        case Navigate():
            await live.navigate(command.entry_id, summarize=command.summarize)
        case Fork():
            await live.fork(command.entry_id, name=command.name)
        case Open():
            await live.open(command.session)
        case New():
            await live.new()
        case Sessions():
            found = await live.sessions(everywhere=command.all, limit=command.limit)
            return SessionList([_session_data(info) for info in found])
        case Export():
            written = await live.export(Path(command.path), command.format, force=command.force)
            return Exported(str(written))
    return place_of(live)


def model_name(model: ModelRecord) -> str:
    """What the command `model` takes."""
    return f"{model.provider}/{model.id}"


def place_of(live: LiveSession) -> Place:
    """Where the session stands."""
    session = live.session
    return Place(None, None) if session is None else Place(session.id, session.leaf_id)


def unfinished_work(live: LiveSession) -> UnfinishedWork | None:
    """What `resume` would drive."""
    operation = live.unfinished
    if operation is None:
        return None
    return UnfinishedWork(operation.id, operation.kind, operation.status, operation.started_at)


# -- approvals -------------------------------------------------------------------------------


def _parked(live: LiveSession) -> list[Waiting]:
    return [
        Waiting(
            approval.id,
            approval.tool_call_id,
            approval.tool_name,
            approval.arguments,
            None,
            None,
            parked=True,
        )
        for approval in live.pending_approvals()
    ]


async def _approve(command: Approve, live: LiveSession, questions: Questions) -> Decided:
    asked = questions.get(command.approval_id)
    if asked is None:
        if command.always:
            raise LineRefused(
                "refused", "a call that an earlier run left waiting can only be allowed once"
            )
        _demand_waiting(command.approval_id, live)
        await live.approve(command.approval_id, arguments=command.arguments)
        return Decided(needs_resume=True)
    if command.arguments is not None:
        raise LineRefused(
            "refused",
            "the arguments of a call cannot be changed while its run goes on",
            "deny it, and say in the reason what you want",
        )
    if command.always and asked.question.rule is None:
        raise LineRefused(
            "refused", "such a call can only be allowed once", 'leave out "always": true'
        )
    asked.answer.set_result(AllowAlways() if command.always else AllowOnce())
    return Decided(needs_resume=False)


async def _deny(command: Deny, live: LiveSession, questions: Questions) -> Decided:
    asked = questions.get(command.approval_id)
    if asked is None:
        _demand_waiting(command.approval_id, live)
        await live.deny(command.approval_id, reason=command.reason)
        return Decided(needs_resume=True)
    asked.answer.set_result(DenyCall(command.reason or ""))
    return Decided(needs_resume=False)


def _demand_waiting(approval_id: str, live: LiveSession) -> None:
    known = {name for one in live.pending_approvals() for name in (one.id, one.tool_call_id)}
    if approval_id not in known:
        raise LineRefused(
            "not_found",
            f"no call waits under {approval_id!r}",
            "it may have been settled meanwhile; `approvals` lists those that wait",
        )


# -- what is there ---------------------------------------------------------------------------


def _state(live: LiveSession, questions: Questions, activity: str | None) -> StateData:
    meter = live.meter()
    place = place_of(live)
    return StateData(
        session_id=place.session_id,
        name=live.name,
        folder=str(live.folder),
        kept=live.keeps,
        activity=activity,
        unfinished=unfinished_work(live) if activity is None else None,
        model=model_name(live.agent.model),
        thinking=live.thinking_level,
        permission_mode=live.permission_mode,
        tools=[tool.name for tool in live.agent.state.tools],
        queued=len(live.queued()),
        approvals=len(questions.waiting()) + len(live.pending_approvals()),
        leaf_id=place.leaf_id,
        context_tokens=meter.context_tokens,
        context_window=meter.context_window,
        usage=meter.usage,
    )


async def _entries(command: Messages, live: LiveSession) -> Entries:
    entries = await live.entries()
    if command.since_entry is not None:
        ids = [entry.id for entry in entries]
        if command.since_entry not in ids:
            raise LineRefused(
                "not_found",
                f"the entry {command.since_entry!r} is not on this branch",
                "leave sinceEntry out, and take the branch as it is now",
            )
        entries = entries[ids.index(command.since_entry) + 1 :]
    limit = command.limit
    if limit is None:
        return Entries(entries, more=False)
    return Entries(entries[:limit], more=len(entries) > limit)


def _named(live: LiveSession) -> list[Named]:
    resources = live.bench.resources
    found = [Named(one.name, "template", one.description) for one in resources.templates]
    found += [Named(one.name, "skill", one.description) for one in resources.skills]
    found += [Named(one.name, "command", one.description) for one in live.commands()]
    return found


def _model_data(model: ModelRecord) -> ModelData:
    levels = model.thinking_levels
    return ModelData(
        model_name(model),
        model.name,
        model.context_window,
        model.max_tokens,
        list(model.input),
        None if levels is None else [level for level, word in levels.items() if word is not None],
        model.cost,
    )


def _item(item: InboxItem) -> Item:
    message = item.message
    content: Any = message.content if isinstance(message, UserMessage) else ""
    images = 0 if isinstance(content, str) else sum(isinstance(b, ImageContent) for b in content)
    return Item(
        item.id,
        item.queue,
        text_of(content),
        images,
        item.urgent,
        item.status,
        item.created_at,
    )


def _node(node: Any) -> Node:
    return Node(
        node.id,
        node.parent_id,
        node.type,
        node.role,
        node.depth,
        node.on_branch,
        node.is_leaf,
        node.label,
        node.preview,
        node.timestamp,
    )


def _session_data(info: SessionInfo) -> SessionData:
    return SessionData(
        info.id,
        info.name,
        info.preview,
        info.cwd,
        info.parent_id,
        info.created_at,
        info.modified_at,
        info.entries,
        info.usage,
        info.locked_by,
    )
