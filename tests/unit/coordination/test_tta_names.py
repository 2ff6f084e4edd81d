"""The API under its own import name: every class and exception of the document, of the kind it says."""

from __future__ import annotations

import importlib.metadata
import inspect
import json
from abc import ABC
from enum import Enum
from typing import Any, Protocol

import pytest
from pydantic import BaseModel, ValidationError
from redis.asyncio import Redis

import afl.coordination
import tta_agent_coordination as api
from afl.kernel.errors import AgentFlowError

CLASSES = [
    "Agent",
    "AgentId",
    "AgentMessage",
    "AgentRegistry",
    "CircuitBreaker",
    "CircuitBreakerConfig",
    "FailureType",
    "MessageCoordinator",
    "MessageMetrics",
    "MessagePriority",
    "MessageResult",
    "MessageSubscription",
    "MessageType",
    "QueueMessage",
    "ReceivedMessage",
    "RedisAgentRegistry",
    "RedisMessageCoordinator",
    "RoutingKey",
    "InMemoryMessageCoordinator",
    "InMemoryAgentRegistry",
]
EXCEPTIONS = ("MessageCoordinatorError", "CircuitBreakerOpenError", "AgentRegistryError")


def test_every_class_is_there_and_the_same_as_ours() -> None:
    assert [name for name in CLASSES if not inspect.isclass(getattr(api, name, None))] == []
    assert [name for name in CLASSES if getattr(api, name) is not getattr(afl.coordination, name)] == []
    assert set(CLASSES) <= set(api.__all__)


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_exceptions(name: str) -> None:
    kind = getattr(api, name)
    assert issubclass(kind, Exception) and issubclass(kind, AgentFlowError)
    assert str(kind("what was wrong")) == "what was wrong"


def test_nothing_else_lives_there() -> None:
    assert set(api.__all__) == set(afl.coordination.__all__)


def test_its_version_is_that_of_the_distribution() -> None:
    assert api.__version__ == importlib.metadata.version("agentflow-afl")


def test_the_interfaces_are_abstract_with_the_methods_of_the_document() -> None:
    assert issubclass(api.MessageCoordinator, ABC) and issubclass(api.AgentRegistry, ABC)
    assert api.MessageCoordinator.__abstractmethods__ == {
        "send_message",
        "broadcast_message",
        "subscribe_to_messages",
        "receive",
        "ack",
        "nack",
        "recover_pending",
        "configure",
    }
    assert api.AgentRegistry.__abstractmethods__ == {
        "register",
        "deregister",
        "list_registered",
        "start_heartbeats",
        "stop_heartbeats",
    }
    for kind in (api.RedisMessageCoordinator, api.InMemoryMessageCoordinator):
        assert issubclass(kind, api.MessageCoordinator)
    for registry in (api.RedisAgentRegistry, api.InMemoryAgentRegistry):
        assert issubclass(registry, api.AgentRegistry)


@pytest.mark.parametrize(
    ("kind", "name", "is_async"),
    [
        (kind, name, is_async)
        for kind, names, is_async in (
            (
                api.MessageCoordinator,
                "send_message broadcast_message receive ack nack recover_pending configure",
                True,
            ),
            (api.MessageCoordinator, "subscribe_to_messages", False),
            (api.AgentRegistry, "list_registered", True),
            (api.AgentRegistry, "register deregister start_heartbeats stop_heartbeats", False),
            (api.CircuitBreaker, "call", True),
        )
        for name in names.split()
    ],
)
def test_what_is_awaited_and_what_is_not(kind: type, name: str, is_async: bool) -> None:
    assert inspect.iscoroutinefunction(getattr(kind, name)) is is_async


def test_enums_compare_as_their_values() -> None:
    assert issubclass(api.MessagePriority, int) and issubclass(api.MessagePriority, Enum)
    assert [each.value for each in api.MessagePriority] == [1, 5, 9]
    assert issubclass(api.MessageType, str) and [each.value for each in api.MessageType] == [
        "request",
        "response",
        "event",
    ]
    assert issubclass(api.FailureType, str) and [each.value for each in api.FailureType] == [
        "transient",
        "permanent",
        "timeout",
    ]


def test_models_are_pydantic_models_with_the_wire_form_of_the_document() -> None:
    for name in ("AgentId", "AgentMessage", "MessageResult", "ReceivedMessage", "QueueMessage", "RoutingKey"):
        assert issubclass(getattr(api, name), BaseModel)
    message = api.AgentMessage(
        message_id="m-00001",
        sender=api.AgentId(type="input_processor", instance="worker-1"),
        recipient=api.AgentId(type="world_builder"),
        message_type=api.MessageType.REQUEST,
        priority=api.MessagePriority.HIGH,
    )
    plain: dict[str, Any] = json.loads(message.model_dump_json())
    assert plain["sender"] == {"type": "input_processor", "instance": "worker-1"}
    assert plain["recipient"] == {"type": "world_builder", "instance": None}
    assert (plain["message_type"], plain["priority"], plain["payload"]) == ("request", 9, {})
    assert plain["routing"] == {"topic": None, "tags": []} and plain["timestamp"] is None
    assert api.AgentMessage.model_validate(plain) == message


def test_ids_of_messages_have_six_characters() -> None:
    one = api.AgentId(type="a")
    with pytest.raises(ValidationError, match="at least 6"):
        api.AgentMessage(message_id="12345", sender=one, recipient=one, message_type=api.MessageType.EVENT)


def test_the_constructors_take_the_keywords_of_the_document() -> None:
    redis = Redis()
    coordinator = api.RedisMessageCoordinator(redis=redis, key_prefix="myapp", metrics=None)
    registry = api.RedisAgentRegistry(
        redis=redis,
        key_prefix="myapp",
        heartbeat_ttl_s=30.0,
        heartbeat_interval_s=10.0,
        enable_events=False,
    )
    config = api.CircuitBreakerConfig(
        failure_threshold=5,
        timeout_seconds=60,
        recovery_timeout_seconds=300,
        half_open_max_calls=3,
        success_threshold=2,
    )
    breaker = api.CircuitBreaker(redis=redis, name="external_service", config=config, key_prefix="myapp")
    assert (registry.heartbeat_ttl_s, registry.heartbeat_interval_s) == (30.0, 10.0)
    assert breaker.config is config and breaker.name == "external_service"
    assert config == api.CircuitBreakerConfig()
    assert isinstance(coordinator, api.MessageCoordinator)


def test_metrics_are_a_protocol() -> None:
    assert Protocol in api.MessageMetrics.__mro__
    methods = {name for name in vars(api.MessageMetrics) if name.startswith("inc_")}
    assert methods == {
        "inc_delivered_ok",
        "inc_delivered_error",
        "inc_retries_scheduled",
        "inc_nacks",
        "inc_permanent",
    }
