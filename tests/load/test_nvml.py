"""NVML: a library that answers as the vendor's does, and the vendor's own where there is a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headgate.core.settings import SIGNALS
from headgate.load.gpu import GpuProbe, Nvml, find_gpus
from headgate.load.probe import ProbeFailed, measure


class Library:
    """The part of `pynvml` that is used."""

    NVML_TEMPERATURE_GPU = 0

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        self.broken = False

    def nvmlInit(self) -> None:  # noqa: N802
        if self.broken:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        if self.broken:
            raise self.NVMLError("GPU is lost")
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetMemoryInfo(self, device: int) -> Any:  # noqa: N802
        return SimpleNamespace(total=1_000, used=100 * (device + 1))

    def nvmlDeviceGetUtilizationRates(self, device: int) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=40 + device)

    def nvmlDeviceGetTemperature(self, device: int, kind: int) -> int:  # noqa: N802
        return 50 + device

    def nvmlDeviceGetUUID(self, device: int) -> str | bytes:  # noqa: N802
        return f"GPU-{device}" if device else b"GPU-0"

    def nvmlDeviceGetName(self, device: int) -> str:  # noqa: N802
        return "H200"

    def nvmlShutdown(self) -> None:  # noqa: N802
        pass


def test_every_gpu_is_read_with_memory_use_and_temperature() -> None:
    gpus = Nvml(Library()).gpus()
    assert [(gpu.id, gpu.vram_free, gpu.utilization, gpu.temperature) for gpu in gpus] == [
        ("GPU-0", 900, 0.4, 50.0),
        ("GPU-1", 800, 0.41, 51.0),
    ]


def test_a_driver_that_fails_is_reported_with_its_own_words() -> None:
    library = Library()
    probe = GpuProbe(Nvml(library).gpus)
    assert measure(probe).reasons == {}
    library.broken = True
    reading = measure(probe)
    assert set(reading.signals.values()) == {None}
    assert "GPU is lost" in reading.reasons["gpu"]
    assert probe.latest == ()
    with pytest.raises(ProbeFailed, match="Driver Not Loaded"):
        Nvml(library)


def test_the_gpus_of_this_machine_answer_within_their_range() -> None:
    nvml = find_gpus()
    if nvml is None:
        pytest.skip("this machine has no GPU that NVML can reach")
    reading = measure(GpuProbe(nvml.gpus))
    assert reading.reasons == {}
    for name, value in reading.signals.items():
        assert value is not None
        assert 0 <= value <= SIGNALS[name].largest
    assert all(gpu.vram_total > 1 << 30 for gpu in nvml.gpus())
    nvml.close()
