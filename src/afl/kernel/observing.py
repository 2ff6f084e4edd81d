"""A process that is looked at from outside: its log, its figures and its traces, set up as the settings say."""

from __future__ import annotations

import atexit
import importlib
import os
import sys
from typing import Any

from afl.kernel import telemetry
from afl.kernel.errors import MissingExtraError, pip_install
from afl.kernel.log import configure_logging
from afl.kernel.settings import Settings

_LAST_SECONDS = 5.0
_running: Any = None
_serving: Any = None


def observe(settings: Settings, service: str, *, level: str = "") -> None:
    """Log, count and trace from now on; `service` is the name under which traces show this process."""
    global _serving
    configure_logging(level or settings.log_level, json=settings.log_format == "json")
    if settings.metrics and _serving is None:
        serving = importlib.import_module("afl.kernel.metrics_server")  # few commands need an HTTP server
        meters = importlib.import_module("afl.kernel.metrics")
        _serving = serving.MetricsServer(settings.metrics, meters.process_meters().render)
    start_tracing(settings.telemetry, service)


def start_tracing(kind: str, service: str) -> None:
    """Send spans to a collector (`otlp`) or to standard error (`console`) until the process ends; `off`: nothing.

    A program that has a provider of its own, such as a module of handlers that set one up, keeps it: spans go there.
    """
    global _running
    if kind == "off" or _running is not None:
        return
    api, sdk = _module("opentelemetry.trace"), _module("opentelemetry.sdk.trace")
    _running = api.get_tracer_provider()
    if not isinstance(_running, sdk.TracerProvider):
        _running = sdk.TracerProvider(resource=_resource(service), shutdown_on_exit=False)
        _running.add_span_processor(_processor(kind))
        api.set_tracer_provider(_running)
    otel = importlib.import_module("afl.kernel.otel")  # few processes are traced
    telemetry.trace(otel.OpenTelemetryTracer(_running.get_tracer("afl")))
    atexit.register(stop_tracing)


def _resource(service: str) -> Any:
    """Who sends the spans. What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say wins."""
    resources = _module("opentelemetry.sdk.resources")
    about = {
        "service.name": service,
        "service.version": importlib.import_module("importlib.metadata").version("agentflow-afl"),
        "host.name": os.uname().nodename,
    }
    return resources.Resource(about).merge(resources.OTELResourceDetector().detect())


def _processor(kind: str) -> Any:
    export = _module("opentelemetry.sdk.trace.export")
    if kind == "otlp":
        otlp = _module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        return export.BatchSpanProcessor(otlp.OTLPSpanExporter())
    return export.SimpleSpanProcessor(export.ConsoleSpanExporter(out=sys.stderr, formatter=_line))


def stop_tracing() -> None:
    """Send what is left. A process that is about to end without its exit functions calls this itself."""
    global _running
    if _running is not None:
        provider, _running = _running, None
        telemetry.trace(None)
        provider.force_flush(round(_LAST_SECONDS * 1000))
        provider.shutdown()


def _line(span: Any) -> str:
    return str(span.to_json(indent=None)) + "\n"


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(f"AFL_TELEMETRY needs OpenTelemetry; `{pip_install('telemetry')}`") from error
