"""Hosts files of `dpeer init`."""

from pathlib import Path

from dpeer.federation.new_federation import Site, read_hosts


def test_a_line_is_a_rank_with_its_address_and_the_name_of_its_site(tmp_path: Path) -> None:
    path = tmp_path / "hosts.txt"
    path.write_text(
        "# the four sites\n\n10.8.0.10\n10.8.0.11:7800\tClinic B, Ward 2  # asked on Monday\n-  Clinic C\n"
        "relay://relay.example:7790 Clinic D\nfd00::2\n[fd00::3]:7900 \x07\n"
    )
    assert read_hosts(path, 7700) == [
        Site("tcp://10.8.0.10:7700"),
        Site("tcp://10.8.0.11:7800", "Clinic B, Ward 2"),
        Site(None, "Clinic C"),
        Site("relay://relay.example:7790", "Clinic D"),
        Site("tcp://[fd00::2]:7700"),
        Site("tcp://[fd00::3]:7900"),
    ]


def test_ranks_on_one_host_take_the_ports_that_no_line_names(tmp_path: Path) -> None:
    path = tmp_path / "hosts.txt"
    path.write_text("a.example\na.example\nb.example\na.example:7701\na.example\n")
    places = [one.address for one in read_hosts(path, 7700)]
    assert places == [
        "tcp://a.example:7700", "tcp://a.example:7702", "tcp://b.example:7700", "tcp://a.example:7701",
        "tcp://a.example:7703",
    ]  # fmt: skip
