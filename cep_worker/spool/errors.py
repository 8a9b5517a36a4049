"""What can be wrong with a spool."""

from __future__ import annotations

from cep_common.errors import CepError


class SpoolFullError(CepError):
    """Nothing more can be stored now: the bound is reached, or the disk is full. Sources must wait."""

    code = "spool-full"
