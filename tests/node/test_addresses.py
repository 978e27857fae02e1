"""Which addresses may be called for somebody else."""

from __future__ import annotations

import pytest

from fairway.addresses import check_literal, check_public, check_url, is_public, public_addresses
from fairway.errors import InvalidRequest, PrivateAddress

PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"]
PRIVATE = [
    "127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0",
    "100.64.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1",
    "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "not an address",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_of_the_open_internet_are_public(address: str) -> None:
    assert is_public(address)
    assert check_public("example.org", [address]) == [address]


@pytest.mark.parametrize("address", PRIVATE)
def test_all_others_are_not(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(PrivateAddress, match=r"example\.org"):
        check_public("example.org", [PUBLIC[0], address])


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::1]", "::1", "localhost",
     "LOCALHOST.", "a.localhost", "10.1.2.3", "[::ffff:169.254.169.254]"],
)  # fmt: skip
def test_a_host_that_is_a_private_address_however_written_is_refused(host: str) -> None:
    with pytest.raises(PrivateAddress):
        check_literal(host)


@pytest.mark.parametrize(
    "host", ["example.org", "8.8.8.8", "[2606:4700:4700::1111]", "localhost.example.org"]
)
def test_other_hosts_are_looked_at_when_they_are_called(host: str) -> None:
    check_literal(host)


@pytest.mark.parametrize(
    "url",
    ["", "example.org", "ftp://example.org", "http://", "http:///x", "http://a b/", "https://user:pw@example.org/",
     "http://[::1/", "http://h:99999/", "http://h:0/", "http://ex\u00e4mple.org/", "http://h/" + "x" * 2000],
)  # fmt: skip
def test_what_is_no_address_of_a_page_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="notify"):
        check_url(url, "notify")


def test_a_good_url_gives_its_host() -> None:
    assert check_url("https://hooks.example.org:8443/in?x=1", "notify") == "hooks.example.org"
    assert check_url("http://[::1]:80/", "notify") == "::1"


async def test_names_are_resolved_and_every_address_is_checked() -> None:
    with pytest.raises(PrivateAddress):
        await public_addresses("localhost", 80)
    assert set(await public_addresses("localhost", 80, allow_private=True)) <= {"127.0.0.1", "::1"}
    with pytest.raises(OSError, match="no name"):
        await public_addresses("x" * 300, 80)
