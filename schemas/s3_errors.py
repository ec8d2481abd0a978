"""What S3 refuses, in words, with the remedy."""

from __future__ import annotations

_REMEDIES = {
    "no such bucket; create it, or give another one": ("NoSuchBucket",),
    "the credentials are refused; check the key and secret of AWS_ACCESS_KEY_ID or of the profile": (
        "InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthFailure", "InvalidClientTokenId", "XAdminUserNotFound",
    ),
    "the credentials have expired; renew them and do it again": (
        "ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired", "InvalidToken",
    ),
    "access is denied; the credentials need the rights of conf/iam/ here": ("AccessDenied", "AllAccessDisabled", "403"),
    "the bucket is in another region; set region in [s3]": ("PermanentRedirect", "AuthorizationHeaderMalformed"),
    "this machine's clock is wrong; set it": ("RequestTimeTooSkewed",),
}  # fmt: skip


def remedy(code: str) -> str | None:
    """What an error code of S3 means for the user; None for one that we do not know."""
    return next((text for text, codes in _REMEDIES.items() if code in codes), None)


def said(error: Exception) -> str:
    """What a client's error means, with the remedy."""
    from botocore import exceptions as known

    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, (known.ClientError, known.BotoCoreError)):
        cause = cause.__context__  # boto3's transfers wrap what happened
    if isinstance(cause, known.ClientError):
        code = str(cause.response.get("Error", {}).get("Code", ""))
        text = remedy(code)
        return f"{text} ({code})" if text else str(cause)
    if isinstance(cause, (known.NoCredentialsError, known.PartialCredentialsError)):
        return "no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or a role"
    if isinstance(cause, (known.EndpointConnectionError, known.ConnectTimeoutError, known.ReadTimeoutError,
                          known.ConnectionClosedError)):  # fmt: skip
        return f"the server does not answer ({cause}); check the network and endpoint_url, and do it again"
    return str(error)
