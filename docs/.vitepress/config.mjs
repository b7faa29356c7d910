// The manual as a site: the pages of docs/, in the order of docs/README.md. `cargo xtask docs` runs this.
import { readFileSync } from 'node:fs';
import { posix, resolve } from 'node:path';
import { defineConfig } from 'vitepress';

const docs = resolve(import.meta.dirname, '..');
const REPOSITORY = 'https://github.com/leasehold/leasehold/blob/main/';

export default defineConfig({
  title: 'leasehold',
  description: 'Distributed locks over Redis and Valkey, with fencing tokens, fair queues and loss notification',
  outDir: process.env.LEASEHOLD_SITE,
  cacheDir: 'node_modules/.cache',
  // It may be served from any directory.
  base: process.env.LEASEHOLD_SITE_BASE ?? '/',
  rewrites: { 'README.md': 'index.md' },
  // The playground is no page of VitePress: `cargo xtask docs` puts it beside them.
  ignoreDeadLinks: [/\/playground\//],
  vite: { build: { chunkSizeWarningLimit: 1_000 } },
  markdown: { anchor: { slugify }, config: adapt },
  themeConfig: {
    search: { provider: 'local' },
    sidebar: sidebar(),
    outline: [2, 3],
    socialLinks: [{ icon: 'github', link: 'https://github.com/leasehold/leasehold' }],
  },
});

/** The sections and pages that docs/README.md lists. */
function sidebar() {
  const sections = [];
  for (const line of readFileSync(resolve(docs, 'README.md'), 'utf8').split('\n')) {
    const [, section] = /^\*\*(.+)\*\*$/.exec(line) ?? [];
    const [, text, page] = /^- \[(.+?)\]\((.+?)\.md\)/.exec(line) ?? [];
    if (section) sections.push({ text: section, items: [] });
    if (page) sections.at(-1).items.push({ text, link: `/${page}` });
  }
  return sections;
}

/** GitHub's anchors, so that a link works in both places. */
function slugify(heading) {
  return heading.trim().toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-');
}

function adapt(markdown) {
  markdown.core.ruler.push('leasehold', ({ tokens }) => {
    for (const token of tokens) {
      // ```rust,no_run and ```js no_run: the rest is for the tests.
      if (token.type === 'fence') token.info = token.info.split(/[,\s]/)[0];
      for (const child of token.children ?? []) if (child.type === 'link_open') lead(child);
    }
  });
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
