"""What the process with the networks runs before it imports the package and Keras.

This file is run by its path, because the import of the package imports Keras.
"""

import gc
import signal
import sys

if __name__ == "<run_path>":  # and not where this file is imported
    gc.disable()  # imports are faster without it
    # Ctrl-C ends the process of the page, which ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Keras imports these if they are installed. No view needs them.
    sys.modules.update({"matplotlib": None, "pandas": None})  # type: ignore[dict-item]
