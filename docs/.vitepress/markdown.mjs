// What the site makes of Markdown that GitHub shows too: links, tabs, and tables that fit on a phone.
import { posix } from 'node:path';

const REPOSITORY = 'https://github.com/leasehold/leasehold/blob/main/';
/** Subsections with these titles are tabs, if the section has at least two of them. */
const LANGUAGES = ['Rust', 'Node', 'Shell'];
/** A table with this many columns becomes cards on a phone. */
const WIDE = 3;

/** GitHub's anchors, so that a link works in both places. */
export function slugify(heading) {
  return heading.trim().toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-');
}

export function adapt(markdown) {
  markdown.core.ruler.push('leasehold', (state) => {
    for (const token of state.tokens) {
      // ```rust,no_run and ```js no_run: the rest is for the tests.
      if (token.type === 'fence') token.info = token.info.split(/[,\s]/)[0];
      const links = token.children?.filter((child) => child.type === 'link_open') ?? [];
      for (const link of links) lead(link);
      for (const image of token.children?.filter(isChart) ?? []) image.attrJoin('class', 'chart');
      if (isButton(token)) links[0].attrSet('class', 'button');
    }
    state.tokens = withOneNameColumn(state.tokens);
    labelCells(state.tokens);
    breakLongCode(state.tokens);
    state.tokens = withTabs(state.tokens, (content) => {
      const token = new state.Token('html_block', '', 0);
      return Object.assign(token, { content });
    });
  });
  // VitePress leaves out a table's class.
  markdown.renderer.rules.table_open = (tokens, place, options, _, renderer) => {
    tokens[place].attrSet('tabindex', '0');
    return renderer.renderToken(tokens, place, options);
  };
}

/** A link to a file that is no page leads to the repository. The playground is a page of its own. */
function lead(link) {
  const target = link.attrGet('href');
  if (/^[a-z]+:|^#/.test(target)) return;
  // Without this, the site would look for a page of its own.
  if (target.startsWith('playground/')) link.attrSet('target', '_self');
  const path = posix.normalize(posix.join('docs', target));
  if (!path.startsWith('docs/') || path.endsWith('.json')) link.attrSet('href', REPOSITORY + path);
}

function isChart(token) {
  return token.type === 'image' && token.attrGet('src').startsWith('charts/');
}

/** A paragraph that is only a link to the playground. */
function isButton({ type, children }) {
  if (type !== 'inline' || children.length !== 3) return false;
  return children[0].type === 'link_open' && children[0].attrGet('target') === '_self';
}

/** Gives each cell of a wide table its column's title, which a card shows beside it. */
function labelCells(tokens) {
  let table;
  for (const [place, token] of tokens.entries()) {
    const { content } = tokens[place + 1] ?? {};
    if (token.type === 'table_open') table = { open: token, columns: [] };
    else if (token.type === 'th_open') table.columns.push(content);
    else if (token.type === 'thead_close' && table.columns.length >= WIDE) table.open.attrJoin('class', 'cards');
    else if (token.type === 'tr_open') table.column = 0;
    else if (token.type === 'td_open') {
      token.attrSet('data-column', (table.columns[table.column] ?? '').replace(/[`*]/g, ''));
      table.column += 1;
    }
  }
}

/** Lets the long code of a table break where a reader would break it. */
function breakLongCode(tokens) {
  for (const [place, { type }] of tokens.entries()) {
    if (type !== 'td_open') continue;
    for (const code of tokens[place + 1].children) {
      if (code.type !== 'code_inline' || code.content.length <= 16) continue;
      const text = code.content.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/[.(,:/]+/g, '$&<wbr>');
      Object.assign(code, { type: 'html_inline', content: `<code v-pre>${text}</code>` });
    }
  }
}

/** An option's names in Rust and in JavaScript are one column. Most options have the same name in both. */
function withOneNameColumn(tokens) {
  const kept = [];
  let isMerging = false;
  for (let place = 0; place < tokens.length; place += 1) {
    const [token, rust, , , other] = tokens.slice(place, place + 5);
    if (token.type === 'table_open') isMerging = false;
    const isFirst = kept.at(-1)?.type === 'tr_open';
    const isHead = isFirst && token.type === 'th_open' && rust.content === 'Rust' && other?.content === 'JavaScript';
    isMerging ||= isHead;
    if (!isFirst || !isMerging) {
      kept.push(token);
      continue;
    }
    if (isHead) rename(rust, 'name');
    else if (rust.content === '') rust.children = [...other.children, words(' (JavaScript)', rust)];
    else if (other.content === '') rust.children.push(words(' (Rust)', rust));
    else if (rust.content !== other.content) rust.children.push(words(' ', rust), ...other.children);
    kept.push(...tokens.slice(place, place + 3));
    place += 5;
  }
  return kept;
}

function rename(inline, title) {
  inline.content = title;
  inline.children = [words(title, inline)];
}

function words(content, { constructor: Token }) {
  return Object.assign(new Token('text', '', 0), { content });
}

/** Makes tabs of subsections that say the same for several languages. Radio buttons need no script. */
function withTabs(tokens, html) {
  const starts = tokens.flatMap(({ type, tag }, place) => {
    return type === 'heading_open' && tag === 'h3' && LANGUAGES.includes(tokens[place + 1].content) ? [place] : [];
  });
  if (starts.length < 2) return tokens;
  const end = tokens.findIndex(({ type, tag }, place) => place > starts.at(-1) && type === 'heading_open' && tag <= 'h2');
  const titles = starts.map((start) => tokens[start + 1].content);
  const labels = titles.map((title, place) => {
    const id = `tab-${title.toLowerCase()}`;
    return `<input type="radio" name="language" id="${id}"${place === 0 ? ' checked' : ''}><label for="${id}">${title}</label>`;
  });
  const tabs = starts.flatMap((start, place) => {
    const content = tokens.slice(start + 3, starts[place + 1] ?? end);
    return [html(`<div class="tab" id="${titles[place].toLowerCase()}">\n`), ...content, html('</div>\n')];
  });
  return [
    ...tokens.slice(0, starts[0]),
    html(`<div class="tabs">${labels.join('')}\n`),
    ...tabs,
    html('</div>\n'),
    ...tokens.slice(end),
  ];
}
