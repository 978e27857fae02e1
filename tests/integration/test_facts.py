"""What a worker says of its machine: from variables and files, never from the network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairway.worker.facts import cpu_model, lasting_facts, passing_facts
from fairway.worker.surroundings import CLOUD_INIT, MOST_BYTES, NAMEPLATE, find_surroundings

CLOUD = json.dumps(
    {
        "v1": {"cloud_name": "aws", "region": "eu-west-1", "availability_zone": "eu-west-1a"},
        "ds": {"meta_data": {"instance-type": "m5.large"}},
    }
)
AWS = {"cloud": "aws", "region": "eu-west-1", "zone": "eu-west-1a", "instance_type": "m5.large"}


def machine(root: Path, vendor: str = "", product: str = "", cloud_init: str | None = None) -> Path:
    """Lay out the files of a machine."""
    nameplate = root / NAMEPLATE
    nameplate.mkdir(parents=True)
    (nameplate / "sys_vendor").write_text(vendor + "\n")
    (nameplate / "product_name").write_text(product + "\n")
    if cloud_init is not None:
        (root / CLOUD_INIT).parent.mkdir(parents=True)
        (root / CLOUD_INIT).write_text(cloud_init)
    return root


@pytest.mark.parametrize(
    ("vendor", "product", "facts"),
    [
        ("Amazon EC2", "m5.large", {"cloud": "aws", "instance_type": "m5.large"}),
        ("Google", "Google Compute Engine", {"cloud": "gcp"}),
        ("Google", "Chromebook", {}),
        ("Microsoft Corporation", "Virtual Machine", {"cloud": "azure"}),
        ("Microsoft Corporation", "Surface Laptop", {}),
        ("Hetzner", "vServer", {"cloud": "hetzner"}),
        ("LENOVO", "20XW", {}),
        ("", "", {}),
    ],
)
def test_a_nameplate_tells_the_cloud(
    tmp_path: Path, vendor: str, product: str, facts: dict[str, str]
) -> None:
    assert find_surroundings({}, machine(tmp_path, vendor, product)) == facts


def test_cloud_init_tells_more(tmp_path: Path) -> None:
    assert find_surroundings({}, machine(tmp_path, cloud_init=CLOUD)) == AWS


def test_what_the_operator_says_counts_first_and_what_is_empty_not_at_all(tmp_path: Path) -> None:
    said = {"FAIRWAY_ZONE": "rack-7", "FAIRWAY_REGION": " ", "AWS_REGION": "us-east-1"}
    assert find_surroundings(said, machine(tmp_path, cloud_init=CLOUD)) == {**AWS, "zone": "rack-7"}
    assert find_surroundings(said, tmp_path / "nowhere") == {"zone": "rack-7", "region": "us-east-1"}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"v1": 3}', '{"v1": {"region": 5, "zone": []}}', '{"ds": 1, "v1": {}}',
             "[" * 100_000, '"' + "x" * MOST_BYTES + '"'],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_a_file_that_is_not_what_it_should_be_tells_nothing(tmp_path: Path, text: str) -> None:
    assert find_surroundings({}, machine(tmp_path, cloud_init=text)) == {}


def test_a_processor_says_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\n")
    assert cpu_model(tmp_path / "cpuinfo") == "Fast CPU @ 3 GHz"


def test_this_machine_has_the_facts_that_every_machine_has() -> None:
    assert {"hostname", "os", "machine", "cpus", "memory_bytes", "pid"} <= set(lasting_facts())
    assert {"load", "memory_free_bytes", "disk_free_bytes"} == set(passing_facts())
