"""Texts of the results page."""

INTRODUCTION = """\
# Nine models on five tasks

All networks have {weights} weights (± {tolerance:g} %). Each was trained for
{seconds:g} s of CPU time on one core. This includes compilation and the generation of
the data. They use the same optimizer (Adam, gradients clipped at norm 1, the learning
rate decreasing in the last 40 % of the time) and batches of {batch} new stories. Each
network was tested on the same {tested} stories. The figures are means over the seeds ±
their standard deviation, in per cent.

A story consists of facts, a question and one or more answers:

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

USES = """\
At this size, and in this time:

- *MemN2N* is the model for lists of facts. It follows two facts to an answer, and is
  the only one that learned *two hops*. It has an advantage: each fact is a slot of its
  own, so it need not learn which words belong together.
- *LSTM with attention* is the best reader of sequences. Only it learned *recall* as one
  sequence. It looks at the story once per answer, and did not learn *two hops*.
- *Transformer* and *Hopfield* learned *sort* and *copy* without an error. *Recall* as a
  sequence needs two steps, first to join a key with its value and then to find it; they
  did not learn this in the time. A Hopfield layer makes three updates where attention
  makes one. It learned the same, with about two thirds of the steps.
- *Universal Transformer* makes a third of the Transformer's steps in the same time,
  since it applies its wide block up to four times. Nothing here needed that.
- *RNN* sorted 10 numbers and copied most of 16 symbols from its state alone. It is
  enough for short sequences.
- *DNC* and *NTM* learned *sort*, and *copy* with a few errors, in a fifth to a third of
  the RNN's steps. An external memory costs time at every step. It pays with longer
  sequences and longer training; see [the DNC's results](dnc.md), among them recall,
  paths in graphs and copies of 40 vectors.
- *MemNN* learned *recall*. It sees a fact as a set of words, so it cannot know which of
  two names comes first, or where a fact is in the story. In *two hops*, it retrieves
  both facts that contain the name in the question."""

TRIED = """\
Each learning rate was tried on recall, with a seed and {validated} validation stories
that the tables above do not contain. Each model then used its best rate for all tasks:
the one with the most right answers, and of several the one with the lowest training
loss. The table shows the right answers to the validation stories in per cent.

MemN2N and MemNN answer everything with each rate, with a loss of 0. They used the
middle rate. This rule was set after the runs, when both models had been run with the
middle rate and MemN2N in part with 0.0005, too. On *path*, MemN2N then had 40.4 and
42.6 % right answers (two seeds); its other tasks were the same."""
