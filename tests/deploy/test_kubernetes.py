"""The manifests: what selects what, who the pods run as, what they are scaled by."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from mailagent import serving
from mailagent.demo.fakes.webhooks import WebhookKey
from mailagent.domain.operations.metric import DEPTH, RUNS
from mailagent.engine import CONVERSATION
from mailagent.settings import SETTINGS, load_settings
from tests.deploy.files import (
    MANIFESTS,
    compose,
    documents,
    filled_in,
    given_whole,
    instructions,
    manifests,
    pods,
)
from tests.deploy.metric_queries import find_problems

PODS = list(pods())
LARGEST_MAIL_MEGABYTES = 30  # SendGrid's limit for message and attachments


def of_kind(kind: str) -> list[dict[str, Any]]:
    found = [each for each in manifests() if each["kind"] == kind]
    assert found, f"there is no {kind}"
    return found


def test_every_manifest_is_applied_or_told_of() -> None:
    applied = {
        path.parent / name
        for path in MANIFESTS.rglob("kustomization.yaml")
        for name in documents(path)[0]["resources"]
    }
    by_hand = {
        MANIFESTS / name
        for name in ("secret.example.yaml", "migration.yaml", "reconcile.yaml", "restore.yaml")
    }
    files = {path for path in MANIFESTS.rglob("*.yaml") if path.name != "kustomization.yaml"}
    assert applied | by_hand == files


@pytest.mark.parametrize("name", ["mailagent-reconcile", "mailagent-restore"])
def test_a_pod_without_the_shops_files_is_given_no_path_of_one(name: str) -> None:
    (container,) = dict(PODS)[name]["spec"]["containers"]
    emptied = {each["name"] for each in container["env"] if each["value"] == ""}
    assert emptied >= {each.name for each in SETTINGS if each.meaning.startswith("path of a")}


def test_every_kind_that_makes_pods_is_looked_at() -> None:
    makers = [each for kind in ("Deployment", "Job", "CronJob") for each in of_kind(kind)]
    assert sorted(name for name, _ in PODS) == sorted(each["metadata"]["name"] for each in makers)


@pytest.mark.parametrize("pod", PODS, ids=lambda pod: pod[0])
def test_no_pod_runs_as_root_or_writes_to_its_image(pod: tuple[str, dict[str, Any]]) -> None:
    spec = pod[1]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]


def test_all_selectors_find_pods() -> None:
    labels = [pod["metadata"]["labels"] for _, pod in PODS]
    selectors = [each["spec"]["selector"]["matchLabels"]
                 for kind in ("Deployment", "PodDisruptionBudget") for each in of_kind(kind)]  # fmt: skip
    selectors += [each["spec"]["selector"] for each in of_kind("Service")]
    selectors += [each["spec"]["selector"]["matchLabels"] for each in of_kind("PodMonitor")]
    assert [each for each in selectors if each not in labels] == []
    names = {each["metadata"]["name"] for each in of_kind("Deployment")}
    scaled = [*of_kind("HorizontalPodAutoscaler"), *of_kind("ScaledObject")]
    assert {each["spec"]["scaleTargetRef"]["name"] for each in scaled} == names


def policies_of(labels: dict[str, str]) -> list[dict[str, Any]]:
    """Return the specs of the network policies that select a pod."""
    specs = [each["spec"] for each in of_kind("NetworkPolicy")]
    return [one for one in specs if one["podSelector"]["matchLabels"].items() <= labels.items()]


def ports_of(specs: list[dict[str, Any]], direction: str) -> set[int]:
    rules = [rule for one in specs for rule in one.get(direction, ())]
    return {port["port"] for rule in rules for port in rule["ports"]}


@pytest.mark.parametrize("pod", PODS, ids=lambda pod: pod[0])
def test_a_pod_reaches_and_is_reached_by_what_it_needs_alone(
    pod: tuple[str, dict[str, Any]],
) -> None:
    labels = pod[1]["metadata"]["labels"]
    specs = policies_of(labels)
    assert {"Ingress", "Egress"} == {each for one in specs for each in one["policyTypes"]}
    part = labels["app.kubernetes.io/component"]
    to_providers = {443} if part in ("worker", "reconcile") else set()
    assert ports_of(specs, "egress") == {53, 5432} | to_providers
    assert ports_of(specs, "ingress") == ({8000} if part == "web" else set())


def test_no_policy_selects_what_is_not_there() -> None:
    labels = [pod["metadata"]["labels"] for _, pod in PODS]
    for each in of_kind("NetworkPolicy"):
        wanted = each["spec"]["podSelector"]["matchLabels"]
        assert any(wanted.items() <= one.items() for one in labels), each["metadata"]["name"]


def test_the_image_of_a_job_is_the_one_that_runs() -> None:
    (image,) = documents(MANIFESTS / "kustomization.yaml")[0]["images"]
    running = {pod["spec"]["containers"][0]["image"] for _, pod in PODS}
    assert running == {image["name"], f"{image['newName']}:{image['newTag']}"}


def test_a_restoration_starts_no_worker() -> None:
    (container,) = dict(PODS)["mailagent-restore"]["spec"]["containers"]
    (like,) = dict(PODS)["mailagent-worker"]["spec"]["containers"]
    assert container["command"] == ["sleep", "86400"]
    assert given_whole(container) == given_whole(like)
    assert {"name": "MAILAGENT_ROLE", "value": "worker"} in container["env"]


def test_workers_are_looked_at_as_the_image_is() -> None:
    (check,) = instructions("HEALTHCHECK")
    (container,) = dict(PODS)["mailagent-worker"]["spec"]["containers"]
    assert container["livenessProbe"]["exec"]["command"] == yaml.safe_load(check.split("CMD ")[1])


def test_a_worker_that_has_not_begun_takes_no_place() -> None:
    (deployment,) = (
        each for each in of_kind("Deployment") if each["metadata"]["name"] == "mailagent-worker"
    )
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ready, lives = container["readinessProbe"], container["livenessProbe"]
    assert ready["exec"]["command"] == [*lives["exec"]["command"], "--ready"]
    # A file that the container before has left is seen by neither.
    assert ready["initialDelaySeconds"] >= 10
    assert deployment["spec"]["minReadySeconds"] >= 20
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert compose()["services"]["worker"]["healthcheck"]["test"] == [
        "CMD",
        *ready["exec"]["command"],
    ]


@pytest.mark.parametrize(
    ("ends_with", "more_than"),
    [("body-size", LARGEST_MAIL_MEGABYTES), ("read-timeout", serving.timeout)],
)
def test_the_ingress_lets_the_largest_mail_through(ends_with: str, more_than: int) -> None:
    (ingress,) = of_kind("Ingress")
    annotations = ingress["metadata"]["annotations"]
    texts = [text for name, text in annotations.items() if name.endswith(ends_with)]
    limits = [int(text.rstrip("ms")) for text in texts]
    assert len(limits) == 2  # one for each of the controllers
    assert min(limits) > more_than


def test_workers_are_scaled_by_what_waits_and_what_is_at_work() -> None:
    (scaled,) = of_kind("ScaledObject")
    (trigger,) = scaled["spec"]["triggers"]
    # The namespace is what Prometheus adds.
    query = re.sub(r'namespace="mailagent",? *', "", trigger["metadata"]["query"])
    assert find_problems(query, "") == []
    assert set(re.findall(r"\bmailagent_\w+", query)) == {DEPTH.name, RUNS.name}
    # By runs that wait alone a fleet that is busy would shrink until some do.
    assert f'workflow="{CONVERSATION}"' in query
    assert 'status="PENDING"' in query
    # Above it a fleet whose workers all have as much to do as they may would not grow.
    usual = load_settings({"SECRET_KEY": "a key"}).conversation_concurrency
    assert int(trigger["metadata"]["threshold"]) < usual
    # Figures that are away, as with the database, are none of an empty queue.
    assert trigger["metadata"]["ignoreNullValues"] == "false"
    assert scaled["spec"]["fallback"]["replicas"] >= scaled["spec"]["minReplicaCount"]


def test_prometheus_asks_the_web_pods_themselves_and_has_one_token() -> None:
    (monitor,) = of_kind("PodMonitor")
    chosen = monitor["spec"]["selector"]["matchLabels"]
    (pod,) = (pod for _, pod in PODS if pod["metadata"]["labels"] == chosen)
    (container,) = pod["spec"]["containers"]
    assert {"name": "MAILAGENT_ROLE", "value": "web"} in container["env"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["path"] == "/metrics"
    assert endpoint["port"] in {port["name"] for port in container["ports"]}
    credentials = endpoint["authorization"]["credentials"]
    secrets = {each["metadata"]["name"]: each["stringData"] for each in of_kind("Secret")}
    # Not METRICS_TOKEN itself: while it is rotated that is a list, and Prometheus would send it whole.
    assert set(secrets[credentials["name"]]) == {credentials["key"]}
    assert secrets[credentials["name"]] not in given_whole(container)


@pytest.mark.parametrize("role", ["web", "worker"])
def test_config_and_secret_have_all_that_production_wants(tmp_path: Path, role: str) -> None:
    (container,) = dict(PODS)[f"mailagent-{role}"]["spec"]["containers"]
    config, secret = given_whole(container)
    given = config | secret
    assert set(filled_in(tmp_path)) - {"POSTGRES_PASSWORD"} == set(given) - {"DATABASE_URL"}
    filled = {name: filled_in(tmp_path).get(name, value) for name, value in given.items()}
    load_settings(filled | {"MAILAGENT_ENV": "production", "MAILAGENT_ROLE": role})
    assert WebhookKey(tmp_path / "key.pem").public_text() in filled.values()
