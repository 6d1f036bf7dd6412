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

TRIED = """\
Each learning rate was tried on recall, with a seed and {validated} validation stories
that the tables above do not contain. Each model then used its best rate for all tasks:
the one with the most right answers, and of several the one with the lowest training
loss. The table shows the right answers to the validation stories in per cent.

MemN2N and MemNN answer everything with each rate, with a loss of 0. They used the
middle rate. This rule was set after the runs, when both models had been run with the
middle rate and MemN2N in part with 0.0005, too. On *path*, MemN2N then had 40.4 and
42.6 % right answers (two seeds); its other tasks were the same."""
