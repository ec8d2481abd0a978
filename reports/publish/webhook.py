"""A POST of JSON for each job, to whatever the settings name. docs/publication.md describes the body."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from dataclasses import asdict
from typing import IO, Any

from tracelake.reports.publish.model import BadTargetError, Delivery, DeliveryFailedError, digest
from tracelake.reports.publish.settings import WebhookOptions

SCHEMA = "tracelake.publication/1"
_ABOUT = (
    "job_id", "attempt", "state", "status", "is_running", "project", "user", "family", "cloud_job_id", "ids"
)  # fmt: skip


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET, and take the token to another server."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


class Webhook:
    name = "webhook"
    lacking = ""
    takes_page = False

    def __init__(self, options: WebhookOptions) -> None:
        self.place = options.url or _variable(options.url_env, "url_env")
        if not self.place.startswith(("http://", "https://")):
            raise BadTargetError(f"[publish.webhook]: {options.url_env} holds no http:// or https:// address")
        self._token = _variable(options.token_env, "token_env") if options.token_env else ""
        self._timeout_s = options.timeout_s
        self._opener = urllib.request.build_opener(_NoRedirect)

    def reference(self, delivery: Delivery) -> str | None:
        return delivery.job_id

    def send(self, delivery: Delivery, reference: str) -> None:
        headers = {"Content-Type": "application/json", "Idempotency-Key": digest(delivery, self, reference)}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            data = json.dumps(body(delivery)).encode()
            request = urllib.request.Request(self.place, data=data, headers=headers, method="POST")
            with self._opener.open(request, timeout=self._timeout_s):
                pass
        except urllib.error.HTTPError as error:
            # Its text may repeat the address, or what was sent; a server that is overloaded tells so by 429 and 5xx.
            with error:
                raise DeliveryFailedError(f"the server answered {error.code}") from None
        except urllib.error.URLError as error:
            raise DeliveryFailedError(f"no answer: {error.reason}", is_down=True) from error
        except (TimeoutError, OSError, http.client.HTTPException, ValueError) as error:
            raise DeliveryFailedError(f"no answer: {type(error).__name__}", is_down=True) from error


def body(delivery: Delivery) -> dict[str, Any]:
    """What is sent."""
    return {
        "schema": SCHEMA,
        "job": {name: getattr(delivery, name) for name in _ABOUT},
        "report_url": delivery.page_url,
        "fleet_url": delivery.fleet_url,
        "figures": dict(delivery.figures),
        "findings": [asdict(each) for each in delivery.findings],
    }


def _variable(name: str, setting: str) -> str:
    if value := os.environ.get(name, "").strip():
        return value
    raise BadTargetError(f"[publish.webhook]: {setting} names {name}, which is not in the environment; set it")
