"""Before the first paid call: one tiny call from the driver and one from an executor."""

from collections.abc import Iterator

import pyarrow as pa

from prspark.engine.run import Run
from prspark.errors import PreflightError
from prspark.judges import endpoint
from prspark.judges.factory import make_judge
from prspark.judges.limits import OpenGate
from prspark.judges.protocol import JudgeRefusedError


def preflight(run: Run) -> None:
    """Make sure that the endpoint answers where the calls will come from.

    A user's own judge is not tried: only its calls say what it needs.

    Raises:
        JudgeRefusedError: the driver's call failed; the text names the setting.
        PreflightError: an executor's call failed, though the driver's did not.
    """
    config = run.config
    if run.maker is not None or not config.judge.preflight:
        return

    def try_once() -> str:
        judge = make_judge(config.judge, metric=config.metric, limits=config.limits, gate=OpenGate())
        try:
            endpoint.preflight(judge)
        except JudgeRefusedError as error:
            return str(error)
        return ""

    if failure := try_once():
        raise JudgeRefusedError(failure)

    def on_executor(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_arrays([pa.array([try_once()])], names=["failure"])

    spark = run.df.sparkSession
    found = spark.range(0, 1, 1, 1).mapInArrow(on_executor, "failure string").first()
    if found is not None and found["failure"]:
        raise PreflightError(f"from an executor: {found['failure']}")
