/** Parses one answer from this position on. Returns undefined while it is incomplete. ASCII only. */
export function parse(text, from) {
  const eol = text.indexOf('\r\n', from);
  if (eol < 0) return undefined;
  const [kind, line, next] = [text[from], text.slice(from + 1, eol), eol + 2];
  if (kind === '+') return { value: line, end: next };
  if (kind === '-') return { value: new Error(line), end: next };
  if (kind === ':') return { value: Number(line), end: next };
  if (kind === '$') {
    if (line === '-1') return { value: null, end: next };
    const end = next + Number(line);
    return text.length < end + 2 ? undefined : { value: text.slice(next, end), end: end + 2 };
  }
  const items = [];
  let end = next;
  for (let i = 0; i < Number(line); i++) {
    const item = parse(text, end);
    if (!item) return undefined;
    items.push(item.value);
    end = item.end;
  }
  return { value: items, end };
}
