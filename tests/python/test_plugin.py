"""The pytest plugin."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hedgerow import Workspace

pytest_plugins = ["pytester"]


def test_fixture_is_a_fresh_workspace(workspace: Workspace) -> None:
    assert workspace.root is None
    assert workspace.list_dir() == []
    workspace.write_text("a", "x")


def test_fixture_is_fresh_again(workspace: Workspace) -> None:
    assert not workspace.exists("a")


def test_fixture_is_closed_after_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        kept = []

        def test_first(workspace):
            kept.append(workspace)
            assert not workspace.is_closed

        def test_second():
            assert kept[0].is_closed
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2)


def test_plugin_imports_nothing_before_it_is_used() -> None:
    code = "import pytest, sys; before = set(sys.modules); import importlib.util as u;"
    code += "spec = u.find_spec('hedgerow'); path = spec.submodule_search_locations[0] + '/pytest_plugin.py';"
    code += "plugin = u.spec_from_file_location('plugin', path); module = u.module_from_spec(plugin);"
    code += "plugin.loader.exec_module(module); print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "hedgerow._native" not in done.stdout.split()
