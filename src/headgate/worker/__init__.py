"""The worker: what runs jobs. It talks to the engine through the client and keeps no rule of scheduling."""

from headgate.worker.single_slot import SingleSlot, SlotState

__all__ = ["SingleSlot", "SlotState"]
