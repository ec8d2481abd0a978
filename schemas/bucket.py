"""A prefix of an S3 bucket as a lake's storage; the one place that knows the S3 client."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import IO, Any

from tracelake.schemas.s3_errors import remedy, said
from tracelake.schemas.storage import Folder, Storage, StorageFailed, Stored, joined

SCHEME = "s3://"
CONNECT_SECONDS, READ_SECONDS, ATTEMPTS = 5, 30, 3
_DELETED_AT_ONCE = 1000  # the most that S3 takes in one request
_LOOKED_AT = 20
"""Keys asked for where one of them will do."""
_FALLBACK_REGION = "us-east-1"


@dataclass(frozen=True)
class S3Options:
    """How S3 is reached, for boto3 and for Spark alike. Credentials come from where AWS tools look for them."""

    endpoint_url: str | None = None
    region: str | None = None
    path_style: bool | None = None
    """Whether the bucket stands in the path; by default where `endpoint_url` names a server that is not AWS's."""

    @staticmethod
    def from_mapping(given: Mapping[str, Any]) -> S3Options:
        """From [s3] of the settings. Raises ValueError naming the key."""
        types = {"endpoint_url": str, "region": str, "path_style": bool}
        for name, value in given.items():
            if name not in types:
                raise ValueError(f"no setting {name}; there are {', '.join(types)}, and credentials stand elsewhere")
            if not isinstance(value, types[name]):
                raise ValueError(f"{name} = {value!r}; give {'true or false' if types[name] is bool else 'text'}")
        return S3Options(**given)

    @property
    def in_path(self) -> bool:
        return self.endpoint_url is not None if self.path_style is None else self.path_style


def storage_at(location: str, options: S3Options = S3Options()) -> Storage:
    """The storage that a folder's path or s3://bucket/prefix names. Raises ValueError for any other location."""
    if location.startswith(SCHEME):
        bucket, _, prefix = location.removeprefix(SCHEME).partition("/")
        if not bucket:
            raise ValueError(f"{location}: give a folder or s3://bucket/prefix")
        return Bucket(Connection(options), bucket, prefix.strip("/"))
    if "://" in location or location.startswith("s3:"):
        raise ValueError(f"{location}: give a folder or s3://bucket/prefix")
    return Folder(Path(location))


class Connection:
    """A client, made when it is first needed and again after a failure: credentials may have been renewed."""

    def __init__(self, options: S3Options) -> None:
        self.options = options
        self._client: Any = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Connection) and self.options == other.options

    def __hash__(self) -> int:
        return hash(self.options)

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "_client": None}

    def forget(self) -> None:
        self._client = None

    def client(self) -> Any:
        if (client := self._client) is None:
            self._client = client = self._connect()
        return client

    def _connect(self) -> Any:
        try:
            import boto3
        except ImportError as error:
            raise StorageFailed("s3:// needs boto3: pip install 'tracelake[s3]'") from error
        from botocore.config import Config

        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"mode": "standard", "max_attempts": ATTEMPTS},
            max_pool_connections=32,
            # A server that is not AWS's seldom has a name for each bucket.
            s3={"addressing_style": "path" if self.options.in_path else "auto"},
            # Other S3 servers do not know the checksums that newer clients add unasked.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        session = boto3.session.Session()
        region = self.options.region or session.region_name or _FALLBACK_REGION
        return session.client("s3", endpoint_url=self.options.endpoint_url, region_name=region, config=config)


@dataclass(frozen=True)
class Tagged:
    """An object as it was read, with the tag that a conditional put names, and its age by the server's clock."""

    data: bytes
    etag: str
    age_seconds: float


