"""The Helm chart: what Helm itself makes of it, and that it gives what the plain files give."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from coffer import __version__
from coffer_testing.servers import charts
from coffer_testing.servers.charts import ChartError

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
CHART = FOLDER / "chart"
API = "1.33"
DRIVER = "192.0.2.0/24"

pytestmark = pytest.mark.full


def by_kind(objects: list[Any]) -> dict[str, Any]:
    found = {one["kind"]: one for one in objects}
    assert len(found) == len(objects)
    return found


def without_names_of_a_release(one: Any) -> Any:
    """An object as in the plain files, which name no namespace and no release."""
    if isinstance(one, list):
        return [without_names_of_a_release(each) for each in one]
    if not isinstance(one, dict):
        return one
    kept = {key: without_names_of_a_release(value) for key, value in one.items()}
    kept.pop("namespace", None)
    if "app.kubernetes.io/instance" in kept.get("labels", {}):
        del kept["labels"]
    return kept


def test_helm_finds_nothing_wrong_with_the_chart(tmp_path: Path) -> None:
    charts.lint(CHART)
    broken = shutil.copytree(CHART, tmp_path / "chart")
    (broken / "templates" / "quota.yaml").write_text("{{ .Values.quota")
    with pytest.raises(ChartError, match=r"quota\.yaml"):
        charts.lint(broken)


def test_its_version_is_coffers() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


def test_it_gives_what_the_plain_files_give(tmp_path: Path) -> None:
    rendered = by_kind(charts.template(CHART, {"driverNetworks": [DRIVER]}, "spark", tmp_path))
    template = yaml.safe_load(rendered.pop("ConfigMap")["data"]["executor-pod.yaml"])
    assert template == yaml.safe_load((FOLDER / "executor-pod.yaml").read_text())
    plain = by_kind(list(yaml.safe_load_all((FOLDER / "access.yaml").read_text())))
    assert without_names_of_a_release(rendered) == plain


def test_every_value_has_its_place(tmp_path: Path) -> None:
    values = {
        "driverNetworks": [DRIVER, "2001:db8::/32"],
        "serviceAccount": {"create": False, "name": "spark", "annotations": {}},
        "executor": {
            "user": 1000,
            "imagePullSecrets": [{"name": "registry"}],
            "nodeSelector": {"tee": "tdx"},
            "tolerations": [{"key": "tee", "operator": "Exists"}],
            "workSize": "20Gi",
        },
        "quota": {"pods": 8, "cpu": "16", "memory": "64Gi"},
    }
    objects = by_kind(charts.template(CHART, values, "wards", tmp_path))
    for one in objects.values():
        kubernetes_validate.validate(one, API, strict=True)
        assert one["metadata"]["namespace"] == "wards"
    assert set(objects) == {"Role", "RoleBinding", "NetworkPolicy", "ConfigMap", "ResourceQuota"}
    (subject,) = objects["RoleBinding"]["subjects"]
    assert (subject["name"], subject["namespace"]) == ("spark", "wards")
    (rule,) = objects["NetworkPolicy"]["spec"]["ingress"]
    assert [one["ipBlock"]["cidr"] for one in rule["from"][1:]] == values["driverNetworks"]
    hard = objects["ResourceQuota"]["spec"]["hard"]
    assert hard == {"pods": "8", "requests.cpu": "16", "requests.memory": "64Gi"}
    pod = yaml.safe_load(objects["ConfigMap"]["data"]["executor-pod.yaml"])
    spec = pod["spec"]
    assert spec["securityContext"]["runAsUser"] == spec["securityContext"]["fsGroup"] == 1000
    assert spec["nodeSelector"] == {"tee": "tdx"} and spec["volumes"][0]["emptyDir"] == {
        "sizeLimit": "20Gi"
    }
    assert spec["imagePullSecrets"] == [{"name": "registry"}] and spec["tolerations"]
    # As Spark completes it: with an image.
    spec["containers"][0]["image"] = "apache/spark:4.1.3"
    kubernetes_validate.validate({**pod, "metadata": {"name": "one"}}, API, strict=True)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "driverNetworks"),
        ({"driverNetworks": []}, "driverNetworks"),
        ({"driverNetworks": ["everybody"]}, "driverNetworks"),
        ({"driverNetworks": [DRIVER], "executor": {"user": 0}}, "user"),
        ({"driverNetworks": [DRIVER], "quotas": {"pods": 3}}, "quotas"),
    ],
)
def test_values_that_are_none_are_refused(
    values: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ChartError, match=said):
        charts.template(CHART, values, "spark", tmp_path)


def test_the_images_recipe_is_sound(tmp_path: Path) -> None:
    recipe = FOLDER / "Dockerfile"
    assert hadolint(recipe) == (0, "")
    careless = tmp_path / "Dockerfile"
    careless.write_text(recipe.read_text().replace("USER 185", "USER root"))
    code, said = hadolint(careless)
    assert code == 1 and "DL3002" in said


def hadolint(recipe: Path) -> tuple[int, str]:
    done = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), "--no-color", recipe],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr
