"""The static table of RFC 7541, appendix A."""

from __future__ import annotations

from typing import Final

_ENTRIES: Final = """\
:authority|:method=GET|:method=POST|:path=/|:path=/index.html|:scheme=http|:scheme=https|\
:status=200|:status=204|:status=206|:status=304|:status=400|:status=404|:status=500|\
accept-charset|accept-encoding=gzip, deflate|accept-language|accept-ranges|accept|\
access-control-allow-origin|age|allow|authorization|cache-control|content-disposition|\
content-encoding|content-language|content-length|content-location|content-range|\
content-type|cookie|date|etag|expect|expires|from|host|if-match|if-modified-since|\
if-none-match|if-range|if-unmodified-since|last-modified|link|location|max-forwards|\
proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|server|set-cookie|\
strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate"""


def _entry(text: str) -> tuple[bytes, bytes]:
    name, _, value = text.partition("=")
    return name.encode(), value.encode()


STATIC_TABLE: Final[tuple[tuple[bytes, bytes], ...]] = tuple(
    _entry(text) for text in _ENTRIES.split("|")
)
"""(name, value) of index 1 at position 0, and so on to index 61."""
