"""The scripts of `loopwright completion` work in a real shell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cyclopts import App, Parameter

from loopwright.cli.exit_codes import ExitCode
from loopwright.cli.settings.app import add_setup_commands

BASH = shutil.which("bash")


@pytest.fixture
def app() -> App:
    app = App(
        name="loopwright",
        default_parameter=Parameter(negative=()),
        result_action="return_value",
        exit_on_error=False,
    )
    add_setup_commands(app)
    return app


@pytest.fixture
def script(app: App, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert app(["completion", "bash"]) is ExitCode.DONE
    file = tmp_path / "loopwright.bash"
    file.write_text(capsys.readouterr().out)
    return file


def completed(script: Path, *words: str) -> list[str]:
    """What bash offers for the last of *words*."""
    assert BASH is not None
    code = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        '_loopwright; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [BASH, "--norc", "-c", code, "bash", script, "loopwright", *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(BASH is None, reason="needs bash")
def test_bash_takes_the_script_and_knows_the_command(script: Path) -> None:
    assert BASH is not None
    code = 'source <(cat "$1"); complete -p loopwright'

    done = subprocess.run(
        [BASH, "--norc", "-c", code, "bash", script], capture_output=True, text=True, timeout=60
    )

    assert (done.stdout, done.stderr) == ("complete -F _loopwright loopwright\n", "")


@pytest.mark.skipif(BASH is None, reason="needs bash")
def test_bash_completes_commands_options_and_choices(script: Path) -> None:
    assert completed(script, "conf") == ["config"]
    assert completed(script, "config", "") == ["get", "set", "unset", "path"]
    assert completed(script, "config", "set", "--p") == ["--project"]
    assert completed(script, "trust", "--") == ["--list", "--forget", "--help", "--version"]
    assert completed(script, "completion", "") == ["bash", "zsh", "fish"]
    assert completed(script, "config", "--mode", "j") == ["json"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_have_a_script_that_they_take(
    app: App, shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app(["completion", shell])
    text = capsys.readouterr().out

    assert "loopwright" in text
    assert "--forget" in text or "-l forget" in text
    found = shutil.which(shell)
    if found is None:  # the machine has no such shell; that there is a script is all we know
        return
    file = tmp_path / "script"
    file.write_text(text)
    subprocess.run([found, "-n", file], check=True, timeout=60)


def test_an_unknown_shell_is_refused(app: App) -> None:
    with pytest.raises(Exception, match="tcsh"):
        app(["completion", "tcsh"], print_error=False)
