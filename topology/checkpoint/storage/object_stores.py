"""Object stores and HDFS by their URLs, through pyarrow's file systems.

    s3://[KEY:SECRET@]bucket/folder[?region=…&scheme=…&endpoint_override=…&tls_ca_file_path=…]
    gs://[anonymous@]bucket/folder[?…]       hdfs://[user@]host:port/folder[?…]       options as pyarrow takes them

S3 is opened option by option, since a URL cannot say how long to wait: as pyarrow opens one, a server that takes
connections and does not answer holds up every call for 100 s.
"""

from __future__ import annotations

import os
import re
from datetime import timedelta
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pyarrow import ArrowException
from pyarrow.fs import AwsStandardS3RetryStrategy, FileSystem, S3FileSystem, resolve_s3_region

from topology.checkpoint.errors import StoreUnreachableError
from topology.checkpoint.storage.blobs import ObjectBlobs

CONNECT_S: Final = 3.0
SILENT_S: Final = 5.0
"""A transfer without progress for this long is aborted."""
ATTEMPTS: Final = 3
"""The number of attempts of each request, with pauses of up to some seconds."""
GCS_RETRIES: Final = timedelta(seconds=20)
"""Seconds for which requests to Google are retried; its library's default is 15 minutes."""

S3_OPTIONS: Final = ("region", "scheme", "endpoint_override", "tls_ca_file_path")
_BUCKET = re.compile(r"[A-Za-z0-9._-]+")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def open_objects(location: str, shown: str) -> ObjectBlobs:
    """Open the store at `location`, shown to users as `shown`.

    Raises:
        StoreUnreachableError: When it cannot be used; the message holds no secret.
    """
    try:
        parts = urlsplit(location)
        if parts.scheme == "s3":
            return _open_s3(parts, shown)
        if parts.scheme in ("gs", "gcs") and "retry_limit_seconds" not in parts.query:
            joint = "&" if parts.query else "?"
            location = f"{location}{joint}retry_limit_seconds={GCS_RETRIES.total_seconds():.0f}"
        system, folder = FileSystem.from_uri(location)
    except (ArrowException, OSError, ValueError) as error:
        # The URL may contain secrets, and pyarrow quotes it, so its error is not kept as the cause either.
        reason = str(error).replace(location, shown)
        raise StoreUnreachableError(f"checkpoint.location: {shown} cannot be used: {reason}") from None
    return ObjectBlobs(system, folder, shown)


def _open_s3(parts: SplitResult, shown: str) -> ObjectBlobs:
    bucket = parts.netloc.rpartition("@")[2]
    if not _BUCKET.fullmatch(bucket) or parts.fragment:
        raise ValueError("a bucket must follow s3:// or KEY:SECRET@ (write / in a secret as %2F)")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in S3_OPTIONS:
            raise ValueError(f"there is no option {name}; options are {', '.join(S3_OPTIONS)}")
    endpoint, scheme = _endpoint(options)
    system = S3FileSystem(
        access_key=unquote(parts.username) if parts.username else None,
        secret_key=unquote(parts.password) if parts.password else None,
        region=options.get("region") or (None if endpoint else resolve_s3_region(bucket)),
        scheme=scheme,
        endpoint_override=endpoint,
        tls_ca_file_path=options.get("tls_ca_file_path"),
        connect_timeout=CONNECT_S,
        request_timeout=SILENT_S,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        allow_delayed_open=True,  # small objects are written with one request
    )
    return ObjectBlobs(system, f"{bucket}{unquote(parts.path)}", shown, f"{scheme}://{endpoint}" if endpoint else "")


def _endpoint(options: dict[str, str]) -> tuple[str | None, str]:
    """Return host and port of the server (None for Amazon's own) and the scheme.

    The environment variables are those that other programs use.
    """
    endpoint = options.get("endpoint_override")
    if endpoint is None:
        endpoint = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), None)
    scheme, _, host = endpoint.rpartition("://") if endpoint else ("", "", "")
    return host.rstrip("/") or None, options.get("scheme") or scheme or "https"
