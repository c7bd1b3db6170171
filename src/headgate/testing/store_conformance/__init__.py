"""One suite for all stores. A test module inherits it and says where the store under test lives:

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def home(self, tmp_path): return MyHome(tmp_path)

Every test takes the fixture `home` (a `StoreHome`) and starts with an empty place.
"""

from headgate.testing.store_conformance.commits import CommitTests
from headgate.testing.store_conformance.history import HistoryTests
from headgate.testing.store_conformance.home import StoreHome, Writer, end_row, job_row, lease_row, status_row
from headgate.testing.store_conformance.upkeep import UpkeepTests


class StoreConformance(CommitTests, HistoryTests, UpkeepTests):
    """All that any store has to do."""


__all__ = ["StoreConformance", "StoreHome", "Writer", "end_row", "job_row", "lease_row", "status_row"]
