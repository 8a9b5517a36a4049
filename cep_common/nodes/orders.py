"""How long an order to a node may wait until the node takes it. Pure.

A node that was away, stopped or cut off must not end because of what an administrator wanted days ago.
"""

from __future__ import annotations

import msgspec

from cep_common.nodes.files import NodeOrder

ORDER_VALID_S = 30
"""How long an order is valid. A node that runs accepts it within a second."""


class StoredOrder(msgspec.Struct, frozen=True):
    """An order in the database: what a node is to do, since when by the database's clock, and who was active then.

    `token` is that of the lease under which the active node gave the order.
    """

    action: NodeOrder
    given_s: int
    token: int


def is_valid(order: StoredOrder, token: int, now_s: int) -> bool:
    """Return whether the order may be carried out at `now_s` of the database's clock while the lease has `token`.

    It may not after a change of the active node: the node that was to restart as the passive one may be the only one
    with all events now.
    """
    # In both directions: the clock of a database that was moved to another host may have gone back.
    return order.token == token and abs(now_s - order.given_s) <= ORDER_VALID_S
