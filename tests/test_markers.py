"""A test that does more than its markers say fails where such tests are left out, and names the marker."""

import pytest

from tests import forked  # noqa: F401 -- with Lightning, which can be imported once only

pytest_plugins = ["pytester"]
CONFTEST = """
from tests.markers import Markers

def pytest_configure(config):
    config.pluginmanager.register(Markers())
    for name in ("process", "training", "compiled", "slow", "checked"):
        config.addinivalue_line("markers", name)
"""
TESTS = """
import multiprocessing, subprocess, sys
import lightning.pytorch as lightning
import pytest, torch
from tests import forked

def test_subprocess(): subprocess.run([sys.executable, "-c", ""])
def test_fork(): multiprocessing.get_context("fork").Process(target=print).start()
def test_compile(): torch.compile(lambda x: x)
def test_fit(): lightning.Trainer.fit(None, None)
def test_nothing(): pass
@pytest.mark.process
def test_marked(): forked.run(lambda: torch.compile(lambda x: x))
@pytest.mark.checked
def test_checked(): raise AssertionError
"""


@pytest.mark.process
def test_what_is_not_marked_fails_where_it_is_left_out(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    run = pytester.runpytest_inprocess(*options, "-m", "not (process or training or compiled or slow)")
    run.assert_outcomes(passed=1, failed=4, deselected=2)
    run.stdout.fnmatch_lines(
        [
            "*test_subprocess starts a process; needed @pytest.mark.process*",
            "*test_fork starts a process; needed @pytest.mark.process*",
            "*test_compile calls torch.compile; needed @pytest.mark.compiled*",
            "*test_fit trains; needed @pytest.mark.training*",
        ]
    )
    run = pytester.runpytest_inprocess(*options, "-m", "process")
    run.assert_outcomes(passed=1, deselected=6)
