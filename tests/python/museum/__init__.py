"""A museum of wrong loops: defects that were reported in public trackers, reproduced in our own code.

Each exhibit is a module. Its docstring states what was wrong and where it was reported, CAUSE is the cause that one call must name, and
exhibit() makes that call and returns its report.
"""
