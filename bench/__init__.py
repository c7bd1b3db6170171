"""Benchmarks: each prints ratios measured in one run beside its goal. Nothing here fails because of a time."""
