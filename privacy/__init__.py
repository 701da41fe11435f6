"""Differential privacy: what a private run promises, what that rests on, and which tests try each sentence.

The promise (docs/privacy.md has it for users)

    sample  All that a peer sends in a run would be almost equally likely without any one of its training records, or
            groups of records. It holds against everybody. The model at home is covered, too, unless `--dp-head post`
            trains it after the last message.
    client  All that a peer sends in a run would be almost equally likely with any other data set. It holds against
            neighbors, who see every message, and against all to whom they pass messages on.

"Almost" is epsilon, but with probability delta. A neighbor may send anything at any time, and records may have any
values; a process may be killed at any moment. Not covered are code of the user's that couples or keeps records, and
readers of this peer's memory or disk.

What it rests on, and where that is tested (below tests/)

    One record changes nothing that leaves but noised values.
        training/test_sample_leak.py, system/test_what_a_private_peer_says.py, system/test_what_a_private_model_says.py,
        system/test_all_that_leaves_is_noised_sums.py
    It moves a sum by at most C, whatever it is and neighbors send; a clipped update has at most the length C.
        training/test_sample_sensitivity.py, training/test_sample_attacks.py, privacy/test_mechanism.py
    Noise is exactly normal on a public grid, and its last digits tell nothing. It comes from no seed, and once: the
    key is 32 bytes of the operating system for each release.
        privacy/test_noise.py, privacy/test_last_digits.py
    Each unit is drawn independently, from bits as secret.
        privacy/test_sampling.py, training/dpsgd/test_poisson_batches.py
    Epsilon is never below the truth: closed forms, and distributions of losses that are rounded up.
        privacy/test_accounting.py, privacy/test_gaussian.py
    A charge is on disk before it takes effect, also in a peer that is killed. What was charged is never sent with
    other noise, and what a lost disk may have released is charged when the operator states it.
        privacy/test_ledger.py, privacy/test_sessions.py, system/test_steps_are_charged.py,
        system/test_killed_at_any_write.py, system/test_older_copies.py
    No release or step goes beyond the budget, and what cannot be protected is refused.
        federation/test_privacy.py, federation/test_privacy_of_records.py, privacy/test_refusals.py,
        training/dpsgd/test_refusals.py
    An attack with a canary finds no more than is promised, and more with half the noise.
        federation/test_canary_attacks.py

Where to look: `session` decides what may leave or be trained; `mechanism` clips and noises (`noise`, `randomness`);
`ledger` records, `accounting` counts.
Nothing here knows the network or trains.
"""

from __future__ import annotations

from dpeer.privacy.accounting import Charge
from dpeer.privacy.guarantee import Guarantee, SampleGuarantee
from dpeer.privacy.ledger import Ledger
from dpeer.privacy.mechanism import Clipped, Sparsifier, Vector, clip, norm, privatize
from dpeer.privacy.session import ClientSession, PeerData, SampleSession, SampleTerms, Session, open  # noqa: A004 - as gzip.open and others are called
from dpeer.privacy.settings import PrivacyConfig

__all__ = [
    "Charge",
    "ClientSession",
    "Clipped",
    "Guarantee",
    "Ledger",
    "PeerData",
    "PrivacyConfig",
    "SampleGuarantee",
    "SampleSession",
    "SampleTerms",
    "Session",
    "Sparsifier",
    "Vector",
    "clip",
    "norm",
    "open",
    "privatize",
]
