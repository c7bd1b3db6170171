"""Wiring: the only place that puts concrete parts together. No rule of any kind may enter here."""
