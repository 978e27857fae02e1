"""Which addresses are public: a table, and names that are looked up."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fairway.addresses import PrivateAddress, is_public, public_addresses


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.32.0.1", "2606:4700::1111",
     "2a00:1450:4001:80b::200e", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"],
)  # fmt: skip
def test_what_everybody_reaches_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255",
     "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.0.192", "198.18.0.1",
     "224.0.0.1",
     "239.255.255.250", "240.0.0.1", "255.255.255.255", "168.63.129.16", "192.0.2.1", "203.0.113.9",
     "::", "::1",
     "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1",
     "2002:7f00:1::1",
     "2002:a00:1::", "2001:0:1::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0",
     "fec0::1", "ff02::1",
     "2001:db8::1", "100::1", "", "localhost", "1.2.3", "8.8.8.8 "],
)  # fmt: skip
def test_what_only_some_reach_is_not(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1", "0x7f000001", "::1"])
async def test_a_name_is_judged_by_where_it_leads(host: str) -> None:
    with pytest.raises(PrivateAddress, match="not an address of the public internet"):
        await public_addresses(host, 80, allow_private=False)


async def test_private_addresses_can_be_allowed() -> None:
    assert await public_addresses("127.0.0.1", 80, allow_private=True) == ["127.0.0.1"]


async def test_a_public_address_is_returned_as_it_is() -> None:
    assert await public_addresses("8.8.8.8", 443, allow_private=False) == ["8.8.8.8"]


async def test_names_are_looked_up_although_all_threads_of_the_loop_are_busy() -> None:
    done, pool = threading.Event(), ThreadPoolExecutor(1)
    loop = asyncio.get_running_loop()
    loop.set_default_executor(pool)
    busy = loop.run_in_executor(None, done.wait, 60)
    try:
        assert await public_addresses("localhost", 80, allow_private=True)
        assert not busy.done()
    finally:
        done.set()
        await busy
