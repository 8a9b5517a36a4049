"""What a user is told of a job that ended, from what Spark says."""

from __future__ import annotations

import traceback

import pytest

from siddhi.errors import Problem, SiddhiAnalysisError
from topology.spark.errors import UnfitPlanError
from topology.spark.reasons import (
    DOUBTFUL_ENDS,
    LONGEST_FAULT,
    NO_EVENT_ENDS,
    Ending,
    describe_place,
    describe_unfit,
    read_ending,
)

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
            "an executor was killed, as happens when memory runs out (exit code 137)",
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
    assert read_ending(text, HOSTS).reason == reason


def test_an_error_of_python_is_told_with_its_type_its_traceback_and_where_it_was() -> None:
    text = (
        BARRIER + "org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the "
        "Python worker: Traceback (most recent call last):\n"
        '  File "/lib/pyspark.zip/pyspark/worker.py", line 1, in main\n    process()\n    ^^^^^^^\n'
        '  File "processor.py", line 99, in on_bundle\n    self.work()\n    ~~~~^^^^^^^^^\n'
        "siddhi.errors.SiddhiRuntimeError: no such thing\n" + describe_place("storms#1", 2, "10.0.0.7", 4711) + "\n"
        " SQLSTATE: 38000\n"
        "\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)\n"
    )
    ending = read_ending(text, HOSTS)
    assert (ending.code, ending.text()) == ("SiddhiRuntimeError", "no such thing")
    assert ending.reason == "siddhi.errors.SiddhiRuntimeError: no such thing"
    assert (ending.instance, ending.host, ending.process_id) == ("storms#1", "10.0.0.7", 4711)
    assert ending.traceback.splitlines() == [
        "Traceback (most recent call last):",
        '  File "processor.py", line 99, in on_bundle',
        "    self.work()",
        "siddhi.errors.SiddhiRuntimeError: no such thing",
        "failed in instance storms#1 of task 2 on 10.0.0.7 (process 4711)",
    ]


def test_a_task_that_failed_in_none_of_its_instances_is_told_without_one() -> None:
    text = "Traceback (most recent call last):\ntopology.errors.TopologyError: over\n" + describe_place("", 0, "h", 7)
    ending = read_ending(text, {})
    assert (ending.code, ending.reason, ending.instance, ending.host) == ("TopologyError", "over", "", "h")


@pytest.mark.parametrize(
    "said",
    [
        "exited caused by one of the running tasks) Reason: Command exited with code 137",
        "exited caused by one of the running tasks) Reason: Command exited with code 52",
        (
            "exited unrelated to the running tasks) Reason: Container from a bad node: container_1 on host: h. Exit "
            "status: 137. Diagnostics: Container killed on request."
        ),
        (
            "exited caused by one of the running tasks) Reason: Container killed by YARN for exceeding physical memory "
            "limits. 1.5 GB of 1.5 GB physical memory used."
        ),
        (
            "exited caused by one of the running tasks) Reason: \nThe executor with id 1 exited with exit code "
            "137(SIGKILL, possible container OOM).\n"
        ),
    ],
)
def test_an_executor_that_was_killed_as_by_its_memory_is_told_from_one_that_was_lost(said: str) -> None:
    ending = read_ending(f"{BARRIER}ExecutorLostFailure (executor 1 {said}", HOSTS)
    assert (ending.code, ending.host) == ("executor-killed", "10.0.0.8")
    assert ending.code in DOUBTFUL_ENDS
    assert ending.code not in NO_EVENT_ENDS


@pytest.mark.parametrize(
    "said",
    [
        (
            "exited caused by one of the running tasks) Reason: Remote RPC client disassociated. Likely due to "
            "containers exceeding thresholds, or network issues. Check driver logs for WARN messages."
        ),
        "exited unrelated to the running tasks) Reason: Executor heartbeat timed out after 137000 ms",
        "exited caused by one of the running tasks) Reason: Command exited with code 143",
        "exited caused by one of the running tasks) Reason: Command exited with code 1370",
        "exited unrelated to the running tasks) Reason: worker lost: 10.0.0.7:41841 got disassociated",
    ],
)
def test_executors_that_are_lost_otherwise_say_nothing_of_memory(said: str) -> None:
    ending = read_ending(f"{BARRIER}ExecutorLostFailure (executor 1 {said}", HOSTS)
    assert ending.code in NO_EVENT_ENDS


def test_endings_that_no_python_raised_have_codes_of_their_own() -> None:
    assert read_ending("Lost executor 1 on 10.0.0.8: gone", HOSTS).code == "executor-lost"
    assert read_ending("Lost executor 1 on 10.0.0.8: gone", HOSTS).host == "10.0.0.8"
    assert read_ending("Python worker exited unexpectedly (crashed)", HOSTS).code == "process-died"


def test_what_tasks_say_of_a_plan_that_cannot_run_names_the_type_of_error() -> None:
    fault = "ConfigError: stages.script.python is off: turn it on"
    text = f"{BARRIER}topology.spark.errors.UnfitPlanError: {fault}\n\n\tat org.apache.spark.Some(x)"
    assert read_ending(text, HOSTS) == Ending(fault, "ConfigError", unfit=True)


def ending_of(failure: Exception) -> Ending:
    """What is read of a task's `failure`, as Python and Spark write it down."""
    try:
        try:
            raise failure
        except type(failure) as cause:
            raise UnfitPlanError(describe_unfit(cause)) from cause
    except UnfitPlanError as unfit:
        written = "".join(traceback.format_exception(unfit))
    return read_ending(f"{BARRIER}{written}\n SQLSTATE: 38000\n\tat org.apache.spark.Some(x)", HOSTS)


def test_all_that_is_wrong_with_a_plan_is_told() -> None:
    problems = [Problem("unknown-function", "there is no function f"), Problem("unknown-stream", "no stream S")]
    ending = ending_of(SiddhiAnalysisError(problems))
    assert (ending.code, ending.unfit) == ("SiddhiAnalysisError", True)
    assert ending.text() == "there is no function f [unknown-function]; no stream S [unknown-stream]"


@pytest.mark.parametrize(("length", "told"), [(1, 500), (99, 20), (3 * LONGEST_FAULT, 1)])
def test_of_very_many_faults_as_many_are_told_as_have_room(length: int, told: int) -> None:
    text = ending_of(ValueError("\n".join(["x" * length] * 500))).text()
    assert text.count("x" * min(length, LONGEST_FAULT)) == told
    assert text.endswith(f"and {500 - told} more") == (told < 500)
    assert len(text) <= 2 * LONGEST_FAULT


def test_a_fault_without_words_is_told_by_its_type() -> None:
    assert ending_of(ValueError()).code == "ValueError"
