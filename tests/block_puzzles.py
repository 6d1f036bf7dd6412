"""Block puzzles by hand: what boards show, what moves do, what is said of them."""


def squares(board):
    """Where each block is: its row from the bottom, and its column."""
    return {
        block: (row, column)
        for column, stack in enumerate(board)
        for row, block in enumerate(stack)
    }


def is_true(board, constraint):
    """What a constraint says, from the squares alone."""
    first, relation, second = constraint
    (row, column), (other_row, other_column) = (
        squares(board)[b] for b in (first, second)
    )
    across = {"above": (1, 0), "below": (-1, 0), "left": (0, -1), "right": (0, 1)}
    return (row - other_row, column - other_column) == across[relation]


def after(board, action):
    """The board after a move, by hand; None where it cannot be made."""
    if action == 6:
        return board
    pairs = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    start, end = pairs[action]
    columns = [list(stack) for stack in board]
    if not columns[start] or len(columns[end]) == 3:
        return None
    columns[end].append(columns[start].pop())
    return tuple(map(tuple, columns))


def fewest_moves(board, goal):
    """By trying everything."""
    boards, seen, moves = {board}, {board}, 0
    while not any(all(is_true(b, c) for c in goal) for b in boards):
        boards = (
            {after(b, action) for b in boards for action in range(6)} - {None} - seen
        )
        seen |= boards
        moves += 1
    return moves


def seen_board(row):
    """The board that a step shows."""
    columns = [[], [], []]
    for square, code in enumerate(row[43:].reshape(9, 6)):
        assert code.sum() <= 1
        if code.any():
            assert len(columns[square % 3]) == square // 3  # rests on another
            columns[square % 3].append(int(code.argmax()) + 1)
    return tuple(map(tuple, columns))
