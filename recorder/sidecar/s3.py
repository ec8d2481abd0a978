"""S3 as the target of a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tracelake.recorder.sidecar.deliver import DeliveryFailed

CONNECT_SECONDS, READ_SECONDS = 5, 30


class Bucket:
    """A prefix of a bucket; boto3 finds credentials as everywhere (environment, profile, role)."""

    def __init__(self, url: str, *, endpoint_url: str | None = None, region: str | None = None) -> None:
        """`url` is s3://bucket/prefix of the raw folder."""
        self._bucket, _, prefix = url.removeprefix("s3://").partition("/")
        self._prefix = prefix.strip("/")
        self._endpoint_url, self._region = endpoint_url, region
        self._client: Any = None

    def put(self, file: Path, path: str) -> None:
        key = f"{self._prefix}/{path}" if self._prefix else path
        try:
            import boto3
            from botocore.exceptions import BotoCoreError, ClientError
        except ImportError as error:
            raise DeliveryFailed("s3:// needs boto3: pip install 'tracelake[s3]'") from error
        from boto3.exceptions import Boto3Error

        try:
            if self._client is None:
                self._client = self._connect(boto3)
            self._client.upload_file(str(file), self._bucket, key)
        except (BotoCoreError, ClientError, Boto3Error) as error:
            # Credentials may have been renewed meanwhile: a new client reads them again.
            self._client = None
            raise DeliveryFailed(f"s3://{self._bucket}/{key}: {error}") from error

    def _connect(self, boto3: Any) -> Any:
        from botocore.config import Config

        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"mode": "standard", "max_attempts": 3},
            # A server that is not AWS's seldom has a name for each bucket.
            s3={"addressing_style": "path" if self._endpoint_url else "auto"},
            # Other S3 servers do not know the checksums that newer clients add unasked.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        session = boto3.session.Session()
        return session.client("s3", endpoint_url=self._endpoint_url, region_name=self._region, config=config)
