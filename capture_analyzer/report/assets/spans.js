// Time of an exchange by cause.

/** What happened from one instant to another: [{cause, lost, from, to}], neighbours alike joined. */
export function runs(store, no, from, to) {
  const { ledger } = store;
  const result = [];
  for (let entry = firstBehind(ledger, no, from); entry < ledger.first[no + 1] && ledger.from[entry] < to; entry += 1) {
    const begin = Math.max(ledger.from[entry], from);
    const end = Math.min(ledger.to[entry], to);
    if (end <= begin) continue;
    const last = result[result.length - 1];
    const cause = ledger.cause[entry];
    const lost = ledger.lost[entry] === 1;
    if (last && last.cause === cause && last.lost === lost && last.to === begin) last.to = end;
    else result.push({ cause, lost, from: begin, to: end });
  }
  return result;
}

/** The first entry that ends behind an instant: they touch, so it is found by halving. */
function firstBehind(ledger, no, instant) {
  let [low, high] = [ledger.first[no], ledger.first[no + 1]];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ledger.to[middle] > instant) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Their sums by cause, lost and ordinary apart, in order of first appearance: [{cause, lost, ns}]. */
export function sums(spans) {
  const found = new Map();
  for (const { cause, lost, from, to } of spans) {
    const key = 2 * cause + (lost ? 1 : 0);
    if (!found.has(key)) found.set(key, { cause, lost, ns: 0 });
    found.get(key).ns += to - from;
  }
  return [...found.values()];
}

/** The largest of them; null where there is none. */
export function largest(spans) {
  return sums(spans).reduce((best, row) => (best === null || row.ns > best.ns ? row : best), null);
}
