"""A museum of wrong loops: defects as they were reported in public trackers, in code of our own.

Each exhibit is a module: its docstring says what was wrong and where it was reported, CAUSE is what one call has to name, and
exhibit() makes that call.
"""
