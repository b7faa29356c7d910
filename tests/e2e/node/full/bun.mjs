// Runs one scenario in Bun, which then must end by itself.
import { readFileSync } from 'node:fs';
import { bunConnection } from 'leasehold/bun';
import { scenarios } from './scenarios.mjs';

const { url, urls, control } = JSON.parse(process.env.SCENARIO);
const tls = { ca: readFileSync(urls.ca, 'utf8') };
await scenarios[process.argv[2]]({
  open: (url) => bunConnection(url, url === urls.tls ? { tls } : {}),
  url,
  urls,
  order: async (...words) => (await fetch(control, { method: 'POST', body: JSON.stringify(words) })).json(),
});
console.log('as promised');
