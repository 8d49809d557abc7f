"""What lies where in the memory by which C++ knows our objects? The layout that machine code and Python agree on.

A cell is eight words: function table (for objects that C++ looks into), link to the next dead cell, immortality,
column, four facts, which are asked at every launch and never change.

A column is an array's buffers. Its header is a cell whose facts are: how many of its buffers and events C++ holds
(and one more while it is watched), its state, the list of those who wait for it, and how many buffers it has. Each
buffer is two cells: its own, with device, memory, whether it is deleted, and its position; and that of its event, with
the callback that waits for it, its argument, and whether the event is given out. The header dies with the last of them.
"""

CELL_WORDS = 8
FUNCTIONS, LINK, IMMORTAL, COLUMN, FIRST_FACT = 0, 1, 2, 3, 4
HELD, STATE, WAITERS, COUNT = range(FIRST_FACT, CELL_WORDS)
"""Facts of a column's header."""
DEVICE, MEMORY, DELETED, POSITION = range(FIRST_FACT, CELL_WORDS)
"""Facts of a buffer's cell; that of its event follows, with EVENT in the place of a function table."""
CALLBACK, ARGUMENT = FIRST_FACT, FIRST_FACT + 1
"""Facts of an event's cell."""
EVENT = 1
BUFFER_WORDS = 2 * CELL_WORDS
PENDING, READY, FAILED, WATCHED = range(4)
"""States of a column. A watched one is pending, and will be told to those who wait (``tell``)."""
USER_DATA_WORDS = 16
"""Of a memory's table of keys and values, which its third fact points to; a key of 0 ends it."""
