"""Deterministic simulation: the real engine on a simulated disk, network and clock, with workers and clients, and
faults of every kind. A seed decides everything; a failing seed fails again, step for step."""

from headgate.testing.simulation.faults import Faults
from headgate.testing.simulation.run import STEPS, Report, simulate

__all__ = ["STEPS", "Faults", "Report", "simulate"]
