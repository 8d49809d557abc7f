"""Where tpuctl's own options end on the line of `run job`: at the file, at the command, or for a model nowhere."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from tpuctl.zoo.catalogue import MODELS

AFTER_DASHES = "tpuctl.after_dashes"


class RunJob(TyperCommand):
    """Leaves all that follows a file or a command to the job; a model's options may stand among tpuctl's own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rest = self._after_own_options(ctx, args)
        ctx.allow_interspersed_args = not rest or rest[0] in MODELS
        before = args[: len(args) - len(rest)]
        ctx.meta[AFTER_DASHES] = before[-1:] == ["--"]
        return super().parse_args(ctx, args)

    def _after_own_options(self, context: Any, arguments: list[str]) -> list[str]:
        """The line from its first word that is not one of tpuctl's options, or the value of one."""
        parser = self.make_parser(context)
        parser.allow_interspersed_args = False
        return list(parser.parse_args(list(arguments))[0].get("words") or ())
