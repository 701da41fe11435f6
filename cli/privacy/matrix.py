"""`dpeer privacy matrix`: epsilon between pairs of peers, by distance in the graph."""

from __future__ import annotations

import json
from typing import Any

import click

from dpeer.cli.privacy.options import client_options, require
from dpeer.cli.privacy.printing import print_lines, short, upwards, which_is_which
from dpeer.cli.tables import json_option, plain_table, print_table
from dpeer.cli.topology.options import build_one, graph_options, size_option, topology_option
from dpeer.exceptions import ConfigurationError
from dpeer.privacy.client_level import Guarantee
from dpeer.privacy.pairwise_leakage import by_distance, epsilon_of_pairs, views, work
from dpeer.privacy.plan import ClientPlan
from dpeer.topology import TimeVaryingTopology, Topology

MULTIPLICATIONS = 4e12
"""The most that are done: about two minutes on two cores."""

BYTES = 2e9
"""The most that are held at once."""

NOTES = (
    "eps_guaranteed: holds against that one peer whatever the others do with what they receive.",
    "eps_openloop (estimate): from the graph alone, as if other peers' training did not react to what they receive. "
    "It is no guarantee.",
    "Peers that pool what they see are together as near as the nearest of them.",
)


@click.command(short_help="Print who can learn how much of whom.")
@topology_option
@size_option
@graph_options
@client_options
@click.option("--pairs", is_flag=True, help="A row for each source and observer instead of each distance.")
@json_option
def matrix(name: str | None, size: int | None, pairs: bool, as_json: bool, **options: Any) -> None:
    """Print what each peer can learn about each other, by how far apart they are.

    \b
    Example:
      dpeer privacy matrix --topology ring --size 16 --noise-multiplier 5 --rounds 20
    """  # noqa: D301 - \b is click's
    fields = {field: options.pop(field) for field in list(options) if field in ClientPlan.__dataclass_fields__}
    require(ClientPlan(**fields), "matrix", "target_epsilon|noise_multiplier", "rounds")
    if None not in (fields["noise_multiplier"], fields["target_epsilon"]):
        raise ConfigurationError(
            f"--target-epsilon {fields['target_epsilon']:g} with --noise-multiplier {fields['noise_multiplier']:g}: "
            "each decides the noise, leave one of them out"
        )
    topology = _fixed(name, size, options)
    asked = ClientPlan(**fields, size=topology.size)
    warnings, guarantee = asked.warnings(), asked.guarantee()
    weights, rounds = topology.weights, asked.planned
    _check_work(topology, work(weights, rounds), rounds)
    # In aggregate mode, too, a peer of the graph receives messages, with the noise that is on each.
    found = views(weights, rounds, 1.0 / guarantee.ratio("neighbor"))
    rows = epsilon_of_pairs(found, asked.chosen_delta, asked.accountant)
    rows = rows if pairs else by_distance(rows)
    if as_json:
        click.echo(json.dumps(rows, allow_nan=False))
        return
    print_lines(_heading(topology, guarantee, asked))
    _print_rows(rows, pairs)
    print_lines(NOTES)
    if numbers := asked.both(guarantee):
        print_lines([which_is_which(numbers, guarantee), "The table is about peers; the outsider is none of them."])
    print_lines(warnings)


def _fixed(name: str | None, size: int | None, options: dict[str, Any]) -> Topology:
    topology = build_one(name, size, options)
    if isinstance(topology, TimeVaryingTopology):
        raise ConfigurationError(
            f"--topology {topology.name}: it has another graph every round, and what one peer sees of another is "
            "computed for one that stays; against a direct neighbor `dpeer privacy epsilon` holds for every graph"
        )
    return topology


def _check_work(topology: Topology, needed: tuple[float, float], rounds: int) -> None:
    if needed[0] > MULTIPLICATIONS or needed[1] > BYTES:
        raise ConfigurationError(
            f"--rounds {rounds} with {topology.size} peers: the open-loop estimate would take hours or too much "
            "memory: choose fewer rounds or peers; the guarantee is that of `dpeer privacy epsilon --rounds "
            "T-distance+1`"
        )


def _heading(topology: Topology, guarantee: Guarantee, asked: ClientPlan) -> list[str]:
    adjacency = guarantee.words_against("neighbor").rpartition(", ")[2]
    return [
        f"{topology.name}, {topology.size} peers, weights {topology.weights_rule}; {asked.planned:,} rounds, noise "
        f"multiplier {upwards(guarantee.noise_multiplier)}, delta {guarantee.delta:g}, accountant {asked.accountant}",
        f"Protected: one peer's whole data set, against one other peer at each distance, {adjacency}.",
    ]


def _print_rows(rows: list[dict[str, Any]], pairs: bool) -> None:
    table = plain_table()
    for key in rows[0]:
        heading = f"{key}\n(estimate)" if key.endswith("openloop") else key
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(_cell(key, value) for key, value in row.items()))
    print_table(table)
    if not pairs:
        print_lines(["Means over the pairs of a distance; --pairs has each."])


def _cell(key: str, value: Any) -> str:
    if key == "distance" and value is None:
        return "none"
    return str(value) if isinstance(value, int) else short(value)
