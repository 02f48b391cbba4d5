"""Which of its addresses a machine tells others."""

from __future__ import annotations

import ipaddress

import pytest

from lppa.engines.interface import endpoint, is_address, own_address, own_addresses
from lppa.protocol.book import is_any_port, is_endpoint
from lppa.protocol.errors import WrongUse


def test_this_machine_has_its_loopback_by_name_by_net_and_towards_itself():
    assert ("lo", ipaddress.ip_address("127.0.0.1")) in own_addresses()
    for interface in ("lo", "127.0.0.0/8", "127.0.0.1"):
        assert own_address(interface) == "127.0.0.1"
    assert own_address(None, "127.0.0.1") == "127.0.0.1"


@pytest.mark.parametrize("interface", ["no-such-interface", "198.51.100.0/24"])
def test_an_interface_that_is_not_there_is_told_with_those_that_are(interface):
    with pytest.raises(WrongUse, match=r"has no such address; it has .*127\.0\.0\.1 \(lo\)"):
        own_address(interface)


def test_what_is_no_net_is_refused():
    with pytest.raises(WrongUse, match="is no net"):
        own_address("10.0.0.0/99")


def test_a_host_that_nobody_knows_is_told():
    with pytest.raises(WrongUse, match="--interface"):
        own_address(None, "no-such-host.invalid")


def test_an_address_becomes_an_endpoint_with_any_port():
    for address, shown in (("10.0.0.1", "tcp://10.0.0.1:0"), ("fd00::1", "tcp://[fd00::1]:0")):
        assert endpoint(address) == shown
        assert is_endpoint(shown)
        assert is_any_port(shown)
        assert is_address(address)
    assert not is_address("eth0")
    assert not is_address(None)
