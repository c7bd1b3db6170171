"""GPUs through NVML, the vendor's own library; the package `nvidia-ml-py` is optional (`headgate[gpu]`)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headgate.core.cluster import Gpu
from headgate.load.probe import ProbeFailed


class Nvml:
    """Reads the GPUs of this machine. `library` is the module `pynvml` or something that looks like it."""

    def __init__(self, library: Any | None = None) -> None:
        if library is None:
            try:
                library = importlib.import_module("pynvml")
            except ImportError as error:
                raise ProbeFailed("the package nvidia-ml-py is not installed") from error
        self._nvml = library
        self._call(library.nvmlInit)

    def gpus(self) -> tuple[Gpu, ...]:
        """Every GPU with its memory in bytes, its use 0..1 and its temperature in degrees."""
        return tuple(self._gpu(index) for index in range(self._call(self._nvml.nvmlDeviceGetCount)))

    def close(self) -> None:
        """Let go of the driver."""
        self._call(self._nvml.nvmlShutdown)

    def _gpu(self, index: int) -> Gpu:
        nvml = self._nvml
        device = self._call(nvml.nvmlDeviceGetHandleByIndex, index)
        memory = self._call(nvml.nvmlDeviceGetMemoryInfo, device)
        use = self._call(nvml.nvmlDeviceGetUtilizationRates, device)
        degrees = self._call(nvml.nvmlDeviceGetTemperature, device, nvml.NVML_TEMPERATURE_GPU)
        identity, name = self._call(nvml.nvmlDeviceGetUUID, device), self._call(nvml.nvmlDeviceGetName, device)
        return Gpu(_text(identity), _text(name), memory.total, memory.used, use.gpu / 100, float(degrees))

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except self._nvml.NVMLError as error:
            raise ProbeFailed(f"NVML: {error}") from error


def _text(value: str | bytes) -> str:
    """Older versions of the library answer in bytes."""
    return value.decode() if isinstance(value, bytes) else value


class GpuProbe:
    """Use and memory of the GPU with the most room, since that is where work would go; the highest temperature."""

    name = "gpu"
    signals = ("gpu", "gpu_memory", "gpu_temperature")

    def __init__(self, gpus: Callable[[], Sequence[Gpu]]) -> None:
        self._gpus = gpus
        self.latest: tuple[Gpu, ...] = ()
        """The GPUs as last read; none while they cannot be read."""

    def read(self) -> Mapping[str, float]:
        """One reading over all GPUs."""
        self.latest = ()
        self.latest = gpus = tuple(self._gpus())
        if not gpus:
            raise ProbeFailed("the machine shows no GPUs any more")
        return {
            "gpu": min(gpu.utilization for gpu in gpus),
            "gpu_memory": min(gpu.vram_allocated / max(1, gpu.vram_total) for gpu in gpus),
            "gpu_temperature": max(gpu.temperature or 0.0 for gpu in gpus),
        }


def find_gpus() -> Nvml | None:
    """The GPUs of this machine, or none where there are none or the library is not installed."""
    try:
        nvml = Nvml()
        return nvml if nvml.gpus() else None
    except ProbeFailed:
        return None
