"""Special values of watermarks. A watermark is a timestamp in milliseconds."""

from __future__ import annotations

NO_WATERMARK = -(2**63)
"""The watermark of a sender that promises nothing about later timestamps."""

HEARD_OF = NO_WATERMARK + 1
"""The watermark of a sender that reports to be idle before its first event."""

END_OF_TIME = 2**63 - 1
"""The watermark of a stream that has ended."""
