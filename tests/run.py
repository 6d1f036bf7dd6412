"""Runs the whole test suite; the last line says what came of it.

    python tests/run.py             all environments, two at a time
    python tests/run.py -e torch    whatever else tox is to be told

tox makes the environments and runs them; its configuration is in pyproject.toml. This
adds a table of minutes, and one line that says why a run failed or was cut off.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / ".tox" / "results.json"
COMMAND = ["run-parallel", "--parallel", "2", "--parallel-no-spinner"]
FULL = "No space left on device"
PATIENCE = 10  # seconds that tox has to end when it is asked to


class Stopped(Exception):
    """The run was told to stop, by a signal."""


def stop(number: int, frame: object) -> None:
    raise Stopped(signal.Signals(number).name)


def run(arguments: list[str]) -> tuple[int, bool]:
    """tox' exit status, and whether anything said that the disk is full."""
    command = [sys.executable, "-m", "tox", *COMMAND, "--result-json", str(RESULTS)]
    full = False
    with subprocess.Popen(
        [*command, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # so that all that it starts can be stopped
    ) as tox:
        try:
            for line in tox.stdout:
                full = full or FULL in line
                print(line, end="", flush=True)
        except (Stopped, KeyboardInterrupt):
            end(tox)
            raise
    return tox.returncode, full


def end(tox: subprocess.Popen) -> None:
    """Ends tox and all that it started: first it is asked, then it is killed."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(tox.pid, number)
            tox.wait(PATIENCE)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def reason(name: str, found: dict) -> str:
    """Why an environment failed, in a few words."""
    for step in found.get("setup", []):
        if step["retcode"]:
            errors = re.findall(r"^ERROR: (.*)", step["err"], re.M)
            why = errors[-1] if errors else f"exit status {step['retcode']}"
            return f"{name}: its packages could not be installed ({why})"
    for step in found.get("test", []):
        if step["retcode"] < 0:
            return f"{name}: killed by {signal.Signals(-step['retcode']).name}"
        if step["retcode"]:
            lines = step["output"].strip().splitlines() or [f"exit {step['retcode']}"]
            return f"{name}: {lines[-1].strip('= ')}"
    return f"{name}: exit status {found['result']['exit_code']}"


def minutes(steps: list[dict]) -> float:
    return sum(step["elapsed"] for step in steps) / 60


def results() -> dict[str, dict]:
    """What tox wrote of each environment that ran; nothing if it could not write."""
    try:
        found = json.loads(RESULTS.read_text("utf-8"))["testenvs"]
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return {name: one for name, one in found.items() if "result" in one}


def report(status: int, full: bool, seconds: float) -> str:
    """Prints the table, and returns the last line."""
    rows = results()
    print(f"\n{'environment':<14}{'making it':>10}{'running it':>12}  minutes")
    for name, found in rows.items():
        made, ran = minutes(found.get("setup", [])), minutes(found.get("test", []))
        word = "passed" if found["result"]["success"] else "failed"
        print(f"{name:<14}{made:>10.1f}{ran:>12.1f}  {word}")
    failed = [n for n, found in rows.items() if not found["result"]["success"]]
    if full and status:
        free = shutil.disk_usage(ROOT).free / 1e9
        room = f"{free:.1f} GB are free. Make room, then run the command again."
        return f"Failed: the disk is full. {room}"
    reasons = "; ".join(reason(name, rows[name]) for name in failed)
    if status or not rows:
        return f"Failed: {reasons or f'tox ended with exit status {status}'}."
    if failed:  # those that tox was told to report, and no more
        passed = f"{len(rows) - len(failed)} environments passed"
        return f"{passed}. What does not block failed: {reasons}."
    return f"All {len(rows)} environments passed in {seconds / 60:.1f} minutes."


def main() -> int:
    signal.signal(signal.SIGTERM, stop)
    start = time.monotonic()
    RESULTS.unlink(missing_ok=True)
    print(
        "Each environment reports when it is done, the first after minutes.", flush=True
    )
    try:
        status, full = run(sys.argv[1:])
    except (Stopped, KeyboardInterrupt) as error:
        name = str(error) or "SIGINT"
        print(f"Stopped by {name}. Run the command again: it keeps what is installed.")
        return 130
    line = report(status, full, time.monotonic() - start)
    print(line)
    return status or line.startswith("Failed")


if __name__ == "__main__":
    sys.exit(main())
