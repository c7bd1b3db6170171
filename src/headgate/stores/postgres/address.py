"""Where the database is: a libpq URL plus our own option `schema`, and a name for messages without its secrets."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from headgate.ports import StoreUnavailable

DEFAULT_SCHEMA: Final = "headgate"
_SCHEMES: Final = ("postgresql", "postgres")
_SECRETS: Final = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
_ENCODE: Final = "special characters in a user or password must be percent-encoded"
_SCHEMA: Final = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")


class Address(NamedTuple):
    """A database and the schema in it that holds the tables."""

    options: dict[str, str]
    """For libpq, secrets included: never print it."""
    schema: str
    name: str
    """For messages."""

    def redact(self, text: object) -> str:
        """One line of a foreign message, without anything secret that it may quote."""
        line = " ".join(str(text).split())
        for secret in filter(None, map(self.options.get, _SECRETS)):
            line = line.replace(secret, "***")
        return line


def parse_address(url: str) -> Address:
    """Read a URL, or say in one line what is wrong with it."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise StoreUnavailable(f"the database URL is not valid: {error}") from None
    if parts.scheme not in _SCHEMES or not url.startswith(f"{parts.scheme}://"):
        raise StoreUnavailable("the database URL is not valid: it must begin with postgresql://")
    query = parse_qsl(parts.query, keep_blank_values=True)
    schema = next((value for key, value in reversed(query) if key == "schema"), DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema):
        raise StoreUnavailable(
            "the database URL is not valid: schema must be lower-case letters, digits and _, and not begin with pg_"
        )
    rest = urlencode([pair for pair in query if pair[0] != "schema"], quote_via=quote)
    options = _options(url, urlunsplit(parts._replace(query=rest)))
    return Address(options, schema, _name(options, schema))


def _options(url: str, for_libpq: str) -> dict[str, str]:
    try:
        options = {key: str(value) for key, value in conninfo_to_dict(for_libpq).items() if value is not None}
    except psycopg.ProgrammingError as error:
        # libpq quotes the part that it does not understand, and that may be a piece of the password.
        complaint = _ENCODE if "@" in url or "password" in url else " ".join(str(error).split())
        raise StoreUnavailable(f"the database URL is not valid: {complaint}") from None
    # A password with an unescaped character is read as something else, and would be printed as such.
    ports = options.get("port", "0").split(",")
    if not all(map(str.isdigit, ports)) or "@" in options.get("host", "") + options.get("dbname", ""):
        raise StoreUnavailable(f"the database URL is not valid: no host and port can be read from it; {_ENCODE}")
    return options


def _name(options: dict[str, str], schema: str) -> str:
    user = f"{options['user']}@" if "user" in options else ""
    port = f":{options['port']}" if "port" in options else ""
    suffix = "" if schema == DEFAULT_SCHEMA else f"?schema={schema}"
    return f"postgresql://{user}{options.get('host', '')}{port}/{options.get('dbname', '')}{suffix}"
