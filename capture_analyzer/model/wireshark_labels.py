"""What Wireshark says of packets (`Packets.wireshark_label`), and why our labels differ."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from capture_analyzer.model.quick_dataclass import quick_dataclass

WIRESHARK_FLAGS: Final[dict[str, str]] = {
    "retransmission": (
        "it carries bytes (or a SYN or FIN) below the highest sequence number seen, and is not "
        "out of order; also set beside the next two"
    ),
    "fast_retransmission": (
        "likewise, from where at least two duplicate acknowledgements ask, within 20 ms of the "
        "last of them"
    ),
    "spurious_retransmission": "all its bytes lie below the peer's last acknowledgement",
    "out_of_order": (
        "it lies below the highest sequence number seen, which was reached less than the "
        "handshake's round trip ago (3 ms where that is unknown)"
    ),
    "lost_segment": "it begins above the highest sequence number seen: something is missing",
    "ack_lost_segment": "it acknowledges bytes that were not captured",
    "keep_alive": "no payload or one byte, one below the next sequence number",
    "keep_alive_ack": "it repeats the last acknowledgement in answer to a keep-alive",
    "zero_window": "it offers a window of 0",
    "zero_window_probe": "one byte, at the next sequence number, while the peer's window is 0",
    "zero_window_probe_ack": "it repeats a window of 0 in answer to a zero-window probe",
    "window_update": "no payload, the same numbers as before, another window",
    "window_full": "its payload ends exactly where the peer's window does",
    "duplicate_ack": "no payload, the same numbers and window as before",
    "reused_ports": "a SYN, or SYN-ACK, with a new number where ports were in use before",
}
"""Wireshark's flags with their rules: the names of its fields `tcp.analysis.NAME`.

