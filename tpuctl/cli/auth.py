"""tpuctl auth: who else may use this control plane, and for what."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tpuctl.api.access import EVERY_PROJECT, Role
from tpuctl.cli import complete
from tpuctl.cli.options import Output
from tpuctl.cli.output import Column, Format, show_data, show_list

app = typer.Typer(help="Give others access, by tokens with roles on projects, and take it away.", no_args_is_help=True)

Principal = Annotated[str, typer.Argument(metavar="PRINCIPAL", help="Who will have it: ada, or ci@example.com.")]
RoleOption = Annotated[Role, typer.Option("--role", help="viewer looks, user makes and deletes, admin governs, too.")]
Projects = Annotated[
    list[str] | None,
    typer.Option(
        "--project", metavar="PROJECT", help="On this project; again for more. By default on yours; * is all."
    ),
]
TokenId = Annotated[str, typer.Argument(metavar="ID", help="The token's id.", autocompletion=complete.tokens)]


def _roles(row: dict[str, Any]) -> str:
    return ", ".join(
        f"{role} on {'all' if project == EVERY_PROJECT else project}" for project, role in row["roles"].items()
    )


COLUMNS = (
    Column("ID", lambda row: row["id"]),
    Column("PRINCIPAL", lambda row: row["principal"]),
    Column("ROLES", _roles),
    Column("CREATED", lambda row: row["createTime"][:19].replace("T", " ")),
)


@app.command("create-token")
def create_token(
    principal: Principal, role: RoleOption = Role.USER, project: Projects = None, output: Output = Format.TABLE
) -> None:
    """Make a token and print it, this once: only a digest of it is kept."""
    from tpuctl.api.access import Token
    from tpuctl.api.names import default_project
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect

    with connect() as client:
        roles = dict.fromkeys(project or [default_project()], role)
        made = client.create_token(Token(principal=principal, roles=roles)).to_json()
    if output in (Format.JSON, Format.YAML):
        show_data(made, output)
        return
    print(made["token"])
    terminal.say(f"Token {made['id']} of {principal}: {_roles(made)}. It is not shown again.")
    terminal.say(f"  to revoke it: tpuctl auth revoke {made['id']}")


@app.command("list")
def list_tokens(output: Output = Format.TABLE) -> None:
    """List the tokens there are, but not the tokens themselves."""
    from tpuctl.cli.plane import connect

    with connect() as client:
        found = [token.to_json() for token in client.list_tokens()]
    rows = [row | {"name": row["id"]} for row in found] if output is Format.NAME else found
    show_list(rows, COLUMNS, output, "Only the owner of this home has access.")


@app.command("revoke")
def revoke(token: TokenId) -> None:
    """Take a token's access away, at once."""
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect

    with connect() as client:
        client.revoke_token(token)
    terminal.say(f"Token {token} is revoked")
