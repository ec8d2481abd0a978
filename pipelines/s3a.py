"""How Spark reaches a lake in a bucket: the settings of S3A, and what its errors mean."""

from __future__ import annotations

import re
from typing import Any

from tracelake.schemas.bucket import Bucket
from tracelake.schemas.s3_errors import remedy
from tracelake.schemas.storage import Storage

S3A = "spark.hadoop.fs.s3a."
_CODE = re.compile(r"[A-Z][A-Za-z]+")
_SILENT = re.compile(r"ConnectException|ConnectTimeout|UnknownHost|Unable to execute HTTP request|SocketTimeout")
_NOBODY = "Unable to load credentials"
_CODES = {"AccessDeniedException": "AccessDenied", "UnknownStoreException": "NoSuchBucket"}
"""S3A's exceptions that stand where the code of S3 is not told."""


def s3a_settings(storage: Storage) -> dict[str, str]:
    """Settings of a session for a lake; none where it is a folder.

    The credentials are found as boto3 finds them: environment, web identity, profile, container or machine role.
    """
    if not isinstance(storage, Bucket):
        return {}
    options = storage.connection.options
    given = {
        "endpoint.region": storage.region,
        "path.style.access": str(options.in_path).lower(),
        "aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
        # The defaults try for minutes; a server that throttles has a limit of its own.
        "attempts.maximum": "3",
        "retry.limit": "3",
        "connection.establish.timeout": "5s",
    }
    if options.endpoint_url:
        given["endpoint"] = options.endpoint_url
    return {S3A + name: value for name, value in given.items()}


def trouble(error: BaseException) -> str | None:
    """What an error of Spark's says about S3, with the remedy; None where it is about something else."""
    text = "\n".join(_words(error))
    if not re.search(r"s3a|awssdk|amazonaws", text):
        return None
    words = _CODE.findall(text)
    for code in (*words, *(_CODES[word] for word in words if word in _CODES)):
        if meaning := remedy(code):
            return f"{meaning} ({code})"
    if _NOBODY in text:
        return "no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or a role"
    if _SILENT.search(text):
        return "the server does not answer; check the network and endpoint_url, and do it again"
    return None


def _words(error: BaseException) -> list[str]:
    """What was said on the way to an error, in Python and in Java."""
    found, cause = [], error
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while java is not None:
        found.append(str(java.toString()))
        java = java.getCause()
    return [*found, str(cause)]
