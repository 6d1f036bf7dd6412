"""The texts of the results page of the block puzzles."""

INTRODUCTION = """# Block puzzles by reinforcement

A network reads several goals, each a letter with up to six constraints on the blocks of
a board, and then the letter of one goal. It must move the blocks until all constraints
of this goal are satisfied, and then pass ("Mini-SHRDLU", Graves et al. 2016). The
network is trained by reinforcement only. It never sees a solution.

- *met*: all constraints of the requested goal are satisfied on the last board (the
  paper's *success*; *incomplete* is the rest)
- *fewest moves*: the goal is met in the minimum number of moves (the paper's *perfect*)
- *constraints satisfied*: the mean share of satisfied constraints on the last board

Shares are in per cent, for the most probable actions, with at most six moves more than
the minimum. The test has 100 puzzles for each pair of 1 to 4 goals in memory and 1 to 6
constraints per goal. All puzzles have six blocks, and a goal's constraints are facts of
a board that is 1 to 4 moves away and are not true on the first board. Six new facts
are rare on nearer boards, so goals with more constraints need more moves. The network
numbers the blocks by their places (below), so that puzzles which differ only in the
numbers of the blocks are the same puzzle. Of all puzzles in this form, the test has a
tenth, and no training puzzle has the first board and the requested constraints of one
of them."""

DISTINCT = """Of {1} test puzzles with 1, 2, … constraints, up to {0} differ in their
first board and requested constraints. The other goals in memory differ more often. The
figures for six constraints thus rest on few puzzles."""

PICTURE = (
    """![The boards of a puzzle, with what the memory holds and reads](blocks.png)"""
)

TABLES = """*random* takes each of the seven actions with equal probability, so it often
passes early. *random, stops at the goal* makes random moves and passes as soon as the
goal is met, which it could not know without the goal. The LSTM has as many weights as
the DNC or up to 1 % more, the same embeddings, head, lessons and settings, and the same
CPU time on one of two shared cores. *CPU* includes compilation.

## How the networks are trained

An actor and a critic share one trunk and have one head. They are trained with proximal
policy optimization (Schulman et al. 2017) and generalized advantage estimates
(Schulman et al. 2015). Every step is rewarded with the change of the share of satisfied
constraints, minus 0.02 per move and another 0.05 for an impossible move. At the end,
there is a reward of 1 if the goal is met and −0.5 otherwise. The paper uses REINFORCE
with the advantages of a separate value network. It rewards each step with the number of
satisfied constraints, and a pass does not end an episode.

The constraints of a puzzle are read once. Eight episodes then start from the state of
the memory, and each goal is requested in at least two of them. Only these steps need
sampling.

The DNC has 24 slots of width 64, two read heads, temporal links, and a feedforward
controller (the paper uses feedforward controllers in Extended Data Fig. 1 and 4), so it
remembers only what is in its memory. The head is a perceptron that reads the hidden
units of the controller, the read vectors and the board.

Three things differ from the paper, and were not tried apart:

- The network numbers the blocks by their places on the first board. All boards of the
  same shape then start equal, so the network need not learn each of the 720 orders of
  six blocks. Without memory, this makes no goal easier to find.
- The letter of the question is part of the input at each step of the answer, as if the
  network repeated it to itself.
- The initial weights write each constraint to a free slot and look up slots by their
  letter. Everything else is random, and all weights are trained. This is not possible
  for an LSTM."""

PAPER = """## The paper's figures

In Extended Data Fig. 3 of the paper, with 10 goals in memory, the share of puzzles that
are solved in the minimum number of moves depends on the minimum number of moves (1, 2,
3, 4) and the number of constraints (1 to 6). For the DNC it is 77, 94, 95, 95, 93, 94;
65, 79, 93, 97, 97, 97; 51, 63, 78, 85, 92, 94; 42, 46, 58, 76, 81, 85. For the LSTM,
it is between 12 and 52. The DNC of the paper has two LSTM layers of 250 units and 32
slots of width 100. Our tests have fewer goals, and our number of moves is the distance
of the described board, so the figures cannot be compared cell by cell."""
