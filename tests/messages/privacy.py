"""Error messages of privacy/."""

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from dpeer.exceptions import BudgetTooSmall, CheckpointError, ConfigurationError, TaskError, UnknownName
from dpeer.privacy import Charge, Guarantee, Ledger, PeerData, PrivacyConfig, SampleGuarantee, SampleSession, Sparsifier
from dpeer.privacy.accounting import calibrate, epsilon, total_epsilon
from dpeer.privacy.gaussian import delta as delta_of
from dpeer.privacy.gaussian import epsilon as epsilon_of
from dpeer.privacy.groups import of_group
from dpeer.privacy.sample_level import phases_of
from dpeer.privacy.sampling import Poisson
from dpeer.privacy.settings import PrivacySettings
from dpeer.privacy.soundness import check_adversary, check_budget, check_delta, check_found, check_strength, worst_share
from tests.messages.message import Message

CLIENT = Guarantee(1.0, 1.0, 1e-5)
SAMPLE = SampleGuarantee(0.05, 1.0, 0.5, 1e-5, phases_of(20))
STEPS = Charge(0.1, 1.0, 9)


def refused(text: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Message:
    """A configuration error of a call."""
    return Message(lambda folder: call(*arguments, **named), ConfigurationError, text)


client, sample = partial(dataclasses.replace, CLIENT), partial(dataclasses.replace, SAMPLE)


M = {"noise_multiplier": 2.0, "clip_norm": 0.5}


def ledger(text: str, damage: Callable[[str], str] | None = None, runs: int = 1, **changes: Any) -> Message:
    """An error of a ledger after runs of two releases on data "a".

    Args:
        text: Of the error.
        damage: The oldest ledger's content, changed; None where the file stays.
        runs: How many runs there were.
        changes: Of the ledger that is opened then, which continues the last run.
    """

    def cause(home: Path) -> None:
        folder = home / "privacy"
        for _ in range(runs):
            made = Ledger(folder, M, resume=False, data="a")
            made.begin()
            for number in range(2):
                made.release(number, lambda: b"x")
        if damage is not None:
            path = folder / ("ledger.jsonl" if runs == 1 else "ledger-1.jsonl")
            path.write_text(damage(path.read_text()))
        Ledger(folder, **{"mechanism": M, "resume": True, "data": "a", **changes})

    return Message(cause, CheckpointError, text)


def groups_that_the_task_lacks(folder: Path) -> None:
    settings = PrivacySettings(privacy="sample", noise_multiplier=1.0, privacy_unit="group")
    SampleSession(PrivacyConfig(settings, task="mine"), folder, PeerData(records=9))


# fmt: off
MESSAGES = {
    "no noise in an epsilon": refused("noise over sensitivity 0: choose a number above 0", epsilon, 0.0, 1, 1e-05),
    "infinite noise in an epsilon": refused(
        "noise over sensitivity inf: choose a number above 0", epsilon, math.inf, 1, 1e-05),
    "negative releases in an epsilon": refused("releases -1: choose 0 or more", epsilon, 1.0, -1, 1e-05),
    "a sampling rate above 1 in an epsilon": refused(
        "sampling 1.5: choose a probability, 0 to 1", epsilon, 1.0, 1, 1e-05, "pld", 1.5),
    "the closed form with sampling": refused(
        "accountant exact with sampling 0.5: the closed form knows no sampling: choose pld (tight) or rdp",
        epsilon, 1.0, 1, 1e-05, "exact", 0.5),
    "no delta": refused("delta 0: choose one above 0 and below 1, for example 1e-5", epsilon, 1.0, 1, 0.0),
    "a wrong accountant": Message(lambda folder: epsilon(1.0, 1, 1e-05, "exakt"), UnknownName,
        "unknown accountant 'exakt': did you mean 'exact'? valid: exact, pld, rdp"),
    "calibration without a budget": refused(
        "target epsilon 0: choose a number above 0, for example 10", calibrate, 0.0, 1e-05, 1),
    "calibration without releases": refused(
        "nothing is released, so no noise is needed: choose at least 1 round", calibrate, 1.0, 1e-05, 0),
    "charge: rate 0": refused(
        "sampling rate 0: choose a number above 0, at most 1, for example 0.05", Charge, 0.0, 1.0, 1),
    "charge: rate nan": refused(
        "sampling rate nan: choose a number above 0, at most 1, for example 0.05", Charge, math.nan, 1.0, 1),
    "charge: no noise": refused("noise multiplier 0: choose a number above 0, for example 1.0", Charge, 0.1, 0.0, 1),
    "charge: infinite noise": refused(
        "noise multiplier inf: choose a number above 0, for example 1.0", Charge, 0.1, math.inf, 1),
    "charge: negative steps": refused("steps -1: choose a whole number, 0 or more", Charge, 0.1, 1.0, -1),
    "the closed form of sampled steps": refused(
        "accountant exact with sampling 0.1: the closed form knows no sampling: choose pld (tight) or rdp",
        total_epsilon, [STEPS], 1e-05, "exact"),
    "a delta below what pld resolves": refused(
        "delta 1e-11: accountant pld resolves 1e-10 or more with sampling: use rdp", total_epsilon, [STEPS], 1e-11),
    "more steps than pld counts": refused(
        "steps 2,000,000: accountant pld counts up to 1,000,000 with sampling: use rdp",
        total_epsilon, [Charge(0.1, 1.0, 2000000)], 1e-05),
    "too little noise for pld": refused(
        "noise multiplier 0.001 for 9 steps: epsilon is in the thousands, beyond accountant pld: use rdp, or choose "
        "more noise", total_epsilon, [Charge(0.1, 0.001, 9)], 1e-05),
    "total without delta": refused(
        "delta 0: choose one above 0 and below 1, for example 1e-5", total_epsilon, [STEPS], 0.0),
    "a group without records": refused("records of a group 0: choose 1 or more", of_group, [STEPS], 1e-05, 0),
    "a sampled group by rdp": refused(
        "accountant rdp with 3 records of a group and sampling: choose pld, which knows groups",
        of_group, [STEPS], 1e-05, 3, "rdp"),
    "a group: delta below what pld resolves": refused(
        "delta 1e-11: accountant pld resolves 1e-10 or more with sampling: choose a larger one",
        of_group, [STEPS], 1e-11, 3),
    "a group: more steps than pld counts": refused(
        "steps 2,000,000: accountant pld counts up to 1,000,000 with sampling: choose fewer",
        of_group, [Charge(0.1, 1.0, 2000000)], 1e-05, 3),
    "a group: too little noise": refused(
        "noise multiplier 0.01 for 9 steps and 50 records of a group: epsilon is in the thousands, beyond accountant "
        "pld: choose more noise, or fewer records", of_group, [Charge(0.1, 0.01, 9)], 1e-05, 50),
    "a group: too many records": refused(
        "1,000,000,000,000 records of a group with sampling rate 0.5: a batch may have 500,003,557,997 of them, and "
        "accountant pld looks at up to 1,000: choose fewer", of_group, [Charge(0.5, 1.0, 9)], 1e-05, 10**12),
    "a group: wrong accountant": Message(lambda folder: of_group([STEPS], 1e-05, 3, "moments"), UnknownName,
        "unknown accountant 'moments': valid: exact, pld, rdp"),
    "mu below 0": refused("mu -1: choose 0 or more", delta_of, -1.0, 1.0),
    "epsilon nan": refused("epsilon nan: choose 0 or more", delta_of, 1.0, math.nan),
    "delta 1": refused("delta 1: choose one above 0 and below 1, for example 1e-5", epsilon_of, 1.0, 1.0),
    "delta nan": refused("delta nan: choose one above 0 and below 1, for example 1e-5", epsilon_of, 1.0, math.nan),
    "client: no noise": refused(
        "noise multiplier 0: choose a number above 0, for example 1.0", client, noise_multiplier=0.0),
    "client: noise nan": refused(
        "noise multiplier nan: choose a number above 0, for example 1.0", client, noise_multiplier=math.nan),
    "client: infinite clip norm": refused(
        "clip norm inf: choose a number above 0, for example 1.0", client, clip_norm=math.inf),
    "client: a clip norm beyond float32": refused(
        "clip norm 1e+31: float32 bodies need one from 1e-30 to 1e+30", client, clip_norm=1e31),
    "client: delta 1": refused("delta 1: choose one above 0 and below 1, for example 1e-5", client, delta=1.0),
    "client: adversary": refused("adversary 'server': choose neighbor or aggregate", client, adversary="server"),
    "client: adjacency": refused("adjacency 'add': choose replace or zero-out", client, adjacency="add"),
    "client: no share": refused(
        "share 0: the largest of an average's weights is above 0, at most 1", client, adversary="aggregate", share=0.0),
    "client: a share above 1": refused(
        "share 1.5: the largest of an average's weights is above 0, at most 1",
        client, adversary="aggregate", share=1.5),
    "client: a neighbor's share": refused(
        "share 0.5: a neighbor sees each message by itself, its share is 1", client, share=0.5),
    "client: negative budget": refused("epsilon -1: choose 0 or more", CLIENT.releases, -1.0),
    "client: infinite budget": refused("epsilon inf: choose a finite number, 0 or more", CLIENT.releases, math.inf),
    "client: negative releases": refused("releases -1: choose 0 or more", CLIENT.mu, -1),
    "client: a body without parameters": refused("parameters 0: a body has at least 1", CLIENT.noise_ratio, 0),
    "a delta that publishes one peer": refused(
        "delta 0.125 with 8 peers: at 1/8 or more, publishing one peer's data outright would count as private: "
        "choose at most 0.0125", check_delta, 1 / 8, 8),
    "no peer to protect": refused("size 0: at least 1 peer is to be protected", check_delta, 1e-05, 0),
    "sample: rate": refused(
        "--sampling-rate 0: choose one above 0 and at most 1, for example 0.05", sample, sampling_rate=0.0),
    "sample: rate nan": refused(
        "--sampling-rate nan: choose one above 0 and at most 1, for example 0.05", Poisson, 10, math.nan),
    "sample: rate above 1": refused(
        "--sampling-rate 1.01: choose one above 0 and at most 1, for example 0.05", Poisson, 10, 1.01),
    "sample: a rate that draws nothing": refused(
        "--sampling-rate 1e-20: choose at least 2^-64; no unit would ever be drawn", Poisson, 10, 1e-20),
    "sample: no unit to draw": refused("units to sample from 0: there must be at least one", Poisson, 0, 0.5),
    "sample: no noise": refused(
        "--noise-multiplier 0: choose a number from 1e-15 to 1e+15, for example 1.0", sample, noise_multiplier=0.0),
    "sample: infinite clip norm": refused(
        "--clip-norm inf: choose a number from 1e-15 to 1e+15, for example 1.0", sample, clip_norm=math.inf),
    "sample: delta 1": refused("delta 1: choose one above 0 and below 1, for example 1e-5", sample, delta=1.0),
    "sample: no step": refused("steps 0: a round has at least 1 local step", sample, phases=()),
    "sample: head": refused("--dp-head none: choose joint, alternate, frozen, post", sample, head="none"),
    "sample: no records": refused("--records 0: choose 1 or more", sample, units=0),
    "sample: a site without records": refused("records 0: a peer has at least 1", SAMPLE.noise_ratio, 10, 0),
    "sample: a body without parameters": refused("parameters 0: a body has at least 1", SAMPLE.noise_ratio, 0, 10),
    "groups that the task lacks": Message(groups_that_the_task_lacks, TaskError,
        "--privacy-unit group: task 'mine' does not say whose each record is; name the column with --task-option "
        'group=COLUMN (or kind = "group" in a schema), or give the Task its `groups`'),
    "a wrong sparsifier": refused(
        "--sparsify 'best:0.4': write top-k:SHARE or random:SHARE with the share to keep, for example top-k:0.4",
        Sparsifier.parse, "best:0.4"),
    "a sparsifier without share": refused(
        "--sparsify 'top-k': write top-k:SHARE or random:SHARE with the share to keep, for example top-k:0.4",
        Sparsifier.parse, "top-k"),
    "a sparsifier that keeps nothing": refused(
        "--sparsify 'top-k:0': write top-k:SHARE or random:SHARE with the share to keep, for example top-k:0.4",
        Sparsifier.parse, "top-k:0"),
    "a sparsifier with a share nan": refused(
        "--sparsify 'top-k:nan': write top-k:SHARE or random:SHARE with the share to keep, for example top-k:0.4",
        Sparsifier.parse, "top-k:nan"),
    "no strength": refused(
        "--privacy client needs to know how much: give --target-epsilon 8 (the noise follows from it) or "
        "--noise-multiplier", check_strength, None, None),
    "honest peers against a neighbor": refused(
        "--dp-min-honest 3: a neighbor sees every message by itself; it belongs to --dp-adversary aggregate",
        check_adversary, "neighbor", 3),
    "aggregate without honest peers": refused(
        "--dp-adversary aggregate needs --dp-min-honest M: how many of the bodies in every average come from peers "
        "that do not help the adversary, for example --dp-min-honest 16", check_adversary, "aggregate", None),
    "aggregate with top-k": refused(
        "--sparsify top-k:0.4 cannot be used with --dp-adversary aggregate: the largest values of each message are "
        "chosen before the average in which the noise is enough; use random:SHARE, or --dp-adversary neighbor",
        check_adversary, "aggregate", 3, Sparsifier.parse("top-k:0.4")),
    "an average of too few": refused(
        "--dp-min-honest 4: some peer averages only 3 bodies, its own included; give at most that, or a --topology "
        "with more neighbors", worst_share, [[0.5, 0.25, 0.25, 0.0]], 4),
    "a budget below one release": Message(lambda folder: check_budget(CLIENT, 0.99 * CLIENT.epsilon(1)), BudgetTooSmall,
        "--target-epsilon 9.89728 allows not even one release with --noise-multiplier 1: one costs 10; leave "
        "--noise-multiplier out and the noise follows from the budget"),
    "classes found in data": refused(
        "--privacy client with task 'csv': classes must be given, alike on all peers, for neighbors get to know them "
        "and must not learn them from the data; this peer's data show --task-option classes=no,yes (name all that "
        "there can be)", check_found, "csv", {"classes": ["no", "yes"]}),
    "many classes found in data": refused(
        "--privacy client with task 'csv': classes must be given, alike on all peers, for neighbors get to know them "
        "and must not learn them from the data; this peer's data show --task-option "
        "classes=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,... (50 in all) (name all that there can be)",
        check_found, "csv", {"classes": [str(n) for n in range(50)]}),
    # The ledger.
    "a ledger of other noise": ledger(
        "the run in '{folder}' has made 2 private releases with noise multiplier 2.0, this one would go on with "
        "50.0: that cannot change in a run; give --noise-multiplier 2.0 (beside --target-epsilon, if it is given) "
        "and the other settings it began with", mechanism={**M, "noise_multiplier": 50.0}),
    "a ledger of another clip norm": ledger(
        "the run in '{folder}' has made 2 private releases with clip norm 0.5, this one would go on with 9.0: that "
        "cannot change in a run; give --noise-multiplier 2.0 (beside --target-epsilon, if it is given) and the other "
        "settings it began with", mechanism={**M, "clip_norm": 9.0}),
    "a ledger of other data": ledger(
        "the run in '{folder}' has made 2 private releases with other data than this peer has now (their SHA-256 "
        "differs): a run goes on with the data it began with; start one on these with --overwrite", data="b"),
    "a ledger of another level": ledger(
        "the run in '{folder}' was not private at sample level: it cannot go on as that; start over with "
        "--overwrite, and what it released counts", level="sample"),
    "a ledger of another noise scheme": ledger(
        "the run in '{folder}' has made 2 private releases with noise about Gaussian on a grid, AES-256-CTR, this "
        "one would go on with exact Gaussian on a grid, AES-256-CTR: that cannot change in a run; give "
        "--noise-multiplier 2.0 (beside --target-epsilon, if it is given) and the other settings it began with",
        lambda content: content.replace("exact", "about")),
    "a ledger of nonsense": ledger(
        "the privacy ledger '{folder}/privacy/ledger.jsonl' is damaged (Expecting value: line 1 column 1 (char 0)): "
        "what was released is not known any more; restore the file as it was last (an older copy will not do), or "
        "start over with --overwrite --new-data if the data are others now", lambda content: "nonsense\n"),
    "an earlier ledger emptied": ledger(
        "the privacy ledger '{folder}/privacy/ledger-1.jsonl' is damaged (it has no releases): what was released is "
        "not known any more; restore the file as it was last (an older copy will not do), or start over with "
        "--overwrite --new-data if the data are others now", lambda content: "", runs=2),
    "an earlier ledger without its last line": ledger(
        "the privacy ledger '{folder}/privacy/ledger-1.jsonl' is damaged (it has 1 releases, and had 2): what was "
        "released is not known any more; restore the file as it was last (an older copy will not do), or start over "
        "with --overwrite --new-data if the data are others now",
        lambda content: content.rpartition('{"round"')[0], runs=2),
}
# fmt: on
