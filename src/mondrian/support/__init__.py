"""What every room needs and no room of its own would be: nothing here knows of physics or networks.

spec        frozen dataclasses that stand in JSON and YAML as plainly as in Python
plugins     modules of other people whose specs may be named
former      former places of modules and names, which still import for one release
libraries   optional libraries, and what to install where one is missing
files       writing atomically
process, device, constants, text
"""
