"""Captions of digits with a frozen encoder: soft and hard attention.

- `settings.py`: the settings.
- `data.py`: the canvases, and the features of a frozen encoder.
- `encoder.py`: trains and keeps the encoder.
- `training.py`: trains and tests one decoder.
- `command.py`: the command line; `report.py`: the results and pictures.
"""
