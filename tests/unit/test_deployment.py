"""What `deploy` and docs/deployment.md name is there: files parse, commands, options, settings and ports exist."""

from __future__ import annotations

import configparser
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from afl import __version__
from afl.cli.app import COMMANDS
from afl.fleet.settings import FLEET_SETTINGS
from afl.kernel.settings import SETTINGS
from reference.commands import all_commands, options_of

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
VARIABLES = {row.variable for row in (*SETTINGS, *FLEET_SETTINGS)}
OPTIONS = {command.name: options_of(command) for command in all_commands()}
PAGE = (ROOT / "docs" / "deployment.md").read_text()
_GRACE = 30  # the default of --shutdown-timeout, in seconds


class Call(NamedTuple):
    """A command line of `afl` in some file."""

    where: str
    words: list[str]

    @property
    def command(self) -> str:
        """The longest beginning that names a command."""
        names = [" ".join(self.words[:count]) for count in (3, 2, 1)]
        return next((name for name in names if name in OPTIONS), "")

    @property
    def grace(self) -> int:
        if "--shutdown-timeout" in self.words:
            return int(self.words[self.words.index("--shutdown-timeout") + 1])
        return _GRACE if "--shutdown-timeout" in OPTIONS[self.command] else 0


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "container" / "compose.yaml").read_text())  # type: ignore[no-any-return]


def objects() -> list[dict[str, Any]]:
    """Every object of the manifests, in the order in which they are applied."""
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted(
        path.name for path in KUBERNETES.glob("*.yaml") if path.stem != "kustomization"
    )
    return [each for name in listed for each in yaml.safe_load_all((KUBERNETES / name).read_text())]


def of_kind(*kinds: str) -> list[dict[str, Any]]:
    return [each for each in objects() if each["kind"] in kinds]


