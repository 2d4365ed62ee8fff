"""Damaged captures: an anomaly or one sentence, and a result that doesn't contradict itself.

`scripts/fuzz` does this for as long as one likes; here is a little of it, and what it found.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from capture_fuzzer import check, mutate, seeds

from capture_analyzer.pipeline.dissect.guard import Guard


@pytest.fixture(scope="module")
def begun(captures: Path) -> list[seeds.Seed]:
    return seeds.load([captures])


@pytest.fixture(autouse=True)
def _raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guard, "raises", True)


def survives(folder: Path, *files: bytes, keys: bytes = b"", report: bool = False) -> str:
    paths = [folder / f"{number}.pcap" for number in range(len(files))]
    for path, data in zip(paths, files, strict=True):
        path.write_bytes(data)
    (folder / "x.keys").write_bytes(keys)
    with check.time_limit(60):
        return check.run(
            paths if len(paths) > 1 else paths[0],
            folder / "x.keys" if keys else None,
            folder / "x.json",
            report=report,
            redact="default",
        )


@pytest.mark.parametrize("level", mutate.LEVELS)
def test_random_damage(level: str, begun: list[seeds.Seed], tmp_path: Path) -> None:
    outcomes = set()
    for number in range(80):
        rng = random.Random(f"test {level} {number}")
        case = mutate.mutated(rng, begun, level)
        outcomes.add(survives(tmp_path, *case.files, keys=case.keys, report=number % 20 == 0))
    assert "analysed" in outcomes
    assert level != "container" or "refused" in outcomes


def test_the_same_numbers_make_the_same_damage(begun: list[seeds.Seed]) -> None:
    made = [
        [mutate.mutated(random.Random(f"{n}"), begun, level) for n in range(30)]
        for level in mutate.LEVELS * 2
    ]
    assert made[:3] == made[3:]
    assert len({case.files[0] for case in made[0]}) > 20


@pytest.mark.parametrize("shift_ns", [-5_000_000, -400_000_000, -3_600_000_000_000])
def test_a_clock_that_goes_back(shift_ns: int, begun: list[seeds.Seed], tmp_path: Path) -> None:
    """Answers before their questions: of lookups, of requests in clear and of encrypted ones."""
    names = {"dns-slow.pcap", "http-keepalive.pcap", "tls13-no-keys.pcap", "sse-stream.pcap"}
    names |= {"h2c-prior-knowledge.pcap", "llm-incident.pcap", "ocsp-fetch-in-handshake.pcap"}
    chosen = [seed for seed in begun if seed.name in names]
    assert len(chosen) == len(names)
    for seed in chosen:
        for keys in {seed.keys, b""}:
            for at in range(1, len(seed.frames), max(len(seed.frames) // 12, 1)):
                frames = [
                    seeds.Frame(f.time_ns + shift_ns * (i >= at), f.data, f.original, f.payload)
                    for i, f in enumerate(seed.frames)
                ]
                data = mutate.as_pcap(random.Random(0), seed.link_type, frames)
                assert survives(tmp_path, data, keys=keys) == "analysed"


def test_what_goes_wrong_is_noticed(
    begun: list[seeds.Seed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (seed,) = [seed for seed in begun if seed.name == "http-keepalive.pcap"]
    assert survives(tmp_path, seed.raw) == "analysed"

    def broken(*arguments: object, **options: object) -> None:
        raise LookupError

    with monkeypatch.context() as patch:
        patch.setattr("capture_analyzer.protocols.http1.connection.parse", broken)
        with pytest.raises(LookupError) as caught:
            survives(tmp_path, seed.raw)
        assert check.place(caught.value).startswith("LookupError pipeline/dissect/__init__.py:")
    with monkeypatch.context() as patch:
        patch.setattr("capture_analyzer.pipeline.timeline.resolve", broken)
        with pytest.raises(LookupError):
            survives(tmp_path, seed.raw)
    with pytest.raises(check.TooSlowError), check.time_limit(0.05):
        sum(number for number in range(1 << 40))
