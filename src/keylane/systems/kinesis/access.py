"""How a stream is reached: region and endpoint -> a client of boto3, and its errors in words.

    access_of      an address -> KinesisAccess, which can be sent to other processes: it holds no secret
    calling        a context in which errors of boto3 become errors of keylane, without a secret in them

Credentials are found by boto3 itself, as every tool of the vendor finds them: variables, a profile, a role. keylane
keeps none, and puts none in an option of Spark. Errors of a server are shown, and what they repeat of a credential is
masked, because an endpoint may be anyone's.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

from keylane.errors import BrokerError, DataError, KeylaneError, MissingExtraError, TargetError, UsageError, first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from keylane.systems.endpoint import Address

#: Seconds until a connection stands, and until an answer comes; a stream that is asked for much may take some.
CONNECT_SECONDS: Final = 5
ANSWER_SECONDS: Final = 30
#: How often a question is asked; what is written is sent once, because whether it came through is not known.
ASKED: Final = 4
#: The services that are asked, as boto3 names them.
STREAMS: Final = "kinesis"
METRICS: Final = "cloudwatch"
_TITLES: Final = {STREAMS: "Kinesis", METRICS: "CloudWatch"}
_MOST_TEXT: Final = 300
_OF_SERVICE: Final = re.compile(
    r"An error occurred \((\w+)\) when calling the \w+ operation(?: \(.*?\))?: ?(.*)", re.DOTALL
)
#: What the service answers to somebody it does not know, or does not let in.
_REFUSED: Final = (
    *("AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException"),
    *("IncompleteSignatureException", "MissingAuthenticationTokenException", "InvalidClientTokenId"),
)
_CREDENTIALS: Final = (
    "credentials are found by boto3: AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a role"
)


@dataclass(frozen=True, slots=True)
class Timing:
    """A clock in seconds, how one waits by it, and the time of day as seconds since 1970."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    wall: Callable[[], float] = time.time


#: By which the limits of the service are kept.
TIMING: Final = Timing()


@dataclass(frozen=True, slots=True)
class KinesisAccess:
    """A region, and the endpoint where that is not the region's own."""

    region: str
    endpoint: str | None = None

    @property
    def where(self) -> str:
        """For errors."""
        return f"{self.region} at {self.endpoint}" if self.endpoint else self.region

    @property
    def timing(self) -> Timing:
        """The clock of this process."""
        return TIMING

    def client(self, *, tries: int = ASKED, service: str = STREAMS) -> Any:
        """A client; one for each process, number of tries and service. It may be used by several threads."""
        with calling(self, service=service):
            return _client(self, tries, service)


def access_of(address: Address) -> KinesisAccess:
    """Of `kinesis://region/stream?endpoint=http://host:port`; the endpoint is an address that the user gave."""
    given = dict(parse_qsl(address.query, keep_blank_values=True))
    endpoint = given.pop("endpoint", None)
    if given:
        what = "an address of a stream has no such option"
        raise UsageError.of(what, got=", ".join(given), allowed="endpoint", hint="?endpoint=http://127.0.0.1:4567")
    if endpoint is not None:
        _check_endpoint(endpoint)
    return KinesisAccess(address.authority, endpoint)


def _check_endpoint(text: str) -> None:
    form = "http://host:port or https://host[:port]"
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018  raises for one that is no number
    except ValueError:
        raise UsageError.of("not an endpoint", got=text, allowed=form) from None
    if "@" in parts.netloc:
        # Whatever stands before it may be a secret, so it is not shown.
        raise UsageError.of("an endpoint holds no user and no password", allowed=form, hint=_CREDENTIALS)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path not in {"", "/"} or parts.query:
        raise UsageError.of("not an endpoint", got=text, allowed=form)


def configured_region() -> str | None:
    """The region that AWS's own variables or files configure; None without one, and without the library."""
    try:
        import boto3
        from botocore.exceptions import BotoCoreError
    except ImportError:
        return None
    try:
        found: str | None = boto3.Session().region_name
    except BotoCoreError:  # a profile that is not there, or a file that cannot be read
        return None
    return found


@cache
def _client(access: KinesisAccess, tries: int, service: str) -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise MissingExtraError.named("kinesis", "boto3") from None
    session = boto3.Session(region_name=access.region)
    if session.get_credentials() is None:
        raise UsageError.of("no credentials for Kinesis were found", hint=_CREDENTIALS)
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=ANSWER_SECONDS,
        retries={"mode": "standard", "total_max_attempts": tries},
        # Errors name the parameter that is wrong; records are checked before they are sent.
        parameter_validation=True,
    )
    # A test server has all services at one endpoint; AWS's own variable names another for the metrics.
    elsewhere = service == METRICS and "AWS_ENDPOINT_URL_CLOUDWATCH" in os.environ
    return session.client(service, endpoint_url=None if elsewhere else access.endpoint, config=config)


@contextmanager
def calling(
    access: KinesisAccess, stream: str = "", error: type[DataError | TargetError] = DataError, service: str = STREAMS
) -> Iterator[None]:
    """Errors of boto3 as keylane's; a stream that is not there is an `error`."""
    try:
        yield
    except KeylaneError:
        raise
    except Exception as raised:
        if not type(raised).__module__.startswith(("botocore", "boto3", "urllib3")):
            raise
        raise explained(raised, access, stream, error, service) from None


def explained(
    raised: Exception,
    access: KinesisAccess,
    stream: str,
    error: type[DataError | TargetError],
    service: str = STREAMS,
) -> KeylaneError:
    """What went wrong, in words."""
    title = f"{_TITLES[service]} in {access.where}"
    name, text = type(raised).__name__, masked(first_line(str(raised)) if str(raised) else "")[:_MOST_TEXT]
    if name in {"NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "CredentialRetrievalError"}:
        return UsageError.of("no credentials for Kinesis were found", got=text, hint=_CREDENTIALS)
    if name in {"UnknownRegionError", "InvalidRegionError"}:
        return UsageError.of("not a region", got=access.region, hint="such as eu-west-1")
    code, answer = code_of(raised), text
    if (match := _OF_SERVICE.match(str(raised))) is not None:
        answer = masked(first_line(match[2]))[:_MOST_TEXT]
    if code == "ResourceNotFoundException":
        return error.of(f"no such stream in {access.where}", got=stream or None, hint="create it first")
    if code in _REFUSED:
        return BrokerError.of(f"{title} refuses the credentials", got=code, hint=_CREDENTIALS)
    if code:
        return BrokerError.of(f"{title} answered with an error", got=f"{code}: {answer}")
    hint = "check the endpoint" if access.endpoint else "check the region, and the way to the network"
    return BrokerError.of(f"{title} cannot be reached", got=f"{name}: {text}", hint=hint)


def code_of(raised: Exception) -> str:
    """The service's name of an error; nothing for one that is not the service's."""
    response = getattr(raised, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def masked(text: str) -> str:
    """A text of somebody else without the credentials that this process has."""
    try:
        import boto3

        found = boto3.Session().get_credentials()
    except Exception:  # noqa: BLE001  whatever a broken profile raises: then there is nothing to mask
        return text
    for secret in (found.secret_key, found.token, found.access_key) if found is not None else ():
        text = text.replace(secret, "***") if secret else text
    return text
