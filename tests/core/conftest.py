"""The same examples in every run: a test that fails here fails everywhere, whatever the machine is busy with."""

from hypothesis import HealthCheck, settings

settings.register_profile("core", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("core")
