# SPDX-License-Identifier: MIT
"""Questions to a server by HTTP, answers in JSON, and errors that say what is missing."""

import http.client
import json
import urllib.error
import urllib.request


class ServerError(Exception):
    """A server that does not answer, or an answer that lacks a field."""


class Server:
    """A server at a URL such as http://127.0.0.1:8080. `key`: sent as a bearer token, if there is one."""

    def __init__(self, url, key=None, timeout=120.0):
        self.url, self.timeout = url.rstrip("/"), timeout
        self.headers = {"Content-Type": "application/json"}
        if key:
            self.headers["Authorization"] = f"Bearer {key}"

    def get(self, path):
        return self._ask(path, None)

    def post(self, path, body):
        return self._ask(path, json.dumps(body).encode())

    def _ask(self, path, data):
        url = self.url + path
        try:
            request = urllib.request.Request(url, data, self.headers)
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                read = json.load(answer)
        except urllib.error.HTTPError as error:
            words = " ".join(error.read().decode(errors="replace").split())[:300]
            raise ServerError(f"{url}: status {error.code}: {words}") from error
        except (OSError, http.client.HTTPException) as error:  # a URLError is an OSError
            raise ServerError(f"{url}: no answer ({getattr(error, 'reason', error)}). Does the server run there?") from error
        except ValueError as error:  # no URL, or no JSON
            raise ServerError(f"{url}: {error}") from error
        if not isinstance(read, dict):
            raise ServerError(f"{url}: the answer is no JSON object")
        return read


def field(answer, *path, of="the answer"):
    """answer[path[0]][path[1]]..., or an error that names the field which is missing."""
    found = answer
    for place, name in enumerate(path):
        try:
            found = found[name]
        except (KeyError, IndexError, TypeError):
            found = None
        if found is None:
            whole = "".join(f"[{n}]" if isinstance(n, int) else f".{n}" for n in path[: place + 1]).lstrip(".")
            raise ServerError(f"{of} has no field {whole}")
    return found


def ids_in(value, name, of):
    """A list of token ids, or an error that names the field: "17" is another token than 17, and would be impossible."""
    if not isinstance(value, list) or not all(type(i) is int and i >= 0 for i in value):
        raise ServerError(f"{of}: the field {name} does not hold token ids (numbers)")
    return value


def object_in(value, of):
    """A JSON object, or an error that says what stands in its place."""
    if not isinstance(value, dict):
        raise ServerError(f"{of} is {'null' if value is None else 'no object'}, where a JSON object is wanted")
    return value


def number_in(value, name, of):
    """A number, or an error that names the field."""
    if type(value) not in (int, float):
        raise ServerError(f"{of}: the field {name} is no number")
    return value
