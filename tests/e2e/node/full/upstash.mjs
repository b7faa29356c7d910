// The tour over HTTP, in a request of a Worker.
import { overHttp } from '../programs/upstash.mjs';

export default {
  async fetch(request, { URL, TOKEN }) {
    try {
      await overHttp(URL, TOKEN);
      return new Response('toured');
    } catch (error) {
      return new Response(`${error.stack}`, { status: 500 });
    }
  },
};
