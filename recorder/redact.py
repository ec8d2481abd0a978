"""Secrets never reach the lake: not from a command line, an address or a map of settings.

Losing a harmless word is the accepted price: `eos_token=</s>` becomes `eos_token=***`. Only counts and ids of tokens
(`max_tokens=4096`, `pad_token_id=0`) stay, and words that merely contain one (`tokenizer`, `keypoints`, `key_dim`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

HIDDEN = "***"
_SHORTEST_SECRET_COUNT = 6  # shorter values of secret variables would be found inside ordinary words
_NO_SECRETS = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "COMET_EXPERIMENT_KEY"})  # folders, and the id of a run
_NAME = re.compile(
    r"token(?!i[zs])|secret|pass(?:w|phrase|$|[-_])|pwd|credential|auth(?!or)|bearer|signature|cookie|private"
    r"|key(?!point|board|frame|word|stroke|[-_]?(?:value|dim|size|len|head|proj|padding|mask))",
    re.IGNORECASE,
)
_COUNT_OF_TOKENS = re.compile(r"tokens|token[-_]?(?:ids?|type|count|num|len|size)", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?\d[\d_.]{0,11}(?:e[-+]?\d{1,2}|[kmgbt])?", re.IGNORECASE)
_END_OF_VALUE = re.compile(r"[\s&;,}\]\"']")
# Both begin at a word's start only: on long words a search from every letter would be quadratic.
_ASSIGNED = re.compile(r"""(?<![\w.+/-])([\w.+/-]+)["']?\s*[=:]\s*["']?""")
_OPTION_INSIDE = re.compile(r"(?<!\S)(-[\w.+/-]+)\s+(?=\S)")
# Up to the last @, since a password may hold a slash; a path with an @ in it is lost with it.
_USER_INFO = re.compile(r"(?<![a-z0-9+.-])([a-z0-9+.-]*://)\S*@", re.IGNORECASE)
_KNOWN_SHAPE = re.compile(
    r"\b(?:hf_|gh[pousr]_|github_pat_|glpat-|sk-|xox[abprs]-|AKIA|ASIA|AIza|eyJ)[\w.+/=-]{12,}|\bBearer\s+\S+"
)


def is_secret(name: str, value: str) -> bool:
    """Does an option, variable or setting of this name hold a secret? `max_tokens=4096` only counts something."""
    if name in _NO_SECRETS or _NAME.search(name) is None:
        return False
    return _NAME.search(_COUNT_OF_TOKENS.sub("", name)) is not None or _NUMBER.fullmatch(value) is None


def secret_values(environ: Mapping[str, str]) -> list[str]:
    """Values of secret variables, longest first, to be hidden wherever else they turn up."""
    found = {value for name, value in environ.items() if is_secret(name, value)}
    return sorted((value for value in found if len(value) >= _SHORTEST_SECRET_COUNT), key=len, reverse=True)


def hide(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without known secrets, passwords in addresses, and whatever follows the name of a secret."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    text = _KNOWN_SHAPE.sub(HIDDEN, _USER_INFO.sub(rf"\1{HIDDEN}@", text))
    for pattern in (_ASSIGNED, _OPTION_INSIDE):
        for match in pattern.finditer(text):
            if not is_secret(match[1], ""):
                continue
            end = _END_OF_VALUE.search(text, match.end())
            if is_secret(match[1], text[match.end() : end.start()] if end else text[match.end() :]):
                text = text[: match.end()] + HIDDEN
                break
    return text


def hide_map(pairs: Mapping[str, str], secrets: Iterable[str] = ()) -> dict[str, str]:
    """The same pairs, the values of secret names hidden."""
    known = list(secrets)
    return {
        hide(name, known): HIDDEN if is_secret(name, value) else hide(value, known) for name, value in pairs.items()
    }


def hide_command(arguments: Iterable[str], secrets: Iterable[str] = ()) -> list[str]:
    """A command line without secrets: what follows a secret option is hidden, up to the option after that."""
    known = list(secrets)
    shown: list[str] = []
    option, is_next = "", False
    for argument in arguments:
        is_option = argument.startswith("-")
        if option and (is_next or not is_option):
            # The value of a secret may begin with a dash, so the next argument never shows.
            shown.append(HIDDEN if is_secret(option, argument) else hide(argument, known))
        else:
            shown.append(hide(argument, known))
        if is_option or not option:
            name, _, value = argument.partition("=")
            option = name if is_option and not value and is_secret(name, "") else ""
        is_next = bool(is_option and option)
    return shown
