"""Addresses as people write them: what a server's looks like, and what may have been meant by one that is none."""

from __future__ import annotations

import os
import re
from urllib.parse import SplitResult, urlsplit

from headgate.core.errors import InvalidInput

SERVER = ("http", "https")
_HOST_AND_PORT = re.compile(r"(?:localhost|[\w-]+(?:\.[\w-]+)*|\[[0-9a-fA-F:]+\]):\d{1,5}")
_ONE_SLASH = re.compile(r"(https?|memory|sqlite|postgres(?:ql)?|unix):/?(?!/)")


def plain_address(address: object, field: str = "address") -> str:
    """A path or an address with its scheme in lower case; what cannot be one is refused with what was meant."""
    text = os.fspath(address) if isinstance(address, os.PathLike) else address
    if not isinstance(text, str):
        raise InvalidInput(f"must be text or a path, not {type(text).__name__}", field=field)
    text = text.strip()
    if not text:
        raise InvalidInput("must not be empty", field=field)
    if not text.isprintable():
        raise InvalidInput("must be printable: no control characters", field=field)
    scheme, separator, rest = text.partition("://")
    text = f"{scheme.lower()}://{rest}" if separator else text
    if separator and scheme.lower() in SERVER:
        server_address(text, field)
    elif not separator and not isinstance(address, os.PathLike):
        _refuse_lookalikes(text, field)
    if scheme.lower() == "memory" and rest:
        raise InvalidInput(f"{text!r}: memory:// takes no name, each app has its own", field=field)
    return text


def _refuse_lookalikes(text: str, field: str) -> None:
    """A file of that name would be made without a word where a server or a scheme was meant."""
    if match := _ONE_SLASH.match(text):
        raise InvalidInput(f"{text!r} is no address; did you mean '{match[1]}://{text[match.end() :]}'?", field=field)
    if _HOST_AND_PORT.fullmatch(text):
        raise InvalidInput(f"{text!r} is no address; did you mean 'http://{text}'?", field=field)


def server_address(url: str, field: str = "address") -> SplitResult:
    """The parts of a server's address, `http://host:port` with or without a path."""
    if "://" not in url:
        _refuse_lookalikes(url, field)
    try:
        parts = urlsplit(url)
        known = parts.scheme in SERVER and parts.hostname and parts.port != 0
    except ValueError as error:
        raise InvalidInput(f"{url!r} is not the address of a server: {error}", field=field) from None
    if not known or re.search(r"\s", url) or not url.isprintable():
        raise InvalidInput(f"{url!r} is not the address of a server, such as http://127.0.0.1:8420", field=field)
    if parts.username is not None:
        raise InvalidInput("must not carry a name or a password; the token is said apart from it", field=field)
    if parts.query or parts.fragment:
        raise InvalidInput(
            "must end before '?' and '#'; the token is said apart from it, as token or HEADGATE_TOKEN", field=field
        )
    return parts
