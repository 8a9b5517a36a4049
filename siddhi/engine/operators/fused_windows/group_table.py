"""The groups of stored rows. Ids are reused when no row of a group is left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.engine.columnar.hashing import mix
from siddhi.engine.columnar.state_tree import Codes, NotByKeyError, State
from siddhi.engine.jit.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.jit.kernels import kernel_part, seldom_part, state_kernel

ONE_GROUP, BY_CODE, BY_HASH = 0, 1, 2
"""How a row finds its group: there is only one; the code of its string key indexes `index`; or by hash."""
HOW, WIDTH, NULL_CODE, UNUSED, GROUP_STATE_SIZE = 0, 1, 2, 3, 4
"""The table's state: the mode, the number of parts of a key, the code of a null string, the number of unused ids."""
NO_ROOM, NO_NULL_CODE = -1, -2
_NOBODY = -1


@kernel_part
def group_of(keys, row, count, state, index, group_keys, unused):  # type: ignore[no-untyped-def]
    """Return the id of the group of `row`, which is added if new.

    Return `NO_ROOM` or `NO_NULL_CODE` when the table must be extended first. `keys` holds the parts of the keys of
    `count` rows one after the other.
    """
    group = np.int64(0)
    if state[HOW] == BY_CODE:
        code = keys[row] if keys[row] >= 0 else state[NULL_CODE]
        if code < 0:
            group = np.int64(NO_NULL_CODE)
        elif code >= len(index):
            group = np.int64(NO_ROOM)
        else:
            group = np.int64(index[code])
            if group < 0 and state[UNUSED] > 0:
                state[UNUSED] -= 1
                group = np.int64(unused[state[UNUSED]])
                index[code] = group
                group_keys[group, 0] = code
    elif state[HOW] == BY_HASH:
        hashed = np.int64(0)
        for part in range(state[WIDTH]):
            hashed = mix(hashed, keys[part * count + row])
        place = hashed & (len(index) - 1)
        group = np.int64(index[place])
        while group >= 0:
            same = True
            for part in range(state[WIDTH]):
                same = same and group_keys[group, part] == keys[part * count + row]
            if same:
                break
            place = (place + 1) & (len(index) - 1)
            group = np.int64(index[place])
        if group < 0 and state[UNUSED] > 0:
            state[UNUSED] -= 1
            group = np.int64(unused[state[UNUSED]])
            index[place] = group
            for part in range(state[WIDTH]):
                group_keys[group, part] = keys[part * count + row]
    return group


@kernel_part
def give_back(group, state, index, group_keys, unused):  # type: ignore[no-untyped-def]
    """Release `group`, which has no more rows: its id is the next to be assigned."""
    if state[HOW] == BY_CODE:
        index[group_keys[group, 0]] = _NOBODY
        unused[state[UNUSED]] = group
        state[UNUSED] += 1
    elif state[HOW] == BY_HASH:
        _take_out(group, index, group_keys)
        unused[state[UNUSED]] = group
        state[UNUSED] += 1


@seldom_part
def _home(group, index, group_keys):  # type: ignore[no-untyped-def]
    """Return the position where the search for `group` begins."""
    hashed = np.int64(0)
    for part in range(group_keys.shape[1]):
        hashed = mix(hashed, group_keys[group, part])
    return hashed & (len(index) - 1)


@seldom_part
def _take_out(group, index, group_keys):  # type: ignore[no-untyped-def]
    """Remove `group` from the hash table `index`, moving the following entries up."""
    mask = len(index) - 1
    gap = _home(group, index, group_keys)
    while index[gap] != group:
        gap = (gap + 1) & mask
    place = (gap + 1) & mask
    while index[place] >= 0:
        if (place - _home(index[place], index, group_keys)) & mask >= (place - gap) & mask:
            index[gap] = index[place]
            gap = place
        place = (place + 1) & mask
    index[gap] = _NOBODY


@state_kernel
def _place_groups(groups, group_keys, index):  # type: ignore[no-untyped-def]
    """Fill the empty hash table `index` with `groups`."""
    mask = len(index) - 1
    for number in range(len(groups)):
        place = _home(groups[number], index, group_keys)
        while index[place] >= 0:
            place = (place + 1) & mask
        index[place] = groups[number]


