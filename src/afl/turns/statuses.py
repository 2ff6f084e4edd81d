"""The words of the protocol. Every one of them is also a CHECK in the schema."""

from __future__ import annotations

from enum import StrEnum


class HeadStatus(StrEnum):
    """Where an agent is: idle -> dispatched -> running <-> suspended -> idle."""

    IDLE = "idle"
    DISPATCHED = "dispatched"
    RUNNING = "running"
    SUSPENDED = "suspended"


class InboxStatus(StrEnum):
    """Where a message is; the last three are final."""

    QUEUED = "queued"
    PENDING = "pending"
    PROCESSING = "processing"
    DEFERRED = "deferred"
    CONSUMED = "consumed"
    ERROR = "error"
    SKIPPED = "skipped"


class MessageType(StrEnum):
    """What a message in the inbox asks for."""

    TURN = "turn"
    UI_ACTION = "ui_action"
    TOOL_RESULT = "tool_result"
    TIMEOUT = "timeout"
    STOP = "stop"


class WaitStatus(StrEnum):
    """The state of a tool call that a turn waits for."""

    WAITING = "waiting"
    RECEIVED = "received"
    APPLIED = "applied"
    EXPIRED = "expired"
    DROPPED = "dropped"


class StepStatus(StrEnum):
    """How far a step is."""

    STARTED = "started"
    LLM_READY = "llm_ready"
    LLM_DONE = "llm_done"
    TOOL_DISPATCHED = "tool_dispatched"
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    FAILED = "failed"


class ActionStatus(StrEnum):
    """What becomes of an action of a person."""

    ACCEPTED = "accepted"
    BUSY = "busy"
    REJECTED = "rejected"
    DONE = "done"
    ERROR = "error"


class StepPhase(StrEnum):
    """The phases in `evt.agent.*.step`."""

    STARTED = "started"
    PLANNING = "planning"
    EXECUTING = "executing"
    COMPLETED = "completed"
    FAILED = "failed"


class TaskStatus(StrEnum):
    """How a turn, or a tool call, ended."""

    SUCCESS = "success"
    FAILED = "failed"
    CANCELED = "canceled"
    TIMEOUT = "timeout"
    PARTIAL = "partial"


class AfterExecution(StrEnum):
    """What the turn does once the tool's result is there."""

    SUSPEND = "suspend"
    TERMINATE = "terminate"


class Activity(StrEnum):
    """What an agent is doing, for those who watch; no guard of the protocol."""

    THINKING = "thinking"
    EXECUTING_TOOL = "executing_tool"
    AWAITING_TOOL_RESULT = "awaiting_tool_result"
    WAITING_FOR_INBOX_DRAIN = "waiting_for_inbox_drain"


class Primitive(StrEnum):
    """What an execution edge records."""

    ENQUEUE = "enqueue"
    REPORT = "report"
    JOIN = "join"
    TOOL_CALL = "tool_call"


class EdgePhase(StrEnum):
    REQUEST = "request"
    RESPONSE = "response"


class DepthPolicy(StrEnum):
    """How deep a new turn stands below the one that asked for it."""

    DESCEND = "descend"
    PEER = "peer"
    ROOT = "root"


class ResultStatus(StrEnum):
    """How a primitive ended; only `accepted` wrote anything."""

    ACCEPTED = "accepted"
    BUSY = "busy"
    REJECTED = "rejected"
    ERROR = "error"


class WakeupReason(StrEnum):
    """The reason of a wake-up, for people who read the stream."""

    ENQUEUE = "enqueue"
    REPORT = "report"
    STOP = "stop"
    DISPATCH_NEXT = "dispatch_next"
    TAKEOVER = "takeover"
    DEFERRED = "deferred_wakeup"
    WATCHDOG_DEFERRED = "watchdog_due_deferred"
    WATCHDOG_RETRANSMIT = "watchdog_retransmit"
    WATCHDOG_PENDING = "watchdog_pending_inbox"


class CardType(StrEnum):
    """What a card is."""

    TASK_INSTRUCTION = "task.instruction"
    AGENT_THOUGHT = "agent.thought"
    TOOL_CALL = "tool.call"
    TOOL_RESULT = "tool.result"
    TASK_DELIVERABLE = "task.deliverable"
    SYS_PROFILE = "sys.profile"
    SYS_RENDERED_PROMPT = "sys.rendered_prompt"
    SYS_TOOLS = "sys.tools"
    PARENT_POINTER = "meta.parent_pointer"
    RESULT_FIELDS = "task.result_fields"
    AGENT_ERROR = "agent.error"
    MUST_END_WITH = "sys.must_end_with_required"
    JUDGE_FEEDBACK = "sys.judge_feedback"
    SESSION = "sys.session"
    SUMMARY = "sys.summary"
    GUARDRAIL = "sys.guardrail"


class BoxKind(StrEnum):
    """The kinds of boxes. The turn that holds an output box writes to it; the others never change."""

    PROFILE = "profile"
    CONTEXT = "context"
    OUTPUT = "output"
