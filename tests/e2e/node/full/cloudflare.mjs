// Runs one scenario in a request of a Worker.
import { cloudflareConnection } from 'leasehold/cloudflare';
import { scenarios } from './scenarios.mjs';

export default {
  async fetch(request, { url, urls, control }) {
    const name = decodeURIComponent(new URL(request.url).pathname.slice(1));
    const order = async (...words) => (await fetch(control, { method: 'POST', body: JSON.stringify(words) })).json();
    try {
      await scenarios[name]({ open: cloudflareConnection, url, urls, order });
      return new Response('as promised');
    } catch (error) {
      return new Response(`${error.stack}`, { status: 500 });
    }
  },
};
