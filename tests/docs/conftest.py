"""What only the lane `static` runs, which has the extra `docs` and no backend."""

# It gives pytest `--noconftest`.
collect_ignore = ["test_cut.py", "test_hooks.py", "test_search.py"]
