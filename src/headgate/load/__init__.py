"""Load: probes of the machine, GPUs and applications, and the inputs of the busy rating. The core does the rating."""

from headgate.load.api import ApiRecorder, observe
from headgate.load.health import HealthReport, MemoryPressure, MonitorConfig
from headgate.load.middleware import AsgiLoad, WsgiLoad
from headgate.load.monitor import ResourceMonitor, SlotHandle
from headgate.load.pool_agent import PoolAgent
from headgate.load.probe import Probe, ProbeFailed
from headgate.load.sampler import Sampler

__all__ = [
    "ApiRecorder",
    "AsgiLoad",
    "HealthReport",
    "MemoryPressure",
    "MonitorConfig",
    "PoolAgent",
    "Probe",
    "ProbeFailed",
    "ResourceMonitor",
    "Sampler",
    "SlotHandle",
    "WsgiLoad",
    "observe",
]
