// The manual as a site: the pages of docs/, in the order of docs/README.md. `cargo xtask docs` runs this.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { defineConfig } from 'vitepress';

import { adapt, slugify } from './markdown.mjs';
import { search } from './search.mjs';

const ICON = 'data:image/svg+xml,' + encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#0969da"/>'
  + '<path d="M5.5 7V5.5a2.5 2.5 0 0 1 5 0V7" fill="none" stroke="#fff" stroke-width="1.5"/>'
  + '<rect x="4" y="7" width="8" height="5.5" rx="1" fill="#fff"/></svg>',
);
const docs = resolve(import.meta.dirname, '..');

export default defineConfig({
  title: 'leasehold',
  description: 'Distributed locks over Redis and Valkey, with fencing tokens, fair queues and loss notification',
  outDir: process.env.LEASEHOLD_SITE,
  cacheDir: 'node_modules/.cache',
  // Without an icon, each browser asks for /favicon.ico, which isn't there.
  head: [['link', { rel: 'icon', href: ICON }]],
  // It may be served from any directory.
  base: process.env.LEASEHOLD_SITE_BASE ?? '/',
  rewrites: { 'README.md': 'index.md' },
  // The playground is no page of VitePress: `cargo xtask docs` puts it beside them.
  ignoreDeadLinks: [/\/playground\//],
  vite: { build: { chunkSizeWarningLimit: 1_000 } },
  markdown: { anchor: { slugify }, config: adapt },
  themeConfig: {
    search: { provider: 'local', options: { miniSearch: search } },
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
    const [, text, page, type] = /^- \[(.+?)\]\((.+?)\.(md|html)\)/.exec(line) ?? [];
    if (section) sections.push({ text: section, items: [] });
    if (type === 'md') sections.at(-1).items.push({ text, link: `/${page}` });
    // Without the target, the site would look for a page of its own.
    if (type === 'html') sections.at(-1).items.push({ text, link: `/${page}.html`, target: '_self' });
  }
  return sections;
}
