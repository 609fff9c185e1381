"""The last third of the guarded numbers; a file is the work of one test process."""

import pytest
from tests.guard.frozen_parts import check_part


@pytest.mark.slow
@pytest.mark.parametrize("part", range(16, 24))
def test_numbers_statuses_and_bars_are_the_frozen_ones(part: int) -> None:
    check_part(part)
