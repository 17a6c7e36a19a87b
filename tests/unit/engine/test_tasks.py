"""How many executors share a rate, and how many tasks share the work. No session: only its settings are read."""

from types import SimpleNamespace
from typing import Any

import pytest

from prspark.engine.executors import executor_count, one_executor
from prspark.engine.stream import Sizes, partitions
from prspark.errors import ConfigError
from prspark.judges.config import LimitsConfig

STANDALONE = {"spark.master": "spark://far:7077"}
DYNAMIC = {"spark.master": "yarn", "spark.dynamicAllocation.enabled": "true"}


def session(settings: dict[str, str]) -> Any:
    return SimpleNamespace(conf=settings)


@pytest.mark.parametrize(
    ("settings", "limits", "count"),
    [
        ({"spark.master": "local[8]"}, {}, 1),
        ({"spark.master": "local-cluster[3,2,1024]"}, {}, 3),
        ({**STANDALONE, "spark.cores.max": "8", "spark.executor.cores": "3"}, {}, 2),
        ({**STANDALONE, "spark.executor.instances": "1"}, {}, 1),
        ({**DYNAMIC, "spark.dynamicAllocation.maxExecutors": "20"}, {}, 20),
        ({**DYNAMIC, "spark.dynamicAllocation.maxExecutors": "20"}, {"executors": 5}, 5),
    ],
)
def test_executors_are_counted_from_the_settings(
    settings: dict[str, str], limits: dict[str, int], count: int
) -> None:
    found = session(settings)
    assert executor_count(found, LimitsConfig(requests_per_minute=60, **limits)) == count
    assert one_executor(found, LimitsConfig(**limits)) == (count == 1)


@pytest.mark.parametrize("settings", [STANDALONE, DYNAMIC])
def test_executors_that_nothing_counts_are_not_taken_for_one(settings: dict[str, str]) -> None:
    assert not one_executor(session(settings), LimitsConfig())
    assert executor_count(session(settings), LimitsConfig()) == 1
    for rate in ("requests_per_minute", "tokens_per_minute"):
        with pytest.raises(ConfigError, match=r"limits\.executors"):
            executor_count(session(settings), LimitsConfig(**{rate: 60}))


@pytest.mark.parametrize(
    ("rows", "characters", "tasks_a_slot", "tasks"),
    [
        (10, 1_000, 2, 4),  # one for each slot, however few the rows
        (700, 1_000, 2, 7),  # as many as have a hundred rows
        (17_000, 1_000, 2, 8),
        (17_000, 1_000, 1, 4),
        (200_001, 1_000, 1, 11),  # small ones, however few the slots
        (17_000, 128_000_000 * 9, 1, 9),
    ],
)
def test_tasks_are_small_and_as_many_a_slot_as_asked(
    rows: int, characters: int, tasks_a_slot: int, tasks: int
) -> None:
    sizes = Sizes(rows, rows, rows, 1, characters, None)
    found = partitions(sizes, 4, rows_a_task=20_000, rows_at_least=100, tasks_a_slot=tasks_a_slot)
    assert found == tasks
