"""Every threshold of the engine: where it switches between two algorithms, and how much room it allocates.

None of these numbers changes a result. Each is near the point where both algorithms cost the same in the benchmarks of
this repository; sizes are given in bytes where the number follows from the caches of a core. Measure with
`benchmarks/engine.py` and `benchmarks/latency.py` before and after a change. Bounds on an app, which are errors when
exceeded, are in `limits`.

Names indicate the kind: MAX_… and MIN_… switch between two algorithms, …_PREFETCH_… is a distance in rows, INITIAL_… is
the first size of an array that doubles when it is full.
"""

from __future__ import annotations

# Memory of the processor

CACHE_LINE_BYTES = 64
"""Bytes that the processor loads at a time, and the alignment of buffers that Arrow recommends."""
CACHE_LINE_NUMBERS = CACHE_LINE_BYTES // 8
"""Numbers of 8 bytes in a cache line."""
CLOCK_PREFETCH_ROWS = 256
"""Rows. The scan of timestamps does almost nothing per row, so it requests memory 2 KB ahead."""
KEY_INDEX_PREFETCH_ROWS = 32
"""Rows. An entry of a large key table arrives from memory in the time that 32 rows take."""
MAX_CACHED_KEY_CODES = 65_536
"""Codes. A key table of 4-byte entries up to this size (256 KB) stays in the level 2 cache, and is not prefetched."""
SLIDING_PREFETCH_ROWS = 16
"""Rows. How far ahead the sliding window requests the group of a key."""
TUMBLING_PREFETCH_ROWS = 64
"""Rows. The tumbling window requests the values of this many rows at a time: eight cache lines for each attribute."""
CHAIN_PREFETCH_MIN_LISTS = 16_384
"""Lists of partial matches, of 32 bytes each. Fewer (512 KB) stay in the cache, where prefetching costs time."""
CHAIN_LISTS_PER_CACHE_LINE = 2
"""Lists of partial matches, of 32 bytes each, in a cache line."""
CHAIN_LIST_PREFETCH_EVENTS = 32
"""Events. A pattern requests the lists of a partition this far ahead …"""
CHAIN_PARTIAL_PREFETCH_EVENTS = 16
"""… and, when these have arrived, the partial matches at their heads this far ahead."""
MAX_CACHED_STRING_SLOTS = 4_096
"""Slots of 16 bytes. A string table up to this size (64 KB) is searched row by row."""
STRING_LOOKUP_BLOCK_ROWS = 32
"""Rows. In a larger table the slots of this many strings are requested together, so that their latencies overlap."""

# From record batches to columns and back

MAX_COPIED_READ_ROWS = 512
"""Rows. Smaller batches are copied in one call; exporting the columns of larger ones costs less than copying them."""
READ_BUFFER_NUMBERS = 2_048
"""Numbers. Copies of several batches share a buffer of 16 KB; a single column in use keeps all of it in memory."""
EXPORTED_COLUMNS_PER_READ_COLUMN = 8
"""Columns. Exporting a whole batch pays when each further column that is read stands for at most this many of it."""
STRING_DEMAND_PROBE_ROWS = 256
"""Rows during which the engine counts how many strings behind a filter are really used."""
STRING_DEMAND_HOLD_ROWS = 16_384
"""Rows for which the outcome of a probe holds."""
STRING_DEMAND_ONE_IN = 4
"""Strings are read with their rows if one row in this many uses them: reading one later costs several times as much."""
MAX_REWRITTEN_BATCH_ROWS = 2_048
"""Rows. Up to this size it costs less to write a result batch again than to let Arrow wrap each of its columns."""
MAX_SPLIT_KERNEL_ROWS = 8_192
"""Rows. Arrow splits larger batches by owner faster than the kernel does."""
MAX_DIRECTLY_HASHED_BYTES = 65_536
"""Bytes of text in a column. For more text it is faster to find equal values first and to hash each value once."""

# Fast path

MAX_PLAIN_ROUTE_ROWS = 8_192
"""Rows. Up to this size one loop copies the rows that pass a filter from record batch to record batch."""
MAX_UNFILTERED_PLAIN_ROUTE_ROWS = 2_048
"""Rows, for queries without a filter: copying more costs more than noting the positions of all rows."""
MAX_PLAIN_ROUTE_VALUES = 32_768
"""Values (rows times columns) that the plain route copies for one query."""
MAX_SMALL_BATCH_ROWS = 256
"""Rows of a batch on the routes for joins, patterns and sliding windows; their work memory is allocated once."""
MAX_TABLE_PATH_ROWS = 65_536
"""Rows of a batch that goes event by event through all queries of a table. Larger ones have not been measured."""
MAX_EXPORTED_COLUMNS = 256
"""Columns times queries of a stream. Each query exports all columns; beyond this that costs more than it saves."""

# Explaining plans

EXPLAIN_BATCH_ROWS = 4_096
"""Rows. `explain` gives the cost of an event in batches of this size."""

# Strings

MIN_STRING_SLOTS = 2_048
"""Slots. A sparse table finds nearly all strings in the first slot; a mispredicted branch costs as much as a search."""
MAX_SINGLE_LOOKUPS = 4
"""Strings. More are looked up in one call."""
STRINGS_PER_MERGE = 65_536
"""Strings that move from one pool to another at a time, which bounds the memory for their text."""
MAX_UNMEASURED_STRING_BYTES = 65_536
"""Bytes. When rows of a smaller string array are taken, room for all its text is made without measuring the rows."""
MIN_NEW_STRINGS = 65_536
"""Strings. Fewer new ones are not worth compacting the pool."""
MIN_NEW_STRING_BYTES = 16 * 1_048_576
"""Bytes of new strings. Fewer are not worth compacting the pool."""
STATE_BYTES_PER_NEW_STRING = 64
"""Bytes. Compacting visits the whole state; one new string pays for this many bytes of it."""
MAX_VECTORIZED_JAVA_HASH_CHARACTERS = 64
"""Characters. Longer texts are hashed one by one, since the vectorized hash pads all texts to the longest."""
MAX_UNKEPT_STRINGS = 512
"""Strings. If a pattern keeps fewer of a batch by more than this, only those are looked up in the pool."""

