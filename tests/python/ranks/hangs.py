"""Run by test_ranks.py: never ends by itself."""

import signal

signal.pause()
