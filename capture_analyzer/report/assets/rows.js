// What stands in a row of the waterfall, beside its lane.

import { captured, el, fill, unseen } from "./dom.js";
import { duration, size } from "./numbers.js";
import { NONE, SEVERITIES, hiddenBy, protocolOf, statusOf } from "./store.js";

/** Fill a row element as the heading of a connection. */
export function fillHeading(row, store, no) {
  const connection = store.connections[no];
  row.className = "row group";
  row.id = `group-${no}`;
  const security = connection.tls ? `, ${connection.tls.version ?? "TLS"}` : "";
  fill(row, el("span", { class: "label", role: "gridcell" }, `Connection ${no} · `, captured(connection.server), security));
}

/** Fill a row element with an exchange. */
export function fillRow(row, store, no) {
  const look = store.look(no);
  const status = statusOf(store, no);
  const level = store.severity[no];
  row.className = "row";
  row.id = `row-${no}`;
  const cell = (name, ...content) => el("span", { class: name, role: "gridcell" }, content);
  const sign = level === NONE ? null : [el("i", { class: `mark ${SEVERITIES[level]}` }), unseen(SEVERITIES[level])];
  const path = store.path[no] ?? (look.protocol === "opaque" ? ` ${hiddenBy(store, no)}` : "");
  fill(row, cell("no", no), cell("sign", sign), cell("method", look.method ?? "–"),
    cell("place", el("span", { class: "host", dir: "auto" }, store.host[no] ?? "–"), el("span", { class: look.protocol === "opaque" ? "path third" : "path", dir: "auto" }, path)),
    cell(`status${status.bad ? " bad" : ""}`, status.text, look.cut && status.text !== "cut" ? el("small", { class: "third" }, " cut") : null), cell("protocol", protocolOf(store, no)),
    cell("size number", size(store.received[no])), cell("total number", duration(store.total(no))),
    cell("lane", unseen(spoken(store, no))));
}

/** What the lane shows, in words. */
function spoken(store, no) {
  const { ledger, causes } = store;
  let lost = 0;
  let most = -1;
  let title = "";
  for (let entry = ledger.first[no]; entry < ledger.first[no + 1]; entry += 1) {
    const ns = ledger.to[entry] - ledger.from[entry];
    if (ledger.lost[entry]) lost += ns;
    if (ns > most) {
      most = ns;
      title = causes[ledger.cause[entry]].title;
    }
  }
  return `mostly ${title}${lost ? `, lost ${duration(lost)}` : ""}`;
}