# State

STATE_SIZE_SAMPLE_ITEMS = 64
"""Items of a list or dict that are measured to estimate its size."""
MIN_DETACHED_ARRAY_BYTES = 4_096
"""Bytes. Larger arrays are written after the tree of a snapshot, which copies them once instead of twice."""
MAX_CACHED_INSTANCE_STATE_BYTES = 4_096
"""Bytes of the state of a partition that are kept as written; keeping larger ones would double the memory."""
MIN_FORGOTTEN_NUMBERS = 4_096
"""Numbers of partition keys. Fewer unused ones are not worth a search."""
MIN_FORGOTTEN_OWNERS = 1_024
"""Keys of a window. Fewer are not searched for keys without rows."""
MIN_FORGOTTEN_GROUPS = 1_024
"""Groups of a query. Fewer are not searched for empty ones."""
MAX_UNUSED_NODES = 1_024
"""List nodes of aggregates. Fewer unused ones are no reason to renumber the others."""

# Windows

INITIAL_HEAP_ROWS = 64
"""Rows for which a window that orders rows by time first makes room."""
MAX_EXPIRED_ROWS = 1_024
"""Rows that left a window and still occupy its store, in addition to as many as the window holds."""
BATCH_END_BLOCK_ROWS = 256
"""Rows. `externalTimeBatch` compares the newest time of a block first: usually no row of it ends a batch."""
INITIAL_RING_ROWS = 64
"""Rows for which the ring buffer of a fused window always has room."""
INITIAL_MOVES = 128
"""Moves (a row enters or leaves a group) that a fused window plans before its aggregates follow."""
MAX_MOVES = 16_384
"""Moves. 128 KB of them stay in the level 2 cache between planning and aggregation."""
KNOWN_GROUPS_MIN_ROWS = 8
"""Rows. If the loop for existing groups handled fewer at once, most rows open a group of their own …"""
KNOWN_GROUPS_PAUSE_ROWS = 64
"""… and this many rows take the general loop before the other is tried again."""

# Patterns

MAX_NULL_MASK_COLUMNS = 62
"""Columns. Each has one bit in the null mask of an event, a signed number of 64 bits."""
INITIAL_EVENT_ROOM = 256
"""Events for which a pattern always has room."""
INITIAL_CHAIN_ROOM = 64
"""Partial matches for which a chain pattern first makes room."""
MACHINE_MIN_ROOM = 128
"""Entries of each kind by which the memory of a pattern machine grows at least."""
MACHINE_ALWAYS_GROWS_ROOM = 8_192
"""Entries. A smaller memory doubles whenever it is full, so that a busy pattern is not searched all the time."""

# Tables and joins

MAX_PAIRS_AT_ONCE = 1 << 18
"""Pairs of an event and a row that are compared at a time (2 MB a column) when no index narrows them down."""
MIN_RANGE_PROBES = 16
"""Events. For so many that set bounds for an attribute, sorting the rows by it costs less than comparing all pairs."""
MIN_INDEXED_PAIRS = 1 << 12
"""Pairs. From here on building an index over the rows costs less than comparing all pairs."""
EVENTS_PER_SHARED_INDEX = 512
"""Events that share an index over a moving window; together they see few more rows than one of them does."""
MAX_PREPARED_WRITES = 64
"""Plans of writes that are cached with a table; on-demand queries bring plans of their own."""
ROUND_MIN_ROWS = 3
"""Rows. A round over a batch costs about as much as this many events that go through the app one by one …"""
ROUND_PAUSE_STEPS = 256
"""… so that after a step that took more rounds than it pays for, so many steps go event by event."""

# Expressions

MAX_PROGRAM_ROWS = 512
"""Rows. Up to this many all operations of an expression run in one call; numpy needs less time for each further row."""
MAX_PROGRAM_LINES = 64
"""Instructions of an expression that runs in one call, which bounds the room for their results."""
MIN_PROGRAM_OPERATIONS = 2
"""Operations. A single one costs no more in numpy."""

# Functions

MAX_SINGLE_CALLS = 16
"""Rows. Up to this many a call for each row costs less than finding the distinct arguments."""
MAX_REMEMBERED_RESULTS = 16_384
"""Results of a function that are cached for equal arguments."""
MAX_RESULTS_BY_CODE = 65_536
"""Strings of an app. Up to so many, the results of a function of one text are found by its code, in an array."""

MIN_ROWS_PER_RUN = 4
"""Rows between two results of a group. With fewer, aggregators that are called in Python get them one by one."""
INITIAL_SORTED_ROOM = 4
"""Values for which a group of an aggregator that sorts them first has room."""
FREE_SORTED_ROOM = 64
"""Values for which there always is room behind those of all groups."""

# Many queries with the same shape

MIN_SHARED_QUERIES = 8
"""Queries. Fewer are evaluated one by one; more share an index of their conditions."""
INITIAL_RULE_ROWS = 256
"""Rows for which the index of conditions first makes room."""
INITIAL_RULE_PAIRS = 16_384
"""Pairs of a row and a query that it satisfies for which the index of conditions first makes room."""
