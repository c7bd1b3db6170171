"""The worker: what runs jobs. It talks to the engine through the client and keeps no rule of scheduling."""

from headgate.worker.pull import PullConfig, PullScheduler, WorkOrder
from headgate.worker.single_slot import SingleSlot, SlotState

__all__ = ["PullConfig", "PullScheduler", "SingleSlot", "SlotState", "WorkOrder"]
