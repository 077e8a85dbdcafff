"""Which errors of a batch are worth another try, how long they are retried, and what is said at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors.exceptions.captured import CapturedException, PythonException

from keylane.errors import BrokerError, DataError, KeylaneError, TargetError
from keylane.spark import kafka_writer
from keylane.spark.context import RunContext
from keylane.spark.kafka_writer import PERMANENT, WRITE_ERROR, passes, retried

if TYPE_CHECKING:
    from collections.abc import Callable

TASK = (
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0 in stage"
    " 1.0 (TID 1) (localhost executor driver): {}\n\tat some.Class.call(Unknown Source)\n\nDriver stacktrace:"
)
PASSING = (
    "org.apache.kafka.common.errors.TimeoutException: Timeout expired while fetching metadata",
    "org.apache.kafka.common.errors.DisconnectException",
    "org.apache.kafka.common.errors.NotLeaderOrFollowerException: for requests intended only for the leader",
    "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: worker lost",
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
    "java.io.IOException: Connection reset by peer",
    "org.apache.spark.shuffle.FetchFailedException: Failed to connect to host",
    "java.io.IOException: of a topic named IllegalArgumentException-1",
    f"java.lang.IllegalStateException: {WRITE_ERROR}writer p1 of batch 0: no broker answers: TimeoutException: late",
)
RECURRING = (
    "java.lang.IllegalArgumentException: Invalid timestamp: -86400000.",
    "org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position is out of range",
    "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [raw]",
    "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed",
    "org.apache.kafka.common.errors.RecordDeserializationException: bad\nCaused by: java.lang.ArithmeticException: x",
    "org.apache.kafka.common.errors.SerializationException: bad",
    "java.lang.NullPointerException",
    "org.apache.spark.SparkRuntimeException: [MALFORMED] x",
    "org.apache.spark.sql.kafka010.KafkaIllegalStateException: [KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] gone",
    f"java.lang.IllegalStateException: {WRITE_ERROR}{PERMANENT}writer p1 of batch 0: RecordTooLargeException: no",
)


class OfSparkError(CapturedException):
    """An error as Spark hands it over, without asking a running Java for its text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


class OfWorkerError(OfSparkError, PythonException):
    """What Python raised in a worker."""


def of_spark(text: str) -> Exception:
    return OfSparkError(TASK.format(text))


@pytest.mark.parametrize("text", PASSING)
def test_what_may_pass_is_tried_again(text: str) -> None:
    error = of_spark(text)
    assert passes(error, kafka_writer.error_of_writer(str(error)))


@pytest.mark.parametrize("text", RECURRING)
def test_what_would_recur_is_not(text: str) -> None:
    error = of_spark(text)
    assert not passes(error, kafka_writer.error_of_writer(str(error)))


def test_what_python_raised_and_what_was_no_job_recur() -> None:
    assert not passes(OfWorkerError("ValueError: x"), None)
    assert not passes(ZeroDivisionError("x"), None)


class Steps:
    """A step that fails as often as it has errors, and what was said meanwhile."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.tries, self.said = list(errors), 0, list[str]()

    def __call__(self) -> str:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        return "written"

    def run(self, seconds: float = 60.0, check: Callable[[], None] = lambda: None) -> str:
        return retried(self, 3, seconds, RunContext(say=self.said.append), check)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_writer, "PAUSE_SECONDS", (0.01, 0.01))


def test_a_step_is_tried_until_it_passes() -> None:
    step = Steps(*map(of_spark, PASSING[:3]))
    assert step.run() == "written"
    assert (step.tries, len(step.said)) == (4, 3)
    assert all(text.startswith("retrying batch 3: ") for text in step.said)


@pytest.mark.parametrize("text", RECURRING)
def test_an_error_that_would_recur_ends_it_at_once(text: str) -> None:
    step = Steps(of_spark(text))
    with pytest.raises(KeylaneError):
        step.run()
    assert (step.tries, step.said) == (1, [])


def test_records_that_are_gone_are_said_to_be_gone_and_how_to_go_on() -> None:
    with pytest.raises(
        DataError,
        match=r"batch 3 are no longer in the source; of other partitions .* may be .*retention.*--state, --start",
    ):
        Steps(of_spark(RECURRING[1])).run()


def test_when_time_is_up_the_error_says_how_to_go_on() -> None:
    step = Steps(*map(of_spark, PASSING[:1] * 1000))
    with pytest.raises(
        BrokerError, match=r"batch 3 was not written.*TimeoutException.*retried for 0.05 s.*--retry-for"
    ):
        step.run(0.05)
    assert 2 <= step.tries < 20


def test_what_is_checked_between_two_tries_ends_them() -> None:
    def gone() -> None:
        raise TargetError("the topic is gone")

    step = Steps(*map(of_spark, PASSING))
    with pytest.raises(TargetError, match="gone"):
        step.run(check=gone)
    assert step.tries == 1


def test_a_rule_that_lets_all_pass_would_be_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: what was so before, an error of the data was retried for ten minutes."""
    monkeypatch.setattr(kafka_writer, "passes", lambda *_: True)
    step: Any = Steps(of_spark(RECURRING[0]))
    assert step.run() == "written"
    assert step.tries == 2