@dataclass(frozen=True)
class Bucket:
    """A prefix of a bucket. See Storage for what the methods do."""

    connection: Connection
    bucket: str
    prefix: str

    @property
    def name(self) -> str:
        return self.url("")

    @property
    def region(self) -> str:
        return str(self.connection.client().meta.region_name)

    def url(self, key: str) -> str:
        return f"{SCHEME}{self.bucket}/{self._key(key)}".rstrip("/")

    def spark_url(self, key: str) -> str:
        return f"s3a://{self.bucket}/{self._key(key)}"

    def below(self, folder: str) -> Bucket:
        return replace(self, prefix=self._key(folder))

    def _key(self, key: str) -> str:
        return joined(self.prefix, key) if self.prefix else key

    def _folder(self, folder: str) -> str:
        """The prefix of everything below a folder."""
        inside = self._key(folder).rstrip("/")
        return f"{inside}/" if inside else ""

    def _inside(self, key: str) -> str:
        return key.removeprefix(f"{self.prefix}/") if self.prefix else key

    @contextmanager
    def _asking(self, key: str) -> Iterator[Any]:
        """The client; what it raises becomes one line that names the place and the remedy."""
        client = self.connection.client()
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield client
        except (BotoCoreError, ClientError, Boto3Error) as error:
            self.connection.forget()
            raise StorageFailed(f"{self.url(key)}: {said(error)}") from error

    def put(self, file: Path, key: str) -> None:
        """Files of more than 8 MiB go in parts, which become one object at the end."""
        with self._asking(key) as client:
            client.upload_file(str(file), self.bucket, self._key(key))

    def write(self, key: str, data: bytes, content_type: str | None = None) -> None:
        kind = {"ContentType": content_type} if content_type else {}
        with self._asking(key) as client:
            client.put_object(Bucket=self.bucket, Key=self._key(key), Body=data, **kind)

    def read(self, key: str) -> bytes:
        with self._asking(key) as client:
            answer = client.get_object(Bucket=self.bucket, Key=self._key(key))
            return bytes(answer["Body"].read())

    def fetch(self, key: str, file: Path) -> None:
        """Copy an object to a local file."""
        with self._asking(key) as client:
            client.download_file(self.bucket, self._key(key), str(file))

    def read_range(self, key: str, start: int, length: int) -> bytes:
        with self._asking(key) as client:
            span = f"bytes={start}-{start + length - 1}"
            return bytes(client.get_object(Bucket=self.bucket, Key=self._key(key), Range=span)["Body"].read())

    def open(self, key: str) -> IO[bytes]:
        size = self.size(key)
        if size is None:
            raise StorageFailed(f"{self.url(key)}: no such object")
        return io.BufferedReader(_Ranges(self, key, size), 1 << 16)

    def size(self, key: str) -> int | None:
        with self._asking(key) as client:
            answer = _unless(client.head_object, "404", "NoSuchKey", Bucket=self.bucket, Key=self._key(key))
            return None if answer is None else int(answer["ContentLength"])

    def holds(self, folder: str, suffix: str = "") -> bool:
        pages = self._pages(folder, PaginationConfig={"PageSize": _LOOKED_AT})
        return any(file.key.endswith(suffix) for file in self._files(pages))

    def files(self, folder: str = "") -> Iterator[Stored]:
        return self._files(self._pages(folder))

    def _files(self, pages: Iterable[Any]) -> Iterator[Stored]:
        for page in pages:
            for each in page.get("Contents", ()):
                # A key that ends in / is another tool's mark of an empty folder.
                if not each["Key"].endswith("/"):
                    yield Stored(self._inside(each["Key"]), int(each["Size"]))

    def folders(self, folder: str = "") -> list[str]:
        pages = self._pages(folder, Delimiter="/")
        return [self._inside(each["Prefix"]).rstrip("/") for page in pages for each in page.get("CommonPrefixes", ())]

    def _pages(self, folder: str, **more: Any) -> Iterator[Any]:
        """Pages of a listing: S3 lists 1,000 keys at a time."""
        with self._asking(folder) as client:
            pages = client.get_paginator("list_objects_v2")
            yield from pages.paginate(Bucket=self.bucket, Prefix=self._folder(folder), **more)

    def delete(self, keys: Iterable[str]) -> None:
        waiting = [self._key(key) for key in keys]
        for at in range(0, len(waiting), _DELETED_AT_ONCE):
            batch = [{"Key": key} for key in waiting[at : at + _DELETED_AT_ONCE]]
            with self._asking("") as client:
                answer = client.delete_objects(Bucket=self.bucket, Delete={"Objects": batch, "Quiet": True})
            if failed := answer.get("Errors"):
                code, key = failed[0].get("Code", ""), self._inside(failed[0]["Key"])
                raise StorageFailed(f"{self.url(key)}: cannot be removed: {remedy(code) or code}")

    def create(self, key: str, data: bytes) -> str | None:
        """Write an object that must not be there yet (If-None-Match); its tag, None where it is there."""
        return self._put_if(key, data, IfNoneMatch="*")

    def exchange(self, key: str, data: bytes, etag: str) -> str | None:
        """Write an object that must still be the one with `etag` (If-Match); its new tag, None where it is not."""
        return self._put_if(key, data, IfMatch=etag)

    def _put_if(self, key: str, data: bytes, **condition: str) -> str | None:
        refusals = ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "412", "409")
        with self._asking(key) as client:
            named = {"Bucket": self.bucket, "Key": self._key(key), "Body": data, **condition}
            answer = _unless(client.put_object, *refusals, **named)
            return None if answer is None else str(answer["ETag"])

    def tagged(self, key: str) -> Tagged | None:
        """An object with its tag; None where there is none."""
        with self._asking(key) as client:
            answer = _unless(client.get_object, "NoSuchKey", "404", Bucket=self.bucket, Key=self._key(key))
            if answer is None:
                return None
            now = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
            age = (now - answer["LastModified"]).total_seconds()
            return Tagged(bytes(answer["Body"].read()), str(answer["ETag"]), age)


def _unless(ask: Any, *codes: str, **named: Any) -> Any:
    """The answer; None where S3 refuses with one of `codes`."""
    from botocore.exceptions import ClientError

    try:
        return ask(**named)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in codes:
            return None
        raise


class _Ranges(io.RawIOBase):
    """An object to seek and read in, each read one request for its range."""

    def __init__(self, bucket: Bucket, key: str, size: int) -> None:
        super().__init__()
        self._bucket, self._key, self._size, self._at = bucket, key, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size - self._at)
        if length <= 0:
            return 0
        found = self._bucket.read_range(self._key, self._at, length)
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)
