"""Transports by address scheme: the built-in ones, and those that other code registers."""

import pytest

from dpeer.exceptions import AddressError
from dpeer.federation.addresses import addresses
from dpeer.federation.settings import Settings
from dpeer.peer import InProcessTransport, Limits, Network, ZeroMQTransport
from dpeer.peer.transports import TransportOptions, make_transport, register, schemes
from dpeer.peer.transports.hosts import split
from tests.error_texts import refused


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("tcp://127.0.0.1:7700", ZeroMQTransport),
        ("ipc://socket", ZeroMQTransport),
        ("inproc://peer", InProcessTransport),
    ],
)
async def test_a_transport_goes_by_the_scheme_of_its_address(address, kind):
    transport = make_transport(address, TransportOptions(Limits()))
    assert isinstance(transport, kind)
    await transport.close(0)


def test_other_code_may_register_a_scheme_for_the_addresses_of_a_federation():
    network, seen = Network(), []

    def make(options):
        seen.append(options)
        return network.transport()

    settings = Settings.model_validate({"size": 2, "rank": {0: {"address": "pigeon://loft"}}})
    with pytest.raises(AddressError):
        addresses(settings, settings.size)
    register("pigeon", make)
    assert addresses(settings, settings.size) == {0: "pigeon://loft"}
    assert isinstance(make_transport("pigeon://loft", TransportOptions(Limits(buffers=7))), InProcessTransport)
    assert [options.limits.buffers for options in seen] == [7]
    assert "pigeon" in schemes()


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (lambda: make_transport("owl://loft", TransportOptions(Limits())), "address 'owl://loft'"),
        (lambda: split("tcp://host"), "address 'tcp://host' cannot be dialled"),
        (lambda: split("tcp://host:70000"), "address 'tcp://host:70000' cannot be dialled"),
    ],
)
def test_an_address_of_no_transport_is_named(call, fragment):
    with refused(AddressError, fragment):
        call()
