from collections.abc import Iterator

import pytest

from tests.up.house import House, house, until


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One running service for the tests of a module that do not stop it."""
    with house(tmp_path_factory.mktemp("service")) as made:
        until(lambda: len(made.ask("workers")["workers"]) == 2)
        yield made
