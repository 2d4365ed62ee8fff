"""All steps of the pipeline in their order: from a Capture to the tables."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.capture import Capture
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.packets import Packets
from capture_analyzer.model.progress import Progress, silent
from capture_analyzer.model.record_sizes import RecordSizes
from capture_analyzer.model.repeats import Repeats
from capture_analyzer.model.room import IN_MEMORY, Room, stretches
from capture_analyzer.model.rtt_samples import RttSamples
from capture_analyzer.model.scheduler import InProcess, Scheduler
from capture_analyzer.model.secrets import Secrets
from capture_analyzer.model.selection import EVERYTHING, Selection
from capture_analyzer.model.tcp_segments import TcpSegments
from capture_analyzer.pipeline import ocsp, timeline
from capture_analyzer.pipeline.batches import Analysed, Batch, analyse_batch, cut
from capture_analyzer.pipeline.causes import find_waits
from capture_analyzer.pipeline.causes.facts import Facts
from capture_analyzer.pipeline.certificates import read_chains
from capture_analyzer.pipeline.clock import find_clock_steps
from capture_analyzer.pipeline.events import collect_events
from capture_analyzer.pipeline.file_points import refuse_two_points
from capture_analyzer.pipeline.flows import group
from capture_analyzer.pipeline.join import join, name_opaque
from capture_analyzer.pipeline.lookups import add_tcp_lookups, find_lookups, join_lookups
from capture_analyzer.pipeline.merge import EndToEnd, merge
from capture_analyzer.pipeline.pseudonyms import pseudonymise
from capture_analyzer.pipeline.record_sizes import add_record_sizes
from capture_analyzer.pipeline.redact import Redactor
from capture_analyzer.pipeline.scan import scan
from capture_analyzer.pipeline.select import Shown, limit, select
from capture_analyzer.pipeline.sessions import Sessions
from capture_analyzer.pipeline.tcp.places import add_places
from capture_analyzer.pipeline.tcp.samples import add_samples
from capture_analyzer.pipeline.tcp.senders import sender_tables
from capture_analyzer.pipeline.tcp.wireshark import add_labels
from capture_analyzer.pipeline.two_points import count_aside, keep_one_point


def build(
    capture: Capture,
    *,
    secrets: Secrets | None = None,
    selection: Selection = EVERYTHING,
    redact: str = "default",
    scheduler: Scheduler | None = None,
    room: Room = IN_MEMORY,
    progress: Progress = silent,
) -> Tables:
    """Build every table of a capture.

    Args:
        capture: the packets as they lie in their files.
        secrets: of the key logs given; None if there are none.
        selection: what is to be analysed of it.
        redact: redaction level; what it removes enters no table.
        scheduler: who works on the connections; None = this process.
        room: where columns lie; shared if the scheduler has workers.
        progress: called between the steps and inside the long ones.

    Raises:
        OptionError: no such redaction level.
        TwoPointsError: the files of the capture were captured at two points.
    """
    redactor = Redactor(redact)
    packets, anomalies = scan(capture, room=room, progress=progress)
    capture.forget_places()

    refuse_two_points(capture, packets)

    lookups, lookup_anomalies = find_lookups(capture, packets)
    flows = group(packets, room)
    left_out: list[Anomaly] = []
    if selection:
        flows, left_out = select(selection, capture, packets, flows, lookups)
    flows, aside = keep_one_point(packets, flows)

    sessions = None if secrets is None else Sessions(secrets, capture, packets, flows)
    if scheduler is None or redactor.numbers_names:
        scheduler = InProcess()
    merged = _connections(
        list(cut(flows)), capture, packets, redactor, sessions, scheduler, room, progress
    )
    tcp, streams, dissected, exchanges = (
        merged.tcp,
        merged.streams,
        merged.dissected,
        merged.exchanges,
    )
    del merged
    count_aside(packets, flows, tcp.connections, aside)
    del flows  # what is done with, is given up before memory is needed for other things
    packets.unfinished = functools.partial(add_labels, epoch_ns=capture.epoch_ns)

    progress("exchanges", 0, 2)
    chains = read_chains(dissected.presented, capture.epoch_ns)
    add_tcp_lookups(lookups, streams, tcp.connections)
    join_lookups(lookups, tcp.connections, capture.names)
    name_opaque(exchanges)
    fetches = ocsp.find_fetches(
        ocsp.Facts(
            tcp.connections,
            exchanges,
            dissected.messages,
            lookups,
            streams,
            dissected.tls_records,
            dissected.handshake_messages,
            dissected.presented,
            chains,
        )
    )
    exchanges, setups = join(exchanges, tcp.connections, lookups, ocsp.awaited(fetches))
    ocsp_fetches = ocsp.number_fetches(fetches)
    timeline.add_phases(exchanges, setups)
    progress("exchanges", 1, 2)
    events = collect_events(exchanges)
    facts = Facts.of(
        exchanges,
        setups,
        packets,
        tcp,
        streams,
        dissected.tls_records,
        dissected.handshake_messages,
        events,
        dissected.frames,
        ocsp_fetches,
    )
    del streams  # what follows works in their memory
    waits = find_waits(facts)
    del facts
    ledger = timeline.resolve(exchanges, waits)
    shown = Shown(tcp.connections, lookups, exchanges, events, waits, ledger, ocsp_fetches)
    if selection:
        shown = limit(selection, capture.epoch_ns, packets, shown)
    progress("exchanges", 2, 2)

    windows, sender_limits, stalls = sender_tables(packets, tcp)
    tables = Tables(
        epoch_ns=capture.epoch_ns,
        duration_ns=_duration(packets),
        files=capture.files,
        interfaces=capture.interfaces,
        packets=packets,
        tunnels=packets.tunnels,
        connections=tcp.connections,
        holes=tcp.holes,
        limits=tcp.limits,
        queues=tcp.queues,
        tcp_segments=TcpSegments(unfinished=functools.partial(add_places, packets=packets)),
        rtt_samples=RttSamples(unfinished=functools.partial(add_samples, packets=packets)),
        windows=windows,
        sender_limits=sender_limits,
        stalls=stalls,
        repeats=Repeats(
            functools.partial(
                _finish_repeats,
                packets=packets,
                path=tcp.path,
                holes=tcp.holes,
                tls_records=dissected.tls_records,
                frames=dissected.frames,
                exchanges=shown.exchanges,
            )
        ),
        tls_records=dissected.tls_records,
        record_sizes=RecordSizes(
            unfinished=functools.partial(
                add_record_sizes, records=dissected.tls_records, connections=tcp.connections
            )
        ),
        handshake_messages=dissected.handshake_messages,
        frames=dissected.frames,
        messages=dissected.messages,
        lookups=shown.lookups,
        exchanges=shown.exchanges,
        events=shown.events,
        waits=shown.waits,
        ledger=shown.ledger,
        anomalies=[
            *left_out,
            *capture.anomalies,
            *anomalies,
            *tcp.anomalies,
            *find_clock_steps(packets, tcp.connections),
            *dissected.anomalies,
            *chains.anomalies,
            *lookup_anomalies,
        ],
        redaction=redactor.counts,
        certificates=chains.certificates,
        ocsp_fetches=shown.ocsp_fetches,
    )
    pseudonymise(tables, redactor)
    return tables


def _connections(
    batches: list[Batch],
    capture: Capture,
    packets: Packets,
    redactor: Redactor,
    sessions: Sessions | None,
    scheduler: Scheduler,
    room: Room,
    progress: Progress,
) -> Analysed:
    """What is found out about each connection by itself, put together."""
    progress("connections", 0, len(batches))
    parts: list[Analysed] = []
    end_to_end = EndToEnd(sum(len(batch.flows.order) for batch in batches))
    for part in scheduler.map(
        lambda batch: analyse_batch(batch, capture, packets, redactor, sessions), batches
    ):
        if room.spills:
            parts.append(room.stowed(part))
        else:
            end_to_end.place(part, len(batches[len(parts)].flows.order))
            parts.append(part)
        progress("connections", len(parts), len(batches))
    del end_to_end
    return merge(parts, capture.buffers, redactor, room)


def _finish_repeats(table: Repeats, numbers: NDArray[np.int64] | None, **sources: Any) -> None:
    from capture_analyzer.pipeline.repeats import Sources, add_repeats  # most runs ask for none

    add_repeats(table, Sources(**sources), numbers)


def _duration(packets: Packets) -> int:
    """From the first packet to the last, by their time stamps."""
    first, last = [], []
    for part in stretches(len(packets)):
        times = packets.time_ns[part]
        times = times[times != NO_TIME]
        if len(times):
            first.append(int(times.min()))
            last.append(int(times.max()))
    return max(last) - min(first) if first else 0
