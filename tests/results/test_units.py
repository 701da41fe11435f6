"""Sizes, rates and durations, read and printed."""

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.results.units import duration, rate, read_duration, read_rate, read_size


def test_sizes() -> None:
    for text, count in {
        "45MB": 45_000_000, " 45mB ": 45_000_000, "45miB": 45 * 2**20, "1.5GB": 1_500_000_000, "45000000": 45_000_000,
        "4.5e7": 45_000_000, "512kB": 512_000, "512 KiB": 512 * 1024, "7B": 7, "1 byte": 1, "3 Mbytes": 3_000_000,
        ".5kB": 500, "0.1GB": 100_000_000, "1000TB": 10**15,
    }.items():  # fmt: skip
        assert read_size("--body-bytes", text) == count, text


def test_rates() -> None:
    for text, bits in {
        "100Mbit": 100e6, "100 Mbit/s": 100e6, "100MBIT/S": 100e6, "100Mbps": 100e6, "100Mb/s": 100e6, "1.5Gbps": 1.5e9,
        "10MB/s": 80e6, "10MBps": 80e6, "10 Mbyte/s": 80e6, "12.5MiB/s": 12.5 * 2**20 * 8, "12.5 MiB / s": 100 * 2**20,
        "800Kibit/s": 800 * 1024, "9600bit": 9600,
    }.items():  # fmt: skip
        assert read_rate("--bandwidth", text) == pytest.approx(bits, rel=1e-15), text


def test_durations() -> None:
    for text, seconds in {
        "20ms": 0.02, "20 MS": 0.02, "1.5s": 1.5, "1.5": 1.5, "0": 0.0, "2min": 120.0, "2 minutes": 120.0,
        "30sec": 30.0, "1h": 3600.0, "0.5 hours": 1800.0, "7d": 604_800.0, "1 Day": 86_400.0, "20 days": 1_728_000.0,
    }.items():  # fmt: skip
        assert read_duration("--latency", text) == pytest.approx(seconds, rel=1e-15), text


NONSENSE = ("", " ", "-5", "nan", "inf", "1e999", "many", "5e", "1,5", "1_000", "٣", "1 2", "MB", "x\ny", "5 parsec")
NO_SIZE = ("0", "0MB", "-45MB", "0.2B", "45M", "45Mb", "45Mbit", "45MB/s", "2000TB")
NO_RATE = ("100", "100M", "100MB", "100Mb", "100MBPS", "0Mbit", "-1Mbit", "infMbit", "1e16bit")
"""A bare Mb or MB has no time in it, and people write both for either: asked rather than guessed."""

NO_DURATION = ("20m", "-20ms", "1e10", "2 weeks", "1e9 d")


def test_other_texts_are_refused() -> None:
    for read, texts in ((read_size, NO_SIZE), (read_rate, NO_RATE), (read_duration, NO_DURATION)):
        for text in (*NONSENSE, *texts):
            with pytest.raises(ConfigurationError):
                read("--option", text)


def test_durations_for_people() -> None:
    for seconds, printed in {
        0.0: "0 ms", 3.6e-9: "3.6e-06 ms", 0.0204: "20.4 ms", 0.9994: "999 ms", 0.9996: "1.0 s", 59.94: "59.9 s",
        59.96: "1 min", 125.0: "2 min 5 s", 119.6: "2 min", 599.4: "9 min 59 s", 599.6: "10.0 min", 3596.0: "59.9 min",
        3599.0: "1.0 h", 47.9 * 3600: "47.9 h", 48 * 3600: "2.0 days", 99.9 * 86400: "99.9 days",
        100 * 86400: "100 days", 9999 * 86400: "9999 days", 1e300: ">9999 days",
    }.items():  # fmt: skip
        assert duration(seconds) == printed
        assert len(printed) <= 10


def test_rates_for_people() -> None:
    for bits, printed in {
        1: "1 bit/s", 9600: "9.6 kbit/s", 100e6: "100 Mbit/s", 1.5e9: "1.5 Gbit/s", 999_990: "1 Mbit/s",
        12.5 * 2**20 * 8: "104.9 Mbit/s", 1e12: "1 Tbit/s", 1e15: "1000 Tbit/s",
    }.items():  # fmt: skip
        assert rate(bits) == printed
