"""Utilities for every other package: nothing here knows of physics or networks.

spec            frozen dataclasses that are written in JSON and YAML as in Python
plugins         other people's modules, whose specs may be named
former          former modules and names, which still import for one release
libraries       optional libraries, and what to install if one is missing
files           atomic writes
lock            locks on files and folders
settings_guard  folders that refuse other settings than those of their first use
processor       half precision on processors that cannot execute what they report
checks, constants, device, process, tensors, text
"""
