"""The group of all commands, and how errors end a command."""

from __future__ import annotations

import errno
import importlib
import io
import os
import signal
import sys
import traceback
from contextlib import suppress

import click

import dpeer
from dpeer.exceptions import DpeerError, UnknownName, system_error
from dpeer.federation.removed_names import VALUES, instead

_COMMANDS = {
    "init": "Write a federation file and keys.",
    "check": "Say whether a rank can start on this host, and what a round will take.",
    "start": "Run one peer of a federation on this host.",
    "keygen": "Make a peer's keys, by which the others know it, or an operator's.",
    "relay": "Join peers that can only dial out.",
    "cluster": "Run a whole federation on this machine, one process a peer.",
    "simulate": "Run a whole federation in this process.",
    "status": "Show where running peers are, and whom they wait for.",
    "top": "Show running peers, live.",
    "dashboard": "Serve one page for the peers of this host.",
    "members": "Show and change who takes part in a running federation.",
    "drain": "Have running peers finish their round and leave.",
    "worth": "Compare a peer with its local-only baseline, after its run; combine sites' results.",
    "compare": "Run algorithms side by side and print how they compare.",
    "model": "Make a peer's model from its checkpoint.",
    "predict": "Predict new rows with a trained model.",
    "evaluate": "Measure a trained model on labelled data.",
    "export": "Write a trained model as ONNX.",
    "settings": "List all settings, or say where the values of a file come from.",
    "algorithms": "List the training algorithms.",
    "schema": "Say what a table's columns are, and check tables.",
    "report": "Show what runs came to, on one page.",
    "topology": "Look at graphs and their mixing matrices.",
    "privacy": "Print epsilon of given noise, or the noise for an epsilon.",
}


_MACOS_FILES = 10240
"""The most open files that macOS takes as a soft limit."""


class _Commands(click.Group):
    """Imports a command's module when it is called: `dpeer topology` must not wait for torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            raise UnknownName("command", cmd_name, _COMMANDS)
        command: click.Command = getattr(importlib.import_module(f"dpeer.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 120},
)
@click.version_option(dpeer.__version__, prog_name="dpeer")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def group(debug: bool) -> None:
    """Train personalised models together without a server.

    Each peer keeps its data and its personal head at home and gossips only the shared body of its model with its
    neighbors.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exits with the codes of dpeer.exceptions."""
    own_process = arguments is None
    arguments = sys.argv[1:] if arguments is None else arguments
    # At any place: after an error people type `dpeer start ... --debug`.
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    if sys.platform == "win32":
        click.echo("dpeer runs on Linux and macOS; on Windows, use WSL", err=True)
        sys.exit(1)
    if own_process and sys.getfilesystemencoding() == "ascii":
        # Under an ASCII locale Python could not open a file called "bäsuche.csv".
        command = [sys.executable, "-m", "dpeer", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | {"PYTHONUTF8": "1"})  # noqa: S606 - this very program
    if own_process:
        _allow_open_files()
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # names of files need not be UTF-8
    try:
        try:
            code = group.main(arguments, prog_name="dpeer", standalone_mode=False)
        finally:
            if own_process:
                # All work is done: from here on Ctrl-C ends the process without tracebacks, of exit handlers either.
                signal.signal(signal.SIGINT, signal.SIG_DFL)
    except UnknownName as error:
        code = _end(instead(arguments) or str(error), error.exit_code, debug)
    except DpeerError as error:
        code = _end(_lacking(error) or str(error), error.exit_code, debug)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        code = error.exit_code
    except click.exceptions.Exit as error:
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):  # one that comes while click answers another
        code = _end("interrupted", 130, debug=False)
    except click.ClickException as error:
        code = _end(_removed(error, arguments) or _message(error), error.exit_code, debug)
    except BrokenPipeError:
        code = 1  # `dpeer ... | head`
    except Exception as error:
        unexpected = f"unexpected {type(error).__name__}: {error} (--debug shows where)"
        code = _end(_lacking(error) or unexpected, 1, debug)
    sys.exit(code if isinstance(code, int) else 0)


def _allow_open_files() -> None:
    """Raise the soft limit of open files as far as may be: macOS has 256, and each simulated peer takes some."""
    import resource  # not on Windows, where the command has ended by now

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft in (hard, resource.RLIM_INFINITY):
        return
    for more in (hard, _MACOS_FILES):  # macOS takes no soft limit without a number
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
            return


def _lacking(error: BaseException) -> str:
    """The line for an error that comes of what the system does not give; empty for any other one."""
    why = system_error(error)
    if why is None or why.errno not in (errno.EMFILE, errno.ENFILE):
        return ""
    return (
        "too many open files: allow more with `ulimit -n 65536` before the command, or "
        "LimitNOFILE= of its service, or run fewer peers on this host"
    )


def _removed(error: click.ClickException, arguments: list[str]) -> str | None:
    """The line for a name or a value that an earlier version had; None for any other error."""
    if isinstance(error, click.NoSuchOption):
        return instead(arguments, error.option_name) or instead(arguments)
    if isinstance(error, click.BadParameter) and error.param is not None:
        typed = error.message.partition("' is not one of ")[0].removeprefix("'")
        if advice := VALUES.get((str(error.param.name), typed)):
            return f"{error.param.opts[0]} {typed} has been removed: {advice}"
    return instead(arguments) if isinstance(error, click.UsageError) else None


def _message(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        word, options = error.option_name.removeprefix("--"), [one for p in error.ctx.command.params for one in p.opts]
        # `--lr` is nearer to --body-lr than to --lora, whatever their letters.
        if near := [one for one in options if word in one.split("-")]:
            error = click.NoSuchOption(error.option_name, possibilities=near, ctx=error.ctx)
    message = error.format_message()
    if isinstance(error, click.NoSuchOption) and error.option_name == "--faults":
        return "--faults: only dpeer simulate has a clock and a network of its own (and dpeer compare, which uses it)"
    if isinstance(error, click.NoSuchOption) and not error.possibilities:
        message = f"{message.removesuffix('.')}: `dpeer settings WORD` finds a setting by any word of its line"
    setting = error.param if isinstance(error, click.BadParameter) else None
    if setting is not None and hasattr(setting, "group") and "is not one of" in message:
        message = f"{message.removesuffix('.')}: `dpeer settings {setting.name}` says what they do"
    extra = "unexpected extra argument" in message and "=" in message
    return message + ("; each KEY=VALUE needs a --task-option of its own" if extra else "")


def _end(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    from dpeer.cli.terminal import say  # rich: not for commands that end well without it

    say(f"dpeer: {message}")
    return code