A packet may have several; they are joined by "+", in this order. Bit i of a mask of flags
stands for the i-th."""

_OUT_OF_ORDER: Final = ("out_of_order",)
_AGAIN: Final = ("retransmission", "out_of_order")
_COPIED: Final = ("retransmission", "out_of_order", "duplicate_ack", "keep_alive", "keep_alive_ack")


@quick_dataclass(frozen=True)
class Difference:
    """A kind of packet of which we and Wireshark say different things, and why.

    Attributes:
        name: a short name, for `explain`.
        ours: what we say.
        theirs: what Wireshark says.
        why: the reason.
        seen: how many of the packets of the lab captures are of this kind.
        labels: our label is one of these.
        flags: Wireshark sets one of these; empty = none of "retransmission", "out_of_order".
        without: and none of these.
        mechanism: ours; empty = any.
        spurious: ours; empty = any.
    """

    name: str
    ours: str
    theirs: str
    why: str
    seen: int
    labels: tuple[str, ...]
    flags: tuple[str, ...]
    without: tuple[str, ...] = ()
    mechanism: str = ""
    spurious: str = ""

    def covers(self, label: str, mechanism: str, spurious: str, flags: AbstractSet[str]) -> bool:
        """Whether a packet with these labels is of this kind."""
        if label not in self.labels or not flags.isdisjoint(self.without):
            return False
        if self.mechanism not in ("", mechanism) or self.spurious not in ("", spurious):
            return False
        return not flags.isdisjoint(self.flags) if self.flags else flags.isdisjoint(_AGAIN)


DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference(
        name="capture-copies",
        ours="capture_duplicate",
        theirs="retransmission, out_of_order or duplicate_ack",
        why=(
            "The capture recorded the packet twice (all interfaces at once, a mirror port, a "
            "VLAN and its parent). Both copies have the same identification, numbers and "
            "timestamps; nothing was sent again. Wireshark doesn't look for copies."
        ),
        seen=134,
        labels=("capture_duplicate",),
        flags=_COPIED,
    ),
    Difference(
        name="network-copies",
        ours="network_duplicate",
        theirs="spurious_retransmission, retransmission or duplicate_ack",
        why=(
            "The network delivered one packet twice: the copy has the identification of the "
            "first one, which a retransmission would not. Its sender did nothing wrong."
        ),
        seen=0,
        labels=("network_duplicate",),
        flags=_COPIED,
    ),
    Difference(
        name="fast-as-out-of-order",
        ours="retransmission",
        theirs="out_of_order",
        why=(
            "Wireshark takes what comes within the handshake's round trip after the highest "
            "byte for overtaken, wherever it was captured. A sender that keeps sending while "
            "it repairs a loss always does that. A sender's own capture can't hold its segments "
            "out of order, and at the receiver duplicate acknowledgements, timestamps and "
            "identifications tell the two apart."
        ),
        seen=36,
        labels=("retransmission",),
        flags=_OUT_OF_ORDER,
    ),
    Difference(
        name="unmarked-tail",
        ours="retransmission",
        theirs="nothing",
        why=(
            "The last segments were lost on the way to the capture, so that it holds only their "
            "repeats and no gap showed before. Time, timestamps and identifications tell "
            "that they were sent before; sequence numbers, which Wireshark goes by, don't."
        ),
        seen=3,
        labels=("retransmission",),
        flags=(),
    ),
    Difference(
        name="needless-not-recognised",
        ours="retransmission, spurious",
        theirs="retransmission or fast_retransmission",
        why=(
            "Wireshark calls a retransmission spurious only where its bytes had been "
            "acknowledged before, in the capture. At the sender the acknowledgement comes "
            "later, or was lost; D-SACK (RFC 2883) and echoed timestamps (RFC 3522) "
            "tell it afterwards."
        ),
        seen=6,
        labels=("retransmission",),
        flags=("retransmission",),
        without=("spurious_retransmission",),
        spurious="true",
    ),
    Difference(
        name="needed-called-spurious",
        ours="retransmission, not spurious or not known",
        theirs="spurious_retransmission",
        why=(
            "Wireshark takes bytes below the last acknowledgement for needless. If that "
            "acknowledgement answers this very segment and was only captured before it, they "
            "were needed; and where our evidence says neither, we leave it open."
        ),
        seen=0,
        labels=("retransmission",),
        flags=("spurious_retransmission",),
    ),
    Difference(
        name="fast-not-recognised",
        ours="retransmission, mechanism fast",
        theirs="retransmission",
        why=(
            "Wireshark expects a fast retransmission within 20 ms of the last duplicate "
            "acknowledgement, beginning exactly where that asks. With selective "
            "acknowledgements (RFC 6675, RFC 8985) a sender repeats what lies in the holes, and "
            "at the receiver's side a whole round trip lies between the two."
        ),
        seen=26,
        labels=("retransmission",),
        flags=("retransmission",),
        without=("fast_retransmission", "spurious_retransmission"),
        mechanism="fast",
    ),
    Difference(
        name="timer-called-fast",
        ours="retransmission, mechanism other than fast",
        theirs="fast_retransmission",
        why=(
            "Duplicate acknowledgements came just before it, but the sender's timer had run "
            "out, or it was repairing what a timer had found."
        ),
        seen=0,
        labels=("retransmission",),
        flags=("fast_retransmission",),
    ),
    Difference(
        name="overtaken-called-sent-again",
        ours="reordered",
        theirs="retransmission, fast_retransmission or spurious_retransmission",
        why=(
            "The segment was late by more than the handshake's round trip, or duplicate "
            "acknowledgements had asked for it; but its timestamp or identification is that of "
            "its place in the stream: it was sent once."
        ),
        seen=1,
        labels=("reordered",),
        flags=("retransmission",),
    ),
    Difference(
        name="probe-as-keep-alive",
        ours="zero_window_probe",
        theirs="keep_alive or retransmission",
        why=(
            "Linux probes a window of 0 without payload, with the number one below the next "
            "(RFC 9293, section 3.8.6.1). Wireshark knows only probes with one new byte."
        ),
        seen=4,
        labels=("zero_window_probe",),
        flags=("keep_alive", "retransmission"),
    ),
    Difference(
        name="answer-to-needless",
        ours="ack",
        theirs="duplicate_ack",
        why=(
            "It repeats an acknowledgement while nothing is outstanding: the answer to a "
            "needless retransmission. That asks for nothing, so it is no duplicate "
            "acknowledgement (RFC 5681, section 2)."
        ),
        seen=6,
        labels=("ack",),
        flags=("duplicate_ack",),
    ),
    Difference(
        name="window-behind-syn",
        ours="ack",
        theirs="window_update",
        why=(
            "The window of a SYN is never scaled (RFC 7323, section 2.2), so that the one behind "
            "it can't be compared with it."
        ),
        seen=0,
        labels=("ack",),
        flags=("window_update",),
    ),
    Difference(
        name="captured-late",
        ours="original",
        theirs="spurious_retransmission, retransmission or out_of_order",
        why=(
            "It is the only copy in the capture, but lies behind its acknowledgement or later "
            "data: the capture put packets in the wrong order, or its clock stepped."
        ),
        seen=0,
        labels=("original",),
        flags=_AGAIN,
    ),
    Difference(
        name="gap-before",
        ours="original, ack or another label of its own",
        theirs="lost_segment",
        why=(
            "That says nothing of the packet itself, only that something before it is missing. "
            "What was missing, and whether the network or the capture lost it, is in the table "
            "of holes."
        ),
        seen=49,
        labels=("original", "ack", "syn", "fin", "zero_window", "rst"),
        flags=("lost_segment",),
    ),
    Difference(
        name="acknowledged-unseen",
        ours="ack or another label of its own",
        theirs="ack_lost_segment",
        why=(
            "The receiver had bytes that the capture lacks: the capture lost them. In the table "
            "of holes they are a gap of the capture."
        ),
        seen=3,
        labels=("ack", "original", "syn", "fin", "window_update", "dup_ack", "zero_window"),
        flags=("ack_lost_segment",),
    ),
    Difference(
        name="window-full",
        ours="original or retransmission",
        theirs="window_full",
        why=(
            "The segment is an ordinary one; that it fills the window matters if the sender then "
            "waits, which is the cause receiver_window."
        ),
        seen=99,
        labels=("original", "retransmission"),
        flags=("window_full",),
    ),
    Difference(
        name="handshake-again",
        ours="syn or fin",
        theirs="retransmission or out_of_order",
        why=(
            "A SYN or FIN without payload keeps that label. That a SYN was sent again stands in "
            "its mechanism (syn) and in the connection's count."
        ),
        seen=1,
        labels=("syn", "fin"),
        flags=_AGAIN,
    ),
    Difference(
        name="ports-again",
        ours="syn",
        theirs="reused_ports",
        why="A new connection on ports that were used before is nothing unusual.",
        seen=0,
        labels=("syn",),
        flags=("reused_ports",),
    ),
)
"""Kinds of packets on which we differ; the first that covers a packet is its kind."""

_SAME: Final = {
    "keep_alive": "keep_alive",
    "keep_alive_ack": "keep_alive_ack",
    "zero_window": "zero_window",
    "window_update": "window_update",
    "dup_ack": "duplicate_ack",
    "reordered": "out_of_order",
    "retransmission": "retransmission",
}
"""Our labels that have a counterpart."""


def joined(mask: int) -> str:
    """The flags of a mask as a label; "" if there are none."""
    return "+".join(name for bit, name in enumerate(WIRESHARK_FLAGS) if mask >> bit & 1)


def why_differs(label: str, mechanism: str, spurious: str, flags: str) -> Difference | None:
    """The reason why our labels of a packet and Wireshark's differ; None if none is known.

    Args:
        label: ours.
        mechanism: ours.
        spurious: ours.
        flags: Wireshark's, joined.
    """
    said = frozenset(flags.split("+"))
    for difference in DIFFERENCES:
        if difference.covers(label, mechanism, spurious, said):
            return difference
    return None


def agree(label: str, mechanism: str, spurious: str, flags: str) -> bool:
    """Whether our labels of a packet and Wireshark's say the same."""
    same = _SAME.get(label, "")
    if label == "retransmission":
        same += "+fast_retransmission" if mechanism == "fast" and spurious != "true" else ""
        same += "+spurious_retransmission" if spurious == "true" else ""
    return flags == same
