# SPDX-License-Identifier: MIT
"""A text that a server wrote."""

import typing


class Sample(typing.NamedTuple):
    tokens: list  # ids, with the end token if there is one
    ended: bool  # by the end token, not by the limit
    speculated: bool | None  # whether tokens were drafted, if the server says so
