"""Two environments at a time get a processor each."""

import os
import pathlib
import subprocess
import sys

import pytest

TAKE = """
import os, sys
sys.path.insert(0, {folder!r})
import processors
found = processors.take_one()
print(found, sorted(os.sched_getaffinity(0)), flush=True)
input()
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="the system binds no process"
)
def test_each_process_takes_another_processor(tmp_path):
    code = TAKE.format(folder=str(pathlib.Path(__file__).parent))
    cores = sorted(os.sched_getaffinity(0))
    given = {**os.environ, "TMPDIR": str(tmp_path), "TESTS_TAKE_ONE_PROCESSOR": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", code]
    some = [subprocess.Popen(command, env=given, **pipes) for _ in range(2)]
    lines = sorted(one.stdout.readline().strip() for one in some)
    free = [f"{core} [{core}]" for core in cores[:2]]
    assert lines == sorted([*free, f"None {cores}"][:2])
    for one in some:
        one.communicate("\n")
        assert one.returncode == 0
    del given["TESTS_TAKE_ONE_PROCESSOR"]
    done = subprocess.run(
        command, env=given, input="\n", capture_output=True, text=True
    )
    assert done.stdout.strip() == f"None {cores}"
