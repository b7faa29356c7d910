// The search: what the index has of each section, and what counts most. search.test.mjs says what must be found.
//
// A section can name words that a reader may search for and that its text doesn't have: <!-- search: cron, scheduled job -->.
// The names in the first column of its tables count too. The browser gets these functions as text, so each stands alone.

/** Separates a section's text from its words for the search. */
const WORDS = '\u0001';

export const search = {
  _splitIntoSections: (_file, html) => sections(html),
  options: {
    fields: ['title', 'titles', 'text', 'words'],
    extractField: (section, field) => {
      const [text, words = ''] = section.text?.split('\u0001') ?? [];
      return { text, words }[field] ?? section[field];
    },
    // `max_hold` is one word, and also two.
    tokenize: (text, field) => {
      const words = text.split(/[^\p{L}\p{N}_]+/u).filter(Boolean);
      return field === undefined ? words : words.flatMap((word) => (word.includes('_') ? [word, ...word.split('_')] : [word]));
    },
  },
  searchOptions: {
    boost: { words: 6, title: 4, text: 1.5, titles: 1 },
    prefix: (term) => term.length > 2,
    fuzzy: (term) => (term.length > 4 ? 0.2 : false),
    // These pages tell how leasehold is made. Most readers look for how to use it.
    boostDocument: (id) => (/\/(articles|benchmarks|design|drop-ins)\.html|how-it-is-tested/.test(id) ? 0.4 : 1),
  },
};

/** The sections of a page, from one heading to the next. */
function* sections(html) {
  const [, ...parts] = html.split(/<h(\d)[^>]*>(.*?)<a[^>]* href="#(.*?)"[^>]*>.*?<\/a><\/h\1>/gs);
  const path = [];
  for (let place = 0; place < parts.length; place += 4) {
    const [level, heading, anchor, content] = parts.slice(place, place + 4);
    path.length = level - 1;
    path[level - 1] = plain(heading).trim();
    yield { anchor, titles: path.filter(Boolean), text: plain(content) + WORDS + words(content).join(' ') };
  }
}

function words(html) {
  const named = [...html.matchAll(/<!-- search: (.*?) -->/g)].map(([, text]) => text);
  const cells = [...html.matchAll(/<tr>\s*<td[^>]*>(.*?)<\/td>/gs)];
  const names = cells.flatMap(([, cell]) => [...cell.matchAll(/<code[^>]*>(.*?)<\/code>/g)].map(([, code]) => plain(code)));
  return [...named, ...names.filter((name) => /^[\w-]+(\(\w*\))?$/.test(name))];
}

/** The text without tags and comments. */
function plain(html) {
  const text = html.replace(/<wbr>/g, '').replace(/<!--.*?-->/gs, ' ').replace(/<[^>]*>/g, ' ');
  return text.replace(/&lt;/g, '<').replace(/&gt;/g, '>').replace(/&quot;/g, '"').replace(/&#39;/g, "'").replace(/&amp;/g, '&');
}