def pods() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Name, pod and its one container of everything that runs."""
    for each in of_kind("Deployment", "StatefulSet"):
        pod = each["spec"]["template"]["spec"]
        assert len(pod["containers"]) == 1
        yield each["metadata"]["name"], pod, pod["containers"][0]


def unit(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True, delimiters="=")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text())
    return parser


UNITS = {path.name: unit(path) for path in sorted((DEPLOY / "systemd").glob("*.service"))}


def calls() -> Iterator[Call]:
    """Every command line of `afl` that is deployed or shown on the page."""
    for name, service in compose()["services"].items():
        if service["image"] == "agentflow":
            yield Call(f"compose.yaml: {name}", service["command"])
    for name, _, container in pods():
        if container["image"] == "agentflow":
            yield Call(f"kubernetes: {name}", container["args"])
    for name, parsed in UNITS.items():
        program, *words = shlex.split(parsed["Service"]["ExecStart"])
        assert program == "/opt/agentflow/bin/afl"
        yield Call(f"systemd: {name}", words)
    for line in re.findall(r"^(?:\$ )?((?:[A-Z_]+=\S+ )*afl .*)$", PAGE, re.MULTILINE):
        words = [word for word in shlex.split(line, comments=True) if not re.match(r"[A-Z_]+=", word)]
        yield Call(f"deployment.md: {line}", words[1:])


@pytest.mark.parametrize("call", list(calls()), ids=lambda call: call.where)
def test_commands_and_options_exist(call: Call) -> None:
    assert call.command, f"`afl {' '.join(call.words)}` is no command"
    given = {word.partition("=")[0] for word in call.words if word.startswith("-")}
    assert given - OPTIONS[call.command] == set()


def test_every_variable_that_is_named_is_a_setting() -> None:
    files = [path for path in DEPLOY.rglob("*") if path.is_file()]
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in files} | {"deployment.md": PAGE}
    named = {
        (name, word) for name, text in texts.items() for word in re.findall(r"\b(?:AFL|CDKTR)_[A-Z_]+", text)
    }
    assert len(named) > 20
    assert [each for each in sorted(named) if each[1] not in VARIABLES] == []


def test_the_same_servers_everywhere() -> None:
    composed = {name: each["image"] for name, each in compose()["services"].items()}
    running = {name: container["image"] for name, _, container in pods()}
    servers = {"postgres", "nats", "redis"}
    assert {name: composed[name] for name in servers} == {name: running[name] for name in servers}
    assert {image for name, image in composed.items() if name not in servers} == {"agentflow"}
    assert {image for name, image in running.items() if name not in servers} == {"agentflow"}


def test_the_tag_is_this_version() -> None:
    images = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["images"]
    assert [(each["name"], each["newTag"]) for each in images] == [("agentflow", __version__)]


def test_services_lead_to_ports_of_pods() -> None:
    ports = {
        (each["spec"]["template"]["metadata"]["labels"]["app"], port["name"]): port["containerPort"]
        for each in of_kind("Deployment", "StatefulSet")
        for port in each["spec"]["template"]["spec"]["containers"][0].get("ports", ())
    }
    led = {
        (service["spec"]["selector"]["app"], port["targetPort"])
        for service in of_kind("Service")
        for port in service["spec"]["ports"]
    }
    assert led == {each for each in ports if each[1] != "metrics"}
    told = next(each["data"]["AFL_METRICS"] for each in of_kind("ConfigMap"))
    scraped = {port for (_, name), port in ports.items() if name == "metrics"}
    assert scraped == {int(told.rpartition(":")[2])}
    for each in of_kind("Deployment", "StatefulSet"):
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert each["spec"]["selector"]["matchLabels"] == labels == {"app": each["metadata"]["name"]}


def test_addresses_name_services_and_their_ports() -> None:
    services = {
        each["metadata"]["name"]: {port["port"] for port in each["spec"]["ports"]}
        for each in of_kind("Service")
    }
    addresses = [
        variable["value"]
        for _, _, container in pods()
        for variable in container.get("env", ())
        if "://" in variable.get("value", "")
    ]
    composed = compose()["services"]
    addresses += [value for value in composed["runner"]["environment"].values() if "://" in value]
    assert len(addresses) == 4 * 4 + 4
    for address in addresses:
        host, port = re.search(r"@(\w+):(\d+)", address).groups()  # type: ignore[union-attr]
        assert host in composed and int(port) in services[host], address


def test_what_pods_refer_to_is_told_where_it_is_made() -> None:
    kept = {each["metadata"]["name"] for each in of_kind("ConfigMap")}
    told = set(re.findall(r"--from-literal=([A-Z_]+)=", PAGE))
    for name, _, container in pods():
        known: set[str] = set()
        for variable in container.get("env", ()):
            used = set(re.findall(r"\$\((\w+)\)", variable.get("value", "")))
            assert used <= known, f"{name}: {variable['name']} uses what comes later"
            known.add(variable["name"])
            wanted = variable.get("valueFrom", {}).get("secretKeyRef")
            assert wanted is None or (wanted["name"] == "agentflow" and wanted["key"] in told)
        assert set(re.findall(r"\$\((\w+)\)", str(container.get("args", "")))) <= known
        assert {each["configMapRef"]["name"] for each in container.get("envFrom", ())} <= kept


def test_whoever_is_told_to_stop_gets_its_time() -> None:
    for name, pod, container in pods():
        if container["image"] == "agentflow":
            assert pod["terminationGracePeriodSeconds"] > Call(name, container["args"]).grace
    for name, service in compose()["services"].items():
        if service["image"] == "agentflow":
            assert int(service["stop_grace_period"].removesuffix("s")) > Call(name, service["command"]).grace
    for name, parsed in UNITS.items():
        words = shlex.split(parsed["Service"]["ExecStart"])[1:]
        assert int(parsed["Service"]["TimeoutStopSec"]) > Call(name, words).grace
        assert parsed["Service"]["KillMode"] == "mixed"


def test_variables_of_compose_are_in_its_example() -> None:
    text = (DEPLOY / "container" / "compose.yaml").read_text()
    example = (DEPLOY / "container" / "example.env").read_text()
    assert set(re.findall(r"\$\{(\w+)", text)) == set(re.findall(r"^(\w+)=", example, re.MULTILINE))


def test_units_read_the_settings_and_are_all_on_the_page() -> None:
    assert {parsed["Service"]["EnvironmentFile"] for parsed in UNITS.values()} == {
        "/etc/agentflow/agentflow.env"
    }
    assert [name for name in UNITS if name.removesuffix(".service") not in PAGE] == []


def test_every_service_of_the_command_line_can_be_deployed() -> None:
    deployed = {call.command for call in calls() if not call.where.startswith("deployment.md")}
    assert {"runner", "agent", "dashboard", "turns worker", "fleet principal", "fleet agent"} <= deployed
    assert {name.partition(" ")[0] for name in deployed} <= set(COMMANDS)


def test_the_image_is_built_from_what_is_there() -> None:
    text = (DEPLOY / "container" / "Dockerfile").read_text()
    copied = [
        word for line in re.findall(r"^COPY (?!--)(.*)$", text, re.MULTILINE) for word in line.split()[:-1]
    ]
    assert copied and [word for word in copied if not (ROOT / word).exists()] == []
    assert 'ENTRYPOINT ["afl"]' in text


def test_the_image_has_every_extra_that_a_setting_or_command_needs() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [every] = re.findall(r"\[(.*)\]", extras["all"][0])
    [installed] = re.findall(r'"\.\[(.*)\]"', (DEPLOY / "container" / "Dockerfile").read_text())
    assert set(every.split(",")) - set(installed.split(",")) == {
        "local",
        "lsp",
        "web",
    }  # servers; editors; the user's application
