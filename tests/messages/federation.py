"""Error messages of federation/: addresses, keys, a federation file, devices and schedulers."""

import errno
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from dpeer.exceptions import AddressError, CheckpointError, ConfigurationError, OutputError, TaskError, UnknownName
from dpeer.federation.addresses import addresses, listen_address, relay_listen_address
from dpeer.federation.build import build
from dpeer.federation.checks import (
    check_hostile,
    check_quorum,
    check_round_budget,
)
from dpeer.federation.config import from_flags, load, parse_option, resolve, with_defaults
from dpeer.federation.folders import check, naming
from dpeer.federation.keys import keyring, public_keys, read_secret, write_secret
from dpeer.federation.privacy import account, privacy_config
from dpeer.federation.relay_keys import listed_keys
from dpeer.federation.scheduler_rank import own_rank
from dpeer.federation.serve_address import ServeAddress, bound
from dpeer.federation.settings import Settings, revalidated
from dpeer.federation.trackers import check as check_trackers
from dpeer.peer import restored
from dpeer.peer.restored import Restored
from dpeer.peer.transports.proxies import proxies
from dpeer.privacy import Ledger
from dpeer.topology.settings import build_graph
from tests.messages.message import Message, file

HERE = {"address": "tcp://127.0.0.1:1"}
NO_ADDRESS = "expected tcp://HOST:PORT, for example tcp://10.0.0.3:7700, or, where all its neighbors are on its host, ipc:///PATH"
OPEN = (
    "open to every host that reaches it: list the key of every rank in the federation file (dpeer keygen), or use a "
    "loopback address (behind a VPN or SSH tunnel), or --insecure on a network you trust"
)
NO_SECRET = (
    "secret '{folder}/secret': the file holds no key; expected 64 hexadecimal digits, as `dpeer keygen` writes them"
)
PRIVATE: dict[str, Any] = {"privacy": "client", "noise_multiplier": 2.0, "topology": "full"}
AVERAGED: dict[str, Any] = {"dp_adversary": "aggregate", "dp_min_honest": 2, "weights": "uniform"}
KEYS = ["ab" * 32, "cd" * 32, "ef" * 32]


