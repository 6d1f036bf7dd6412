"""Texts of the results page."""

INTRODUCTION = """\
# Nine models on five tasks

All networks have {weights} weights (± {tolerance:g} %). Each was trained for
{seconds:g} s of CPU time on one core. This includes compilation and the generation of
the data. They use the same optimizer (Adam, gradients clipped at norm 1, the learning
rate decreasing in the last 40 % of the time) and batches of {batch} new stories. Each
network was tested on the same {tested} stories. The figures are means over the seeds ±
their standard deviation, in per cent.

A story consists of facts, a question and one or more answers. A *guess* finds no fact
and compares no facts:

{tasks}

The words of the facts and the question form one sequence for the recurrent networks and
the Transformers. One step per answer follows, whose input is a word for the place of
the answer (first, second, …). MemN2N and MemNN have one slot per fact. They answer one
question at a time, so each answer of a story is a question of its own, which contains
the word for the place. MemNN is trained with the supporting facts of each answer, which
no other model sees; in the test it retrieves the facts itself.

The models:

{families}

The time is short, so the table shows what each model learns quickly. A model that does
not learn a task in this time may learn it with more time. The pages of the models have
results of longer training."""

HARDWARE = """\
The runs were made on a server with 16 cores (Intel Xeon), eleven at a time, each on a
core of its own. Eight runs of the NTM (sort, copy and path with seed 1, all tasks with
seed 2) were made on a machine with two cores that did other work, too. There, the NTM
made about 70 % of the steps in the same CPU time."""

USES = """\
At this size, and in this time:

- *MemN2N* is the model for lists of facts. It learned four tasks without an error, is
  the only one that learned *two hops*, and the only one that is better than a guess on
  *path*. It has an advantage, which only MemNN shares: each fact is a slot of its own,
  so it need not learn which words belong together.
- *LSTM with attention* is the best reader of sequences. Only it learned *recall* as one
  sequence. It attends to the story once per answer, and did not learn *two hops*.
- *Transformer* and *Hopfield* learned *sort* and *copy* without an error, and guess in
  the other tasks. *Recall* as a sequence needs two steps: to join each key with its
  value, and to find the key. They did not learn this in the time. A Hopfield layer
  makes three updates where attention makes one; in the same time, it made about 70 % of
  the steps.
- *Universal Transformer* makes a third of the Transformer's steps in the same time,
  since it applies its wide block up to four times. It learned no further task.
- *RNN* sorted 10 numbers and copied most of 16 symbols from its state alone. That is
  enough to copy or sort short sequences.
- *DNC* and *NTM* learned *sort*, and most of the answers of *copy*: 69 % of the stories
  as a whole, with large differences between seeds. They made a sixth to a third of the
  RNN's steps, since the external memory costs time at every step. It pays with longer
  training on paths, walks and block puzzles, where [an LSTM of the same size is far
  behind](dnc.md#shortest-path).
- *MemNN* learned *recall*. It sees a fact as a set of words, and knows which of two
  facts is older. So it cannot know which of two names of a fact comes first, and in
  *two hops* it gives no right answer. In *sort* and *copy*, it is close to a guess."""

TRIED = """\
Each learning rate was tried on recall, with a seed and {validated} validation stories
that the tables above do not contain. Each model then used its best rate for all tasks:
the one with the most right answers, and of several the one with the lowest training
loss. The table shows the right answers to the validation stories in per cent."""

EQUAL = """\
Six models did not learn recall with any rate: RNN, Transformer, Universal Transformer,
DNC, NTM and Hopfield. The differences between their rates are chance (the standard
error is 1.7), and so is the rate that they used.

MemN2N and MemNN reach a loss of 0 with every rate. They used the middle one. We chose
this rule after we had seen results with it, and for MemN2N also with 0.0005: on *path*
40.4 and 42.6 %, elsewhere the same. These runs are not in the file."""
