"""The Containerfile and the manifests, as far as they can be held without running them: what they say exists, and is what the pages
say of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
from ruamel.yaml import YAML

from holdfast.cli.app import app
from holdfast.settings import load

DEPLOY = Path(__file__).parents[2] / "deploy"
OBJECTS = list(YAML(typ="safe", pure=True).load_all((DEPLOY / "kubernetes.yaml").read_text()))
LINES = [
    line for line in re.sub(r"\\\n\s*", " ", (DEPLOY / "Containerfile").read_text()).splitlines() if line and line[0] != "#"
]


def pods() -> list[Any]:
    return [pytest.param(each, id=each["metadata"]["name"]) for each in OBJECTS if each["kind"] == "Deployment"]


@pytest.mark.parametrize("deployment", pods())
def test_a_deployment_runs_a_command_that_there_is_with_options_that_there_are(deployment: Any) -> None:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    name, *words = container["args"]
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    known = {option for each in command.params for option in each.opts}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known
    if "--behind-proxy" in words:
        assert {"--tokens", "--keys"} & {word.partition("=")[0] for word in words}


@pytest.mark.parametrize("deployment", pods())
def test_a_pod_drains_before_it_is_killed_and_does_not_run_as_root(deployment: Any) -> None:
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    grace_s = next((float(word.partition("=")[2]) for word in container["args"] if word.startswith("--grace-s=")), 10.0)
    assert spec["terminationGracePeriodSeconds"] > grace_s + 10
    assert spec["securityContext"]["runAsNonRoot"]
    assert str(spec["securityContext"]["runAsUser"]) in "\n".join(LINES)
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not spec["automountServiceAccountToken"]
    assert "memory" in container["resources"]["limits"]
    mounted = {each["name"] for each in container["volumeMounts"]}
    assert mounted == {each["name"] for each in spec["volumes"]}


@pytest.mark.parametrize("deployment", pods())
def test_probes_ask_what_the_health_port_answers(deployment: Any) -> None:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    for probe, path in (("startupProbe", "/readyz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "health"}
    assert {f"--port={ports['health']}", "--host=0.0.0.0"} <= {*container["args"]}


def test_the_service_leads_to_those_that_serve() -> None:
    (serve,) = [each for each in OBJECTS if each["metadata"]["name"] == "holdfast-serve" and each["kind"] == "Deployment"]
    (container,) = serve["spec"]["template"]["spec"]["containers"]
    assert "--http=0.0.0.0:8000" in container["args"]
    assert {"name": "http", "containerPort": 8000} in container["ports"]
    (service,) = [each for each in OBJECTS if each["kind"] == "Service"]
    assert service["spec"]["selector"].items() <= serve["spec"]["template"]["metadata"]["labels"].items()
    assert service["spec"]["ports"][0]["targetPort"] == "http"


@pytest.mark.parametrize("deployment", pods())
def test_a_pod_is_reached_only_from_the_namespaces_that_need_to(deployment: Any) -> None:
    """Of every port: what it says is clear text, and some of it is believed."""
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    (policy,) = [
        each["spec"]
        for each in OBJECTS
        if each["kind"] == "NetworkPolicy" and each["spec"]["podSelector"]["matchLabels"] == labels
    ]
    assert policy["policyTypes"] == ["Ingress"]
    reached = {port["port"]: rule["from"] for rule in policy["ingress"] for port in rule["ports"]}
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert reached.keys() == {each["name"] for each in container["ports"]}
    for who in reached.values():
        assert [set(each) for each in who] == [{"namespaceSelector"}]
        assert all(each["namespaceSelector"]["matchLabels"] for each in who)


def test_a_pod_has_its_own_secret_and_no_provider_s_key_in_its_environment() -> None:
    found = {}
    for deployment in (each for each in OBJECTS if each["kind"] == "Deployment"):
        spec = deployment["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        (source,) = container["envFrom"]
        found[source["secretRef"]["name"]] = {each["name"] for each in container.get("env", ())}
        files = {each["secret"]["secretName"] for each in spec["volumes"] if "secret" in each}
        # Written 0440: an octal number to Kubernetes (YAML 1.1), a decimal one to what reads it here (YAML 1.2).
        assert all(each["secret"]["defaultMode"] == 440 for each in spec["volumes"] if "secret" in each)
        assert ("holdfast-providers" in files) == ("HOLDFAST_SECRETS_FILE" in found[source["secretRef"]["name"]])
    assert found == {"holdfast-serve": set(), "holdfast-worker": {"HOLDFAST_SECRETS_FILE"}}


def test_the_settings_of_the_manifest_are_settings(tmp_path: Path) -> None:
    (settings,) = [each for each in OBJECTS if each["kind"] == "ConfigMap"]
    (tmp_path / "holdfast.toml").write_text(settings["data"]["holdfast.toml"])
    assert load(tmp_path).identity is not None


def test_the_image_is_of_locked_packages_and_starts_without_root() -> None:
    words = [line.split(None, 1) for line in LINES]
    assert {word for word, _ in words} <= {
        "ARG",
        "FROM",
        "WORKDIR",
        "COPY",
        "RUN",
        "ENV",
        "USER",
        "STOPSIGNAL",
        "ENTRYPOINT",
        "CMD",
    }
    assert [rest.split()[0] for word, rest in words if word == "FROM"] == ["${BASE}", "${BASE}"]
    assert re.fullmatch(r"BASE=[a-z]+:\d[\w.-]+(@sha256:[0-9a-f]{64})?", dict(words)["ARG"])
    installed = [each for word, rest in words if word == "RUN" for each in rest.split("&&") if "pip install" in each]
    assert all("--require-hashes" in each or "--no-index" in each for each in installed)
    root = DEPLOY.parent
    for word, rest in words:
        if word == "COPY" and not rest.startswith("--from"):
            assert all((root / each).exists() for each in rest.split()[:-1]), rest
    order = [word for word, _ in words]
    assert order.index("USER") < order.index("ENTRYPOINT")
    assert dict(words)["ENTRYPOINT"] == '["holdfast"]'