def refused(text: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Message:
    return Message(lambda folder: call(*arguments, **named), ConfigurationError, text)


def address(text: str, call: Callable[..., Any], ranks: Mapping[int, Any], *rest: Any, **common: Any) -> Message:
    """An error of a call that takes settings with these ranks, their number 4, and more."""
    settings = Settings.model_validate({"size": 4, "rank": ranks, **common})
    return Message(lambda folder: call(settings, 4, *rest), AddressError, text)


def round_budget(text: str, **values: Any) -> Message:
    """An error of a budget with privacy at sample level."""
    return refused(text, check_round_budget, Settings(**values), "sample")


def listed(text: str, *keys: Any, rank: int = 0, **common: Any) -> Message:
    """An error of the keys that a federation of three lists."""
    ranks = {number: {"key": key} for number, key in enumerate(keys) if key is not None}

    def cause(folder: Path) -> None:
        settings = Settings.model_validate({"size": 3, "rank": ranks, **common})
        public_keys(settings, 3)
        keyring(settings, 3, rank)

    return Message(cause, ConfigurationError, text)


def written(text: str, content: str, error: type[Exception] = ConfigurationError) -> Message:
    """An error of a federation file."""
    return Message(file("federation.toml", content, lambda path: load(path, {})), error, text)


def a_secret(content: bytes, mode: int = 0o600) -> Callable[[Path], Any]:
    def cause(folder: Path) -> None:
        path = folder / "secret"
        path.write_bytes(content)
        path.chmod(mode)
        read_secret(path)

    return cause


def put_back_and_begun(folder: Path) -> None:
    """A private run begins in a restored folder whose rounds since are not counted."""
    own = folder / "privacy"
    own.mkdir()
    Ledger(own, {"noise_multiplier": 1.0, "clip_norm": 0.5}, level="client", resume=False, data="d")
    restored.write(folder, Restored(0.0, 1))
    account(own, resume=False, protects=True)


def without_a_server(folder: Path) -> None:
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    check_trackers(["mlflow"])


def a_secret_twice(folder: Path) -> None:
    for _ in range(2):
        write_secret(2, folder)


def flags(text: str, **given: Any) -> Message:
    return refused(text, from_flags, given)


def machine(text: str, error: Exception, kind: type[Exception] = ConfigurationError) -> Message:
    """An error of the machine within a run."""

    def cause(folder: Path) -> None:
        with naming(folder / "run"):
            raise error

    return Message(cause, kind, text)


def of_a_task_without_memory(folder: Path) -> None:
    with naming(folder / "run"):
        raise TaskError("the task's train data cannot be read") from MemoryError()


def robust(text: str, **values: Any) -> Message:
    def cause(folder: Path) -> None:
        settings = Settings(**values)
        check_hostile(settings, settings, build_graph(settings))

    return Message(cause, ConfigurationError, text)


def sampled(text: str, **changes: Any) -> Message:
    """An error of a server's sampling."""
    given = {"topology": "full", "participation": 0.5, "participation_mode": "server", "size": 4, **changes}
    return Message(lambda folder: build(resolve(Settings(**given), 0)), ConfigurationError, text)


def private(text: str, **values: Any) -> Message:
    """An error of a run's settings of privacy."""

    def cause(folder: Path) -> Any:
        settings = Settings(**{"privacy": "client", **values})
        return privacy_config(resolve(settings, 0), build_graph(settings)).guarantee

    return Message(cause, ConfigurationError, text)


def scheduled(text: str, **values: Any) -> Message:
    """An error of the variables that Slurm sets."""

    def cause(folder: Path) -> None:
        kept = {name: os.environ.pop(name) for name in [*os.environ] if name.startswith("SLURM_")}
        names = {f"SLURM_{name}": str(value) for name, value in values.items()}
        os.environ.update(names)
        try:
            own_rank("env")
        finally:
            for name in names:
                del os.environ[name]
            os.environ.update(kept)

    return Message(cause, ConfigurationError, text)


def a_changed_rank(folder: Path) -> None:
    settings = Settings(size=3, rank={1: {"batch_size": 3}})
    settings.rank[1].batch_size = 0
    revalidated(settings)


def a_taken_path(folder: Path) -> None:
    (folder / "file").write_text("a thesis")
    listen_address(Settings.model_validate({"rank": {0: {"address": f"ipc://{folder}/file"}}}), 8, 0)


def no_proxy(folder: Path) -> None:
    kept = {name: os.environ.pop(name) for name in [*os.environ] if name.lower().endswith("_proxy")}
    try:
        proxies("environment")
    finally:
        os.environ.update(kept)


AGGREGATE = partial(private, noise_multiplier=1.0, dp_adversary="aggregate")

# fmt: off
MESSAGES = {
    # Addresses.
    "ports beyond the highest": address(
        "--base-port 65533: 4 peers need ports up to 65536, the highest is 65535", addresses, {}, base_port=65533),
    **{f"no address: {wrong!r}": address(f"rank.2.{key} = {wrong!r}: {NO_ADDRESS}", listen_address,
        {0: HERE, 2: {"address": "tcp://127.0.0.1:2"} | {key: wrong}}, 2) for key, wrong in (
            ("address", "10.0.0.3:7700"), ("address", "tcp://10.0.0.3"), ("address", "tcp://10.0.0.3:70000"),
            ("address", "tcp://:7700"), ("bind", "http://a:80"), ("bind", ""), ("address", "tcp://a b:80"),
            ("bind", "tcp://::1:80"), ("address", "ipc://socket"), ("address", "tcp://a:80/path"),
            ("bind", "tcp://a:80\n"),
    )},
    "another rank's address": address(
        "rank.3.address = 'nowhere': expected tcp://HOST:PORT, for example tcp://10.0.0.3:7700, or, where all its "
        "neighbors are on its host, ipc:///PATH", listen_address, {0: HERE, 3: {"address": "nowhere"}}, 0),
    **{f"listening without keys: {host}": address(
        f"rank 1 would listen at 'tcp://{host}:7700' without encryption, {OPEN}", listen_address,
        {1: {"address": f"tcp://{host}:7700"}}, 1) for host in (
            "10.1.2.3", "0.0.0.0", "*", "[::]", "notlocalhost", "localhost.example.org", "localhost5",
            "[fe80::1%eth0]",
    )},
    "a name that is none": address(
        "host 'no-such-host.invalid' cannot be resolved: …; use its IP address",
        listen_address, {1: {"address": "tcp://no-such-host.invalid:1"}}, 1, insecure=True),
    "a path that is too long": address(
        "rank.3.address = "
        "'ipc:///longlonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglong"
        "longlonglonglonglong': the path of a socket has at most 103 bytes",
        listen_address, {3: {"address": "ipc:///" + "long" * 30}}, 3),
    "a path in no folder": address(
        "rank.3.address = 'ipc:///no/such/folder/3': no folder '/no/such/folder' exists; make it, for its peers "
        "alone", listen_address, {3: {"address": "ipc:///no/such/folder/3"}}, 3),
    "a path of a file": Message(a_taken_path, AddressError,
        "rank.0.address = 'ipc://{folder}/file': a file of that name exists; choose another one, or remove it"),
    "a relay's address without a port": address(
        "rank.1.address = 'relay://relay.test': expected relay://HOST:PORT, for example relay://relay.example:7790",
        addresses, {1: {"address": "relay://relay.test", "key": KEYS[1]}}),
    "a relay without keys": address(
        "rank.1.address = 'relay://relay.test:7790': a relay joins those alone who prove a listed key: list the key of "
        "every rank in the federation file (dpeer keygen)", addresses, {1: {"address": "relay://relay.test:7790"}}),
    "a relay and a port of its own": address(
        "rank.1.bind = 'tcp://*:7700': a rank that is reached through a relay listens nowhere: leave `bind` out",
        addresses, {1: {"address": "relay://relay.test:7790", "key": KEYS[1], "bind": "tcp://*:7700"}}),
    "a relay that listens nowhere": Message(lambda folder: relay_listen_address("7790"), AddressError,
        "--listen '7790': expected tcp://HOST:PORT, for example tcp://*:7790"),
    "a relay without a list": Message(file("none.toml", "size = 3", lambda path: listed_keys([path])),
        ConfigurationError, "--keys '{folder}/none.toml': it lists no keys: expected a federation file, or lines such "
        'as rank.0.key = "…", as `dpeer keygen` prints them'),
    "a relay whose files share a key": Message(file("one.toml", f'rank.0.key = "{KEYS[0]}"',
        lambda path: listed_keys([path, path])), ConfigurationError,
        "--keys '{folder}/one.toml': rank.0.key is one.toml rank 0's, too: each rank has keys of its own (dpeer "
        "keygen)"),
    "a relay's key of another type": Message(file("odd.toml", "rank.0.key = 7", lambda path: listed_keys([path])),
        ConfigurationError, "rank.0.key = 7: expected 64 hexadecimal digits, as `dpeer keygen` prints them"),
    "a status port that states no port": written(
        "serve in {folder}/federation.toml = 'http://10.0.0.3': expected PORT or HOST:PORT, for example 7780 or "
        "10.0.0.3:7780", "serve = 'http://10.0.0.3'"),
    "a status port at another host": Message(
        lambda folder: bound(ServeAddress("192.0.2.1", 7780), "--serve"), AddressError,
        "--serve 192.0.2.1:7780: this host cannot listen there: Cannot assign requested address; choose an address of "
        "its own and a free port"),
    "a proxy of another kind": Message(lambda folder: proxies("https://web.test:443"), AddressError,
        "proxy = 'https://web.test:443': expected http://HOST:PORT or socks5://HOST:PORT"),
    "a proxy with a password": Message(lambda folder: proxies("http://me:secret@web.test:80"), AddressError,
        "proxy = 'http://…@web.test:80': a password does not belong in settings, which reports and other peers show: "
        'set it in https_proxy, and proxy = "environment"'),
    "a proxy of an empty environment": Message(no_proxy, AddressError,
        'proxy = "environment": neither https_proxy nor all_proxy is set in the environment: set one, or leave '
        "`proxy` out"),
    # Keys.
    "a secret that exists": Message(a_secret_twice, ConfigurationError,
        "--out '{folder}': {folder}/rank-2.secret exists: a secret is never overwritten; remove it first if nothing "
        "uses it any more"),
    "a secret that others read": Message(a_secret(b"ab" * 32, 0o640), ConfigurationError,
        "secret '{folder}/secret': others on this host can read or write it (mode 0640); type: chmod 600 "
        "{folder}/secret; where it is mounted and cannot be changed, set DPEER_SECRET to the key"),
    **{f"a secret: {name}": Message(a_secret(content), ConfigurationError, NO_SECRET) for name, content in {
        "empty": b"", "of zeros": b"00" * 32, "short": b"ab" * 31, "no text": b"\xff\xfe",
        "two": b"ab" * 32 + b"\n" + b"cd" * 32,
    }.items()},
    "a rank without a key": listed(
        "rank 1 has no `key` in the federation file and others have one: list the keys of all ranks, or of none",
        KEYS[0], None, KEYS[2]),
    "ranks without keys": listed(
        "rank 0, 2 have no `key` in the federation file and others have one: list the keys of all ranks, or of none",
        None, KEYS[1], None),
    "a short key": listed(
        "rank.1.key = 'ab': expected 64 hexadecimal digits, as `dpeer keygen` prints them", KEYS[0], "ab", KEYS[2]),
    "a key of zeros": listed(
        "rank.1.key = '0000000000000000000000000000000000000000000000000000000000000000': expected 64 hexadecimal "
        "digits, as `dpeer keygen` prints them", KEYS[0], "00" * 32, KEYS[2]),
    "a key that is a number": listed(
        "rank.0.key = 5: expected 64 hexadecimal digits in quotes, as `dpeer keygen` prints them, or a list of two "
        "such keys", 5),
    "a key that is a list of numbers": listed(
        "rank.0.key = [1, 2]: expected 64 hexadecimal digits in quotes, as `dpeer keygen` prints them, or a list of "
        "two such keys", [1, 2]),
    "a key of two ranks": listed(
        "rank.2.key = 'abababababababababababababababababababababababababababababababab' is rank 0's, too: each rank "
        "has keys of its own (dpeer keygen)", KEYS[0], KEYS[1], KEYS[0]),
    "three keys of a rank": listed(
        "rank.1.key has 3 keys: expected one, or two while the rank changes from one to the other",
        KEYS[0], KEYS, KEYS[2]),
    "keys without a secret": listed(
        "the federation file lists keys, and this peer has no secret: name its file with --secret, for example "
        "--secret rank-0.secret (dpeer keygen makes one), or with DPEER_SECRET_FILE in the environment", *KEYS),
    "encrypt without cluster": refused(
        "encrypt = true is for dpeer cluster, which makes keys for all ranks itself: list the key of every rank in "
        "the federation file instead (dpeer keygen)", keyring, Settings(size=3, encrypt=True), 3, 0),
    # Budgets of a round's time.
    "seconds with privacy of records": round_budget(
        "--round-seconds 2.5 with --privacy sample: how many steps fit into a time depends on the records that were "
        "drawn, and no epsilon covers that: give --local-steps, as few as this peer has the time for",
        round_seconds=2.5),
    "the neighbors' time with privacy of records": round_budget(
        "--round-seconds auto with --privacy sample: how many steps fit into a time depends on the records that were "
        "drawn, and no epsilon covers that: give --local-steps, as few as this peer has the time for",
        round_seconds="auto"),
    # The federation file, flags and settings.
    "unknown key of a rank": written(
        "unknown key 'adress' in [rank.3] of {folder}/federation.toml: did you mean 'address'? valid: address, …",
        "[rank.3]\nadress = 'tcp://127.0.0.1:1'", UnknownName),
    "a common key of a rank": written(
        "unknown key 'body_lr' in [rank.1] of {folder}/federation.toml: did you mean 'body_epochs'? valid: address, "
        "…", "[rank.1]\nbody_lr = 0.1", UnknownName),
    "a text for a number": written(
        "size in {folder}/federation.toml = 'eight': input should be a valid integer", "size = 'eight'"),
    "too small a number": written(
        "size in {folder}/federation.toml = 1: input should be greater than or equal to 2", "size = 1"),
    "a negative rate": written(
        "body_lr in {folder}/federation.toml = -0.5: input should be greater than 0", "body_lr = -0.5"),
    "a rate nan": written(
        "body_lr in {folder}/federation.toml = nan: input should be a finite number", "body_lr = nan"),
    "a wrong choice": written(
        "keep in {folder}/federation.toml = 'first': input should be 'auto', 'best' or 'last'", "keep = 'first'"),
    "a wrong pattern": written(
        "grid_shape in {folder}/federation.toml = '2by4': expected ROWSxCOLUMNS, for example 2x4",
        "grid_shape = '2by4'"),
    "a wrong value of a rank": written(
        "rank.2.batch_size in {folder}/federation.toml = 0: input should be greater than or equal to 1",
        "[rank.2]\nbatch_size = 0"),
    "a rank that is no number": written(
        "rank.two in {folder}/federation.toml = 'two': input should be a valid integer, unable to parse string as an "
        "integer", "[rank.two]\nbatch_size = 4"),
    "no table of ranks": written(
        "rank in {folder}/federation.toml = 3: input should be a valid dictionary", "rank = 3"),
    "no table of options": written(
        "task_options in {folder}/federation.toml = 'data': input should be a valid dictionary",
        "task_options = 'data'"),
    "a number for a path": written(
        "out in {folder}/federation.toml = 5: input is not a valid path for <class 'pathlib.path'>", "out = 5"),
    "a wrong device of a rank": written(
        "rank.1.device in {folder}/federation.toml = 'gpu': expected auto, cpu, cuda or cuda:N",
        'size = 3\n[rank.1]\ndevice = "gpu"'),
    "no TOML": written(
        "{folder}/federation.toml is not valid TOML: Invalid value (at line 2, column 12)",
        "size = 4\ntopology = ring\n"),
    "a rank beyond the size": written(
        "rank.4 in {folder}/federation.toml: ranks of a federation of size 4 are 0..3",
        "size = 4\n[rank.4]\nbatch_size = 4"),
    "a negative rank": written(
        "rank.-1 in {folder}/federation.toml: ranks of a federation of size 4 are 0..3",
        "size = 4\n[rank.-1]\nbatch_size = 4"),
    "no file": Message(lambda folder: load(folder / "none.toml", {}), ConfigurationError,
        "--federation '{folder}/none.toml': No such file or directory"),
    "a folder for a file": Message(lambda folder: load(folder, {}), ConfigurationError,
        "--federation '{folder}': Is a directory"),
    "a flag: too small": flags("--size = 1: input should be greater than or equal to 2", size=1),
    "a flag: too large": flags("--base-port = 70000: input should be less than or equal to 65535", base_port=70000),
    "a flag: infinite": flags("--rho = inf: input should be a finite number", rho=float("inf")),
    "a flag: nan": flags("--dead-after = nan: input should be a finite number", dead_after=float("nan")),
    "a flag: a time": flags(
        "--wait = '2 weeks': expected seconds, or a time such as 90s, 2h or 7d", wait="2 weeks"),
    "a time in a file": written(
        "rank.1.wait in {folder}/federation.toml = 'soon': expected seconds, or a time such as 90s, 2h or 7d",
        "[rank.1]\nwait = 'soon'"),
    "a flag: a deadline": flags("--deadline = -1.0: expected a number of seconds, auto or never", deadline=-1.0),
    "a flag: no quorum": flags(
        "--quorum = 0: expected majority, any, or a number of ranks, more than half of all", quorum=0),
    "half as a quorum": refused(
        "--quorum 4: expected 5 to 8 of 8 ranks; two groups of at most half the ranks could both go on, each without "
        "the other", check_quorum, 4, 8),
    "more than all as a quorum": refused(
        "--quorum 4: expected 2 to 3 of 3 ranks; two groups of at most half the ranks could both go on, each without "
        "the other", check_quorum, 4, 3),
    "a flag: pattern": flags("--grid-shape = '2x': expected ROWSxCOLUMNS, for example 2x4", grid_shape="2x"),
    "a flag: device": flags("--device = 'cuda:x': expected auto, cpu, cuda or cuda:N", device="cuda:x"),
    "a flag: negative clipping": flags(
        "--grad-clip = -1.0: input should be greater than or equal to 0", grad_clip=-1.0),
    "a flag: codec and topology of another number": refused(
        "fresh neighbors 3 make their own graphs, and topology ring is another: leave one of them out",
        Settings, fresh_neighbors="3", topology="ring"),
    "a rank that does not exist": refused(
        "rank 8 does not exist in a federation of size 8: 0..7", Settings().of_rank, 8),
    "an option without a value": refused(
        "--task-option 'data': expected KEY=VALUE, for example data=/path/to/data", parse_option, "data"),
    "an option without a key": refused(
        "--task-option '=5': expected KEY=VALUE, for example data=/path/to/data", parse_option, "=5"),
    "a preset's rates with adamw": refused(
        "--optimizer adamw: preset 'paper-cifar' has learning rates for sgd, which are far too large for adamw: give "
        "--body-lr and --head-lr too, for example 0.001",
        with_defaults, Settings(optimizer="adamw", preset="paper-cifar")),
    "a preset's body rate with adamw": refused(
        "--optimizer adamw: preset 'paper-dispfl' has learning rates for sgd, which are far too large for adamw: "
        "give --body-lr too, for example 0.001", with_defaults, Settings(optimizer="adamw", preset="paper-dispfl")),
    "an option given twice": refused(
        "--algorithm-option rho=0.2 and --rho 0.3 are the same option: give one of them",
        resolve, Settings(rho=0.3, algorithm_options={"rho": 0.2}), 0),
    "an unknown preset": Message(lambda folder: Settings(preset="paper-cifr"), UnknownName,
        "unknown preset 'paper-cifr': did you mean 'paper-cifar'? valid: paper-cifar, paper-cifar-pathological, "
        "paper-tiny-imagenet, paper-tiny-imagenet-pathological, paper-dispfl, paper-fedrep, paper-fedbabu, "
        "dp-fedavg, dp-fedavg-emnist, dp-fedsam, dp-fedsam-emnist, dp-fedsam-topk, dp-fedsam-topk-emnist, "
        "dp2-fedsam, dp2-fedsam-femnist, centaur, centaur-femnist, dp-fedavg-sample, dp-scaffold, dp-fedavg-ls, "
        "dp-fedsam-sample, dp-fedopt, dp-fafed, dp-fedlada, dp-localadamw, dp-localadamw-transformer, dp-fedadamw, "
        "dp-fedadamw-transformer"),
    "a rank's settings that a script has changed": Message(a_changed_rank, ConfigurationError,
        "rank.1.batch_size = 0: input should be greater than or equal to 1"),
    # Folders and the machine.
    "an output folder that is a file": Message(
        file("file", "", lambda path: check(path, [0], resume=False, overwrite=False)), OutputError,
        "--out '{folder}/file' cannot be written: Not a directory"),
    "a full disk": machine(
        "'{folder}/run' cannot be written: no space is left on its disk, or in its quota; make room, then --resume "
        "goes on from the last completed round", OSError(errno.ENOSPC, "no"), OutputError),
    "a full quota": machine(
        "'{folder}/run' cannot be written: no space is left on its disk, or in its quota; make room, then --resume "
        "goes on from the last completed round", OSError(errno.EDQUOT, "no"), OutputError),
    "a full disk under safetensors": machine(
        "'{folder}/run' cannot be written: no space is left on its disk, or in its quota; make room, then --resume "
        "goes on from the last completed round",
        SafetensorError("I/O error: No space left on device (os error 28)"), OutputError),
    "a disk that is read-only": machine(
        "'{folder}/run' cannot be written: its file system is read-only; mount it writable, then --resume goes on "
        "from the last completed round", OSError(errno.EROFS, "no")),
    "a broken disk": machine(
        "'{folder}/run' cannot be written: its disk reports an input/output error; check the disk, then --resume "
        "goes on from the last completed round", OSError(errno.EIO, "no")),
    "a stale handle": machine(
        "'{folder}/run' cannot be written: its network file system has a stale file handle; mount it again, then "
        "--resume goes on from the last completed round", OSError(errno.ESTALE, "no")),
    "a file beyond the limit": machine(
        "'{folder}/run' cannot be written: a file is longer than the limit allows (ulimit -f); raise it, then "
        "--resume goes on from the last completed round", SafetensorError("I/O error: File too large (os error 27)")),
    "a folder that is gone": machine(
        "'{folder}/run' cannot be written: the folder was deleted in mid-run; restore it, then --resume goes on from "
        "the last completed round", FileNotFoundError(errno.ENOENT, "no")),
    "no more threads": machine(
        "the system gives no more threads; raise the limit (ulimit -u, or the container's of processes), then "
        "--resume goes on from the last completed round ('{folder}/run')", RuntimeError("can't start new thread")),
    "no memory": machine(
        "no memory is left; raise the limit (ulimit -v, or the container's), or lower --batch-size, then --resume "
        "goes on from the last completed round ('{folder}/run')", MemoryError()),
    "no memory by the system": machine(
        "no memory is left; raise the limit (ulimit -v, or the container's), or lower --batch-size, then --resume "
        "goes on from the last completed round ('{folder}/run')", OSError(errno.ENOMEM, "no")),
    "no memory for a tensor": machine(
        "no memory is left; raise the limit (ulimit -v, or the container's), or lower --batch-size, then --resume "
        "goes on from the last completed round ('{folder}/run')",
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")),
    "no memory for a task": Message(of_a_task_without_memory, ConfigurationError,
        "no memory is left; raise the limit (ulimit -v, or the container's), or lower --batch-size, then --resume "
        "goes on from the last completed round ('{folder}/run'; the task's train data cannot be read)"),
    # Robust rules, sampling, privacy.
    "too few neighbors to trim": robust(
        "--robust trimmed-mean:2 with ring: rank 0 has 2 neighbors, of whom it withstands 1 at most: give "
        "trimmed-mean:1, or a graph with 4 neighbors each", topology="ring", robust="trimmed-mean:2"),
    "one neighbor to trim": robust(
        "--robust trimmed-mean:1 with random-matching: rank 0 has 1 neighbor, of whom it withstands 0 at most: use "
        "clip:TAU, or a graph with 2 neighbors each", topology="random-matching", robust="trimmed-mean:1"),
    "one neighbor for a radius": robust(
        "--robust clip with star: rank 1 has 1 neighbor, and the radius follows from two or more: give clip:TAU, or "
        "a graph with more neighbors", topology="star", robust="clip"),
    "a median with a heavy weight": robust(
        "--robust median with star: rank 1 gives its own body the weight 0.875, and a median needs less than 0.5 for "
        "each: use clip, or a graph on which all have two neighbors or more and equally many",
        topology="star", robust="median"),
    "a median with half the weight": robust(
        "--robust median with random-matching: rank 0 gives its own body the weight 0.5, and a median needs less "
        "than 0.5 for each: use clip, or a graph on which all have two neighbors or more and equally many",
        topology="random-matching", robust="median"),
    "a directed graph": robust(
        "--robust clip with exponential-directed: peers there hear others than hear them, and what the rule "
        "withstands is known where neighbors hear each other, as in ring, exponential and full",
        topology="exponential-directed", robust="clip"),
    "a fresh directed graph": robust(
        "--robust median with fresh-directed: peers there hear others than hear them, and what the rule withstands "
        "is known where neighbors hear each other, as in ring, exponential and full",
        fresh_neighbors="directed:3", robust="median"),
    "some round with too few neighbors": robust(
        "--robust trimmed-mean:3 with fresh-neighbors: rank 0 has 4 neighbors, of whom it withstands 2 at most: give "
        "trimmed-mean:2, or a graph with 6 neighbors each", fresh_neighbors="4", robust="trimmed-mean:3"),
    **{f"{name} against an outsider": robust(
        f"--{name.replace('_', '-')} {value} cannot be used with --dp-adversary aggregate: its epsilon counts the "
        "noise of all bodies in an average, and here the bodies themselves decide how much of each is in it; use "
        "--dp-adversary neighbor, which protects each body by itself", **PRIVATE, **AVERAGED, **{name: value})
        for name, value in (("robust", "clip"), ("max_norm", 3.0))},
    "a server on a ring": sampled(
        "participation-mode server: all peers take the mean of the sample, so everyone hears everyone alike: use "
        "--topology full --weights uniform, or --participation-mode peers", topology="ring"),
    "a server with quantization": sampled(
        "--participation-mode server with --compress int8: it needs what the receiver itself has sent in the "
        "round, and most send nothing: leave one of the two out", compress="int8"),
    "a server with a robust rule": sampled(
        "--participation-mode server with --robust median: it needs what the receiver itself has sent in the round, "
        "and most send nothing: leave one of the two out", robust="median"),
    "a server with a largest norm": sampled(
        "--participation-mode server with --max-norm 3.0: it needs what the receiver itself has sent in the round, "
        "and most send nothing: leave one of the two out", max_norm=3.0),
    "a server with an algorithm's own mixing": sampled(
        "--participation-mode server: dis-pfl mixes in a way of its own, which needs what each receiver itself has "
        "sent in the round: use --participation-mode peers, or another --algorithm", algorithm="dis-pfl"),
    "privacy without strength": private(
        "--privacy client needs to know how much: give --target-epsilon 8 (the noise follows from it) or "
        "--noise-multiplier"),
    "sample's setting without privacy": private(
        "--microbatch 8 does nothing without --privacy sample: add that, or leave --microbatch out",
        privacy="none", microbatch=8),
    "client's setting without privacy": private(
        "--sparsify top-k:0.4 does nothing without --privacy client: add that, or leave --sparsify out",
        privacy="none", sparsify="top-k:0.4"),
    "both levels' setting without privacy": private(
        "--noise-multiplier 1.0 does nothing without --privacy sample (which protects single records) or client "
        "(whole data sets): add that, or leave --noise-multiplier out", privacy="none", noise_multiplier=1.0),
    "a delta that protects nobody": private(
        "delta 0.125 with 8 peers: at 1/8 or more, publishing one peer's data outright would count as private: "
        "choose at most 0.0125", noise_multiplier=1.0, delta=0.125, size=8),
    "honest peers without aggregate": private(
        "--dp-min-honest 3: a neighbor sees every message by itself; it belongs to --dp-adversary aggregate",
        noise_multiplier=1.0, dp_min_honest=3),
    "aggregate without honest peers": AGGREGATE(
        "--dp-adversary aggregate needs --dp-min-honest M: how many of the bodies in every average come from peers "
        "that do not help the adversary, for example --dp-min-honest 16"),
    "aggregate with too few": AGGREGATE(
        "--dp-min-honest 4: some peer averages only 3 bodies, its own included; give at most that, or a --topology "
        "with more neighbors", dp_min_honest=4),
    "aggregate with top-k": AGGREGATE(
        "--sparsify top-k:0.4 cannot be used with --dp-adversary aggregate: the largest values of each message are "
        "chosen before the average in which the noise is enough; use random:SHARE, or --dp-adversary neighbor",
        dp_min_honest=3, sparsify="top-k:0.4"),
    "aggregate of some peers": AGGREGATE(
        "--dp-adversary aggregate needs the same average in every round: use a fixed --topology and --participation "
        "1, or --dp-adversary neighbor", dp_min_honest=3, participation=0.5),
    "aggregate on a graph that changes": AGGREGATE(
        "--dp-adversary aggregate needs the same average in every round: use a fixed --topology and --participation "
        "1, or --dp-adversary neighbor", dp_min_honest=3, fresh_neighbors="2"),
    # Schedulers.
    "an array of jobs with several processes": scheduled(
        "--rank env: both SLURM_ARRAY_TASK_ID = 3 and SLURM_PROCID = 1 of 2 could be the rank: write --rank "
        "$SLURM_PROCID or --rank $SLURM_ARRAY_TASK_ID", PROCID=1, NTASKS=2, ARRAY_TASK_ID=3),
    "an array with gaps": scheduled(
        "--rank env: SLURM_ARRAY_TASK_ID = 3 of 3 numbers from 1 to 7: an array with gaps has no ranks; submit it "
        "with --array=0-N", ARRAY_TASK_ID=3, ARRAY_TASK_MIN=1, ARRAY_TASK_MAX=7, ARRAY_TASK_COUNT=3),
    "an array without a count": scheduled(
        "SLURM_ARRAY_TASK_COUNT = 'x': expected a number from 0, or `--rank env`",
        ARRAY_TASK_ID=0, ARRAY_TASK_COUNT="x"),
    # Restored folders.
    "a private run in a restored folder": Message(
        put_back_and_begun, CheckpointError,
        "'{folder}' was put back from a backup, and what it has released since is not counted yet: go on with "
        "--resume, and --overwrite later; or give --new-data if the data are others now"),
    # Trackers of experiments.
    "an unknown tracker": Message(
        lambda folder: check_trackers(["mlfow"]), UnknownName,
        "unknown tracker 'mlfow': did you mean 'mlflow'? valid: tensorboard, mlflow, wandb"),
    "MLflow without a server": Message(
        without_a_server, ConfigurationError,
        "--log-to mlflow: set MLFLOW_TRACKING_URI to the server's address, such as http://host:5000"),
}
# fmt: on
