"""Where a worker's machine stands: region, zone, cloud and type, as far as a variable or a file tells it.

What an operator says (FAIRWAY_REGION, FAIRWAY_ZONE, FAIRWAY_CLOUD, FAIRWAY_INSTANCE_TYPE) counts first, then
what cloud-init found out at boot, then the variables and the nameplate that clouds give their machines.
Nothing asks the network: a worker must start where there is none, and a metadata service is not ours to call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MOST_BYTES = 1024 * 1024
MOST_TEXT = 100
FACTS = ("region", "zone", "cloud", "instance_type")
CLOUD_INIT = "run/cloud-init/instance-data.json"
NAMEPLATE = "sys/class/dmi/id"

#: How a maker of machines writes its name, and how the cloud is called.
MAKERS = {
    "amazon": "aws",
    "google": "gcp",
    "microsoft corporation": "azure",
    "digitalocean": "digitalocean",
    "hetzner": "hetzner",
    "openstack": "openstack",
    "alibaba": "alibaba",
    "scaleway": "scaleway",
    "vultr": "vultr",
    "linode": "linode",
    "akamai": "linode",
}
#: Makers that have other machines too: only these of their products stand in their cloud.
PRODUCTS = {"gcp": "google compute engine", "azure": "virtual machine"}
VARIABLES = {
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION", "GOOGLE_CLOUD_REGION", "FLY_REGION"),
    "zone": ("AWS_AVAILABILITY_ZONE", "GOOGLE_CLOUD_ZONE"),
}


def find_surroundings(variables: Mapping[str, str], root: Path = Path("/")) -> dict[str, str]:
    """Return the facts that are known; *root* is where the system's files are."""
    given = {fact: variables.get(f"FAIRWAY_{fact.upper()}") for fact in FACTS}
    usual = {
        fact: next((variables[name] for name in names if variables.get(name)), None)
        for fact, names in VARIABLES.items()
    }
    facts: dict[str, str] = {}
    for source in (given, from_cloud_init(root / CLOUD_INIT), usual, from_nameplate(root / NAMEPLATE)):
        for fact, value in source.items():
            if isinstance(value, str) and value.strip():
                facts.setdefault(fact, value.strip()[:MOST_TEXT])
    return facts


def from_cloud_init(file: Path) -> dict[str, Any]:
    """Return what cloud-init wrote down for everybody; what it keeps for root is left out there."""
    try:
        found = json.loads(read_some(file) or "{}")
    except (ValueError, RecursionError):
        return {}
    common = found.get("v1") if isinstance(found, dict) else None
    if not isinstance(common, dict):
        return {}
    return {
        "region": common.get("region"),
        "zone": common.get("availability_zone"),
        "cloud": common.get("cloud_name") if common.get("cloud_name") not in ("unknown", "none") else None,
        "instance_type": common.get("instance_type") or find_type(found),
    }


def find_type(found: Mapping[str, Any]) -> object:
    """Return the machine's type where some clouds put it."""
    inner: object = found.get("ds")
    for name in ("meta_data", "instance-type"):
        inner = inner.get(name) if isinstance(inner, Mapping) else None
    return inner


def from_nameplate(directory: Path) -> dict[str, str | None]:
    """Return what the (virtual) hardware says it is."""
    maker = (read_some(directory / "sys_vendor") or "").strip().lower()
    product = (read_some(directory / "product_name") or "").strip()
    cloud = next((name for key, name in MAKERS.items() if maker.startswith(key)), None)
    if cloud is None or PRODUCTS.get(cloud, product.lower()) != product.lower():
        return {}
    # On EC2 the product is the type: m5.large.
    return {"cloud": cloud, "instance_type": product if cloud == "aws" and "." in product else None}


def read_some(file: Path) -> str | None:
    """Read a small file of the system; None if it is not there, not for us, or larger than it should be."""
    try:
        with file.open("rb") as opened:
            text = opened.read(MOST_BYTES + 1)
    except OSError:
        return None
    return None if len(text) > MOST_BYTES else text.decode(errors="replace")
