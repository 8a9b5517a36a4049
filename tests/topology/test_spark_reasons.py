"""What a user is told of a job that ended, from what Spark says."""

from __future__ import annotations

import pytest

from topology.spark.reasons import readable_reason

BARRIER = (
    "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Could not recover from a failed barrier "
    "ResultStage. Most recent failure reason: Stage failed because barrier task ResultTask(1, 0) finished "
    "unsuccessfully.\n"
)
HOSTS = {"0": "10.0.0.7", "1": "10.0.0.8"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            BARRIER + "ExecutorLostFailure (executor 0 exited unrelated to the running tasks) Reason: worker lost: "
            "10.0.0.7:41841 got disassociated",
            "an executor was lost on 10.0.0.7",
        ),
        (
            BARRIER + "ExecutorLostFailure (executor 9 exited caused by one of the running tasks) Reason: Command "
            "exited with code 137",
            "an executor was lost",
        ),
        (
            BARRIER + "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat x",
            "a stage process died",
        ),
        (
            BARRIER + "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
            '  File "task.py", line 1, in run\n'
            "topology.errors.TopologyError: task 0 held 1,200 MB\n",
            "task 0 held 1,200 MB",
        ),
        (BARRIER + "ValueError: no such thing\n", "ValueError: no such thing"),
        (
            "An error occurred\n: org.apache.spark.scheduler.BarrierJobSlotsNumberCheckFailed: [SPARK-24819]: Barrier",
            "the cluster lost slots before the tasks could start",
        ),
        ("One line", "One line"),
    ],
)
def test_the_reason_is_told_in_words(text: str, reason: str) -> None:
    assert readable_reason(text, HOSTS) == reason
