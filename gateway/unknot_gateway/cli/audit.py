"""``unknot audit``: waits in agent code that unknot cannot see."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unknot_gateway.cli import exits

if TYPE_CHECKING:
    from unknot_gateway.audit import Finding, Rule


def _print_rules(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from unknot_gateway.audit import RULES

        click.echo("\n\n".join(_rule(rule) for rule in RULES.values()))
        ctx.exit()


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One object a line.")
@click.option(
    "--rules",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_rules,
    help="Say what each rule finds, why, and what to write instead.",
)
def audit(paths: Sequence[Path], as_json: bool) -> None:
    """Find waits in the Python files of PATHS that are outside of unknot's wrappers. Nothing of them is run.

    What may stay is said so, with the reason, on its line or alone on the line above: `# unknot: ok(reason)`.

    \b
    Exit codes: 0 no finding, 1 findings, 2 wrong usage.
    """
    from unknot_gateway.audit import audit as look

    count, files = 0, set()
    for finding in look(paths):
        count += 1
        files.add(finding.path)
        click.echo(_json(finding) if as_json else _line(finding))
    if count:
        if not as_json:
            click.echo(f"findings: {count}, files: {len(files)}; why: unknot audit --rules", err=True)
        sys.exit(exits.FAILED)
    if not as_json:
        click.echo("no finding", err=True)


def _line(finding: "Finding") -> str:
    from unknot_gateway.audit import RULES

    rule = RULES[finding.rule]
    place = f"{finding.path}:{finding.line}:{finding.column}: {finding.rule}"
    if rule.is_about_the_file:
        return f"{place} {finding.text}"
    return f"{place} `{finding.text}` {rule.what}; instead: {rule.instead}"


def _json(finding: "Finding") -> bytes:
    import msgspec

    from unknot_gateway.audit import RULES

    rule = RULES[finding.rule]
    said: dict[str, Any] = msgspec.to_builtins(finding)
    return msgspec.json.encode(said | {"what": rule.what, "why": rule.why, "instead": rule.instead})


def _rule(rule: "Rule") -> str:
    return f"{rule.id}  {rule.what}\n  why:     {rule.why}\n  instead: {rule.instead}"
