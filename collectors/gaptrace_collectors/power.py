"""Power, clocks, temperature and limits of the GPU while timed steps run, through NVML."""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any

import torch

INTERVAL_NS = 50_000_000


class PowerMeter:
    """Samples one GPU in a thread of its own; without NVML it only carries a note.

    Energy comes from the GPU's own counter, so a mean power is right even for a phase shorter than
    the sampling interval.
    """

    def __init__(self, index: int) -> None:
        self.note: str | None = None
        self._nvml: Any = None
        self._handle: Any = None
        self._samples: list[dict[str, Any]] = []
        self._energy: list[tuple[float, int]] = []
        self._mark: tuple[int, int | None] = (0, None)
        self._origin = time.perf_counter_ns()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        try:
            import pynvml
        except ImportError:
            self.note = "no power readings: nvidia-ml-py (pynvml) is not installed"
            return
        try:
            pynvml.nvmlInit()
            self._handle = _handle_of(pynvml, index)
        except pynvml.NVMLError as error:
            self.note = f"no power readings: {error}"
            return
        self._nvml = pynvml

    def start(self, phase: str) -> None:
        """Begin sampling; every sample carries the name of the phase."""
        if self._nvml is None:
            return
        self._mark = (time.perf_counter_ns(), self._read("nvmlDeviceGetTotalEnergyConsumption"))
        self._stop.clear()
        self._thread = threading.Thread(target=self._loop, args=(phase,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End sampling after one last sample."""
        if self._thread is None:
            return
        self._stop.set()
        self._thread.join()
        self._thread = None
        began, energy = self._mark
        now = self._read("nvmlDeviceGetTotalEnergyConsumption")
        if energy is not None and now is not None:
            self._energy.append(((time.perf_counter_ns() - began) / 1e9, now - energy))

    def _loop(self, phase: str) -> None:
        while True:
            last = self._stop.is_set()
            self._samples.append(self._sample(phase))
            if last:
                return
            self._stop.wait(INTERVAL_NS / 1e9)

    def _read(self, function: str, *args: Any) -> Any:
        try:
            return getattr(self._nvml, function)(self._handle, *args)
        except (self._nvml.NVMLError, AttributeError):
            return None

    def _sample(self, phase: str) -> dict[str, Any]:
        nvml = self._nvml
        use = self._read("nvmlDeviceGetUtilizationRates")
        return {
            "t_ns": time.perf_counter_ns() - self._origin,
            "phase": phase,
            "power_mw": self._read("nvmlDeviceGetPowerUsage"),
            "sm_mhz": self._read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            "mem_mhz": self._read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
            "temperature_c": self._read("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            "gpu_util": None if use is None else use.gpu,
            "throttle": self._read("nvmlDeviceGetCurrentClocksThrottleReasons"),
        }

    def driver(self) -> str | None:
        """The driver's version."""
        if self._nvml is None:
            return None
        try:
            text = self._nvml.nvmlSystemGetDriverVersion()
        except self._nvml.NVMLError:
            return None
        return text.decode() if isinstance(text, bytes) else str(text)

    def section(self) -> dict[str, Any]:
        """The `power` section of run.json."""
        if self._nvml is None:
            return {"note": self.note}
        powers = [sample["power_mw"] for sample in self._samples if sample["power_mw"] is not None]
        seconds = sum(part for part, _ in self._energy)
        energy = sum(part for _, part in self._energy)
        # The counter moves every few tens of milliseconds; below that the samples are better.
        from_counter = seconds > 0.2 and energy > 0
        mean_mw = energy / seconds if from_counter else (statistics.fmean(powers) if powers else 0)
        nvml = self._nvml
        return {
            "samples": self._samples,
            "limits": {
                "power_mw": self._read("nvmlDeviceGetEnforcedPowerLimit"),
                "sm_mhz_max": self._read("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
                "mem_mhz_max": self._read("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM),
            },
            "mean_power_w": round(mean_mw / 1e3, 1) if mean_mw else None,
            "mean_power_source": "energy counter" if from_counter else "samples",
            "energy_mj": energy or None,
            "interval_ns": INTERVAL_NS,
        }


def _handle_of(nvml: Any, index: int) -> Any:
    """NVML's handle of torch's device `index`; the two number devices differently."""
    uuid = getattr(torch.cuda.get_device_properties(index), "uuid", None)
    if uuid is not None:
        text = str(uuid)
        for form in (text, f"GPU-{text}"):
            try:
                return nvml.nvmlDeviceGetHandleByUUID(form)
            except nvml.NVMLError:
                continue
    return nvml.nvmlDeviceGetHandleByIndex(index)
