"""Expiry of orders to nodes. Pure.

A node that was stopped or disconnected must not restart or stop because of an order that was given days ago.
"""

from __future__ import annotations

import msgspec

from cep_common.nodes.files import NodeOrder

ORDER_VALID_S = 30
"""How long an order is valid. A node that runs accepts it within a second."""


class StoredOrder(msgspec.Struct, frozen=True):
    """An order in the database: what a node is to do, and when it was given by the database's clock.

    `token` is that of the lease under which the active node gave the order.
    """

    action: NodeOrder
    given_s: int
    token: int


def is_valid(order: StoredOrder, token: int, now_s: int) -> bool:
    """Return whether the order is valid at `now_s` of the database's clock while the lease has `token`.

    It is not valid after a change of the active node: a node that was ordered to restart as the passive one may now be
    the only one with all events.
    """
    # abs: the clock of a database that was moved to another host may have gone back
    return order.token == token and abs(now_s - order.given_s) <= ORDER_VALID_S
