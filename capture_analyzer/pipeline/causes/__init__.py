"""Causes of waiting, one file a cause: facts → waits.

Each module has ``find(facts) -> Waits``, a pure function over all exchanges at once. Waits may
overlap; `timeline` resolves that by precedence. A cause books time on evidence only: what no
module claims is shown as unknown.
"""

from __future__ import annotations

from typing import Final

from capture_analyzer.model.column import concatenate
from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes import (
    capture_gap,
    client_idle,
    congestion_window,
    dns,
    generation,
    head_of_line,
    hello_retry,
    loss_recovery,
    nagle_delayed_ack,
    network_rtt,
    ocsp_fetch,
    receiver_window,
    record_wait,
    reordering,
    request_send,
    server_think,
    syn_retry,
    tcp_handshake,
    tls_handshake,
    transfer,
)
from capture_analyzer.pipeline.causes.facts import Facts

FINDERS: Final = (
    capture_gap,
    syn_retry,
    hello_retry,
    ocsp_fetch,
    dns,
    tcp_handshake,
    tls_handshake,
    loss_recovery,
    reordering,
    head_of_line,
    record_wait,
    receiver_window,
    congestion_window,
    nagle_delayed_ack,
    request_send,
    transfer,
    network_rtt,
    server_think,
    generation,
    client_idle,
)
"""In order of precedence."""


def find_waits(facts: Facts) -> Waits:
    """The waits of all exchanges and set-ups, by cause in order of precedence."""
    waits: Waits = concatenate(Waits, [finder.find(facts) for finder in FINDERS])
    return waits
