"""Draws a sample of a cosmic-ray session by a seed, and skips all other faults.

    python tests/draw_faults.py faults.sqlite --seed 0 --count 40

First it draws places in the code, then one fault for each. A fault that is no Python is
not drawn. See tests/README.md.
"""

import pathlib
import random

from cosmic_ray import mutating, plugins
from cosmic_ray.tools.filters.filter_app import FilterApp
from cosmic_ray.work_item import WorkerOutcome, WorkResult


def is_python(fault) -> bool:
    """Whether the file with the fault can be compiled."""
    operator = plugins.get_operator(fault.operator_name)(**fault.operator_args)
    source = pathlib.Path(fault.module_path).read_text("utf-8")
    try:
        compile(mutating.mutate_code(source, operator, fault.occurrence), "", "exec")
    except SyntaxError:
        return False
    return True


class Draw(FilterApp):
    """Skips what is not drawn."""

    def add_args(self, parser):
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--count", type=int, default=40)

    def filter(self, work_db, args):
        places: dict[tuple, list] = {}
        items = {item.job_id: item.mutations[0] for item in work_db.pending_work_items}
        kinds = {job: (f.operator_name, f.occurrence) for job, f in items.items()}
        for job in sorted(items, key=kinds.get):
            place = items[job].module_path.as_posix(), items[job].start_pos
            places.setdefault(place, []).append(job)
        chance, drawn = random.Random(args.seed), set()
        for place in chance.sample(sorted(places), len(places)):
            job = chance.choice(places[place])
            if len(drawn) < args.count and is_python(items[job]):
                drawn.add(job)
        skipped = WorkResult(worker_outcome=WorkerOutcome.SKIPPED)
        work_db.set_multiple_results({*items} - drawn, skipped)


if __name__ == "__main__":
    Draw().main()