class GroupTable:
    """Ids of groups, from 0; `coded` marks the parts of the key that are string codes.

    Without parts there is one group.
    """

    def __init__(self, coded: Sequence[bool]) -> None:
        self.coded = tuple(coded)
        how = BY_HASH
        if not coded:
            how = ONE_GROUP
        elif len(coded) == 1 and coded[0]:
            how = BY_CODE
        self.state: Int64Array = np.array([how, len(coded), -1, 0], dtype=np.int64)
        self.keys: Int64Array = np.zeros((1 if how == ONE_GROUP else 0, max(len(coded), 1)), dtype=np.int64)
        self.index: AnyArray = np.full(16, _NOBODY, dtype=np.int32)
        self.unused: AnyArray = np.zeros(0, dtype=np.int32)

    @property
    def capacity(self) -> int:
        """The bound of ids."""
        return len(self.keys)

    @property
    def count(self) -> int:
        """The number of ids in use."""
        return len(self.keys) - int(self.state[UNUSED])

    def used(self) -> Int64Array:
        """Return the ids in use, ascending."""
        free = np.zeros(len(self.keys), dtype=np.bool_)
        free[self.unused[: self.state[UNUSED]]] = True
        return np.flatnonzero(~free)

    def make_room(self, held: BoolArray, codes: int) -> None:
        """Provide unused ids, at least as many as there are groups in use. Groups that are not `held` are removed.

        `codes` is the number of string codes.
        """
        used = self.used()
        kept = used[held[used]]
        capacity = len(self.keys)
        if 2 * len(kept) >= capacity:
            capacity = max(16, 2 * capacity)
        keys = np.zeros((capacity, self.keys.shape[1]), dtype=np.int64)
        keys[: len(self.keys)] = self.keys
        self._fill(kept, keys, codes)

    def _fill(self, kept: Int64Array, keys: Int64Array, codes: int) -> None:
        """Set the groups `kept`, whose keys are in their lines of `keys`; all other ids are unused."""
        self.keys = keys
        free = np.ones(len(keys), dtype=np.bool_)
        free[kept] = False
        unused = np.flatnonzero(free)[::-1]
        self.unused = np.zeros(len(keys), dtype=np.int32)
        self.unused[: len(unused)] = unused
        self.state[UNUSED] = len(unused)
        if self.state[HOW] == BY_CODE:
            size = len(self.index)
            self.index = np.full(size if size > codes else 2 * codes + 16, _NOBODY, dtype=np.int32)
            self.index[keys[kept, 0]] = kept
        elif self.state[HOW] == BY_HASH:
            self.index = np.full(1 << (2 * len(keys)).bit_length(), _NOBODY, dtype=np.int32)
            _place_groups(kept, keys, self.index)

    def keep(self, kept: Int64Array) -> None:
        """Keep only the groups `kept` (ascending), and number them from 0 in this order."""
        keys = np.zeros((max(len(kept), 16), self.keys.shape[1]), dtype=np.int64)
        keys[: len(kept)] = self.keys[kept]
        self._fill(np.arange(len(kept)), keys, int(keys.max(initial=0)) + 1)

    def joined(self, states: Sequence[State]) -> State:
        """Return one state with the groups of all `states`, each numbered from 0 without gaps, one after the other."""
        arrays = [[part.array if isinstance(part, Codes) else part for part in parts] for _, _, parts, _ in states]
        whole = [np.concatenate(parts) for parts in zip(*arrays, strict=True)]
        count = len(whole[0])
        if len(np.unique(np.column_stack(whole), axis=0)) < count:
            raise NotByKeyError
        null_code = max(int(code.array[0]) for _, _, _, code in states)
        return [
            np.arange(count),
            max(count, 16),
            [Codes(part) if coded else part for part, coded in zip(whole, self.coded, strict=True)],
            Codes(np.array([null_code])),
        ]

    def snapshot(self) -> State:
        used = self.used()
        parts = self.keys[used].T.copy()
        return [
            used,
            len(self.keys),
            [Codes(part) if coded else part for part, coded in zip(parts, self.coded, strict=False)],
            Codes(self.state[NULL_CODE : NULL_CODE + 1].copy()),
        ]

    def restore(self, state: State) -> None:
        used, capacity, parts, null_code = state
        if self.state[HOW] == ONE_GROUP:
            return
        keys = np.zeros((capacity, len(parts)), dtype=np.int64)
        for place, part in enumerate(parts):
            keys[used, place] = part.array if isinstance(part, Codes) else part
        self.state[NULL_CODE] = null_code.array[0]
        self._fill(used, keys, int(keys.max(initial=0)) + 1)
