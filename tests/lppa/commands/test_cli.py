"""The umbrella command."""

from __future__ import annotations

from click.testing import CliRunner

from lppa import cli


def test_ctrl_c_while_a_command_is_being_loaded_ends_with_130(monkeypatch):
    def load(name):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.importlib, "import_module", load)
    result = CliRunner().invoke(cli.main, ["models"])
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")
