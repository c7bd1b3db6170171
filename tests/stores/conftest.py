import pytest

# The suite is a library: without this its asserts would say nothing about the values they compared.
for part in ("commits", "history", "upkeep", "world", "home"):
    pytest.register_assert_rewrite(f"headgate.testing.store_conformance.{part}")
