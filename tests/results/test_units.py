"""Sizes, rates and durations, read and printed."""

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.results.units import duration, rate, read_duration, read_rate, read_size


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("45MB", 45_000_000),
        ("45 MB", 45_000_000),
        (" 45mB ", 45_000_000),
        ("45MiB", 45 * 2**20),
        ("45miB", 45 * 2**20),
        ("1.5GB", 1_500_000_000),
        ("45000000", 45_000_000),
        ("4.5e7", 45_000_000),
        ("512kB", 512_000),
        ("512 KiB", 512 * 1024),
        ("7B", 7),
        ("1 byte", 1),
        ("3 Mbytes", 3_000_000),
        (".5kB", 500),
        ("0.1GB", 100_000_000),
        ("1TB", 10**12),
        ("1000TB", 10**15),
    ],
)
def test_sizes(text: str, count: int) -> None:
    assert read_size("--body-bytes", text) == count


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("100Mbit", 100e6),
        ("100 Mbit/s", 100e6),
        ("100mbit", 100e6),
        ("100MBIT/S", 100e6),
        ("100Mbps", 100e6),
        ("100mbps", 100e6),
        ("100Mb/s", 100e6),
        ("1Gbit", 1e9),
        ("1.5Gbps", 1.5e9),
        ("10MB/s", 80e6),
        ("10MBps", 80e6),
        ("10 Mbyte/s", 80e6),
        ("12.5MiB/s", 12.5 * 2**20 * 8),
        ("12.5 MiB / s", 12.5 * 2**20 * 8),
        ("800kbit", 800e3),
        ("800Kibit/s", 800 * 1024),
        ("9600bit", 9600),
    ],
)
def test_rates(text: str, bits: float) -> None:
    assert read_rate("--bandwidth", text) == pytest.approx(bits, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("20ms", 0.02),
        ("20 MS", 0.02),
        ("1.5s", 1.5),
        ("1.5", 1.5),
        ("0", 0.0),
        ("2min", 120.0),
        ("2 minutes", 120.0),
        ("30sec", 30.0),
        ("1h", 3600.0),
        ("0.5 hours", 1800.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert read_duration("--latency", text) == pytest.approx(seconds, rel=1e-15)


NONSENSE = (
    "",
    " ",
    "-5",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "many",
    "5e",
    "1,5",
    "1_000",
    "٣",
    "1 2",
    "MB",
    "x\ny",
    "5 parsec",
)


@pytest.mark.parametrize("text", [*NONSENSE, "0", "0MB", "-45MB", "0.2B", "45M", "45Mb", "45Mbit", "45MB/s", "2000TB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ConfigurationError, match="write bytes, up to 1000 TB, for example 45MB or 43MiB") as caught:
        read_size("--body-bytes", text)
    assert str(caught.value).startswith(f"--body-bytes {text!r}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", [*NONSENSE, "100", "100M", "100MB", "100Mb", "100MBPS", "0Mbit", "-1Mbit", "infMbit", "1e16bit"]
)
def test_what_is_no_rate(text: str) -> None:
    """A bare Mb or MB has no time in it, and people write both for either: asked rather than guessed."""
    with pytest.raises(ConfigurationError) as caught:
        read_rate("--bandwidth", text)
    assert str(caught.value) == (
        f"--bandwidth {text!r}: write bits or bytes per second, for example 100Mbit or 12.5MB/s"
    )


@pytest.mark.parametrize("text", [*NONSENSE, "20m", "-20ms", "1e10", "20 days"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_duration("--latency", text)
    assert str(caught.value) == f"--latency {text!r}: write a time in ms, s, min or h, for example 20ms or 1.5s"


@pytest.mark.parametrize(
    ("seconds", "printed"),
    [
        (0.0, "0 ms"),
        (3.6e-9, "3.6e-06 ms"),
        (0.0204, "20.4 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (3.6, "3.6 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min"),
        (125.0, "2 min 5 s"),
        (119.6, "2 min"),
        (599.4, "9 min 59 s"),
        (599.6, "10.0 min"),
        (3596.0, "59.9 min"),
        (3599.0, "1.0 h"),
        (1.3 * 3600, "1.3 h"),
        (47.9 * 3600, "47.9 h"),
        (48 * 3600, "2.0 days"),
        (99.9 * 86400, "99.9 days"),
        (100 * 86400, "100 days"),
        (9999 * 86400, "9999 days"),
        (1e300, ">9999 days"),
    ],
)
def test_durations_for_people(seconds: float, printed: str) -> None:
    assert duration(seconds) == printed
    assert len(printed) <= 10


@pytest.mark.parametrize(
    ("bits", "printed"),
    [
        (1, "1 bit/s"),
        (9600, "9.6 kbit/s"),
        (100e6, "100 Mbit/s"),
        (1.5e9, "1.5 Gbit/s"),
        (999_990, "1 Mbit/s"),
        (12.5 * 2**20 * 8, "104.9 Mbit/s"),
        (1e12, "1 Tbit/s"),
        (1e15, "1000 Tbit/s"),
    ],
)
def test_rates_for_people(bits: float, printed: str) -> None:
    assert rate(bits) == printed
