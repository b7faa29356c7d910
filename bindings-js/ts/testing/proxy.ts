/** An address that leads to another server after a while, or to none. */

import { type AddressInfo, connect, createServer } from 'node:net';

export interface Proxy {
  readonly port: number;
  /** The port that new connections lead to. The others stay, as with a name in DNS. */
  target: number;
  /** Refuses new connections. */
  close(): void;
}

export async function startProxy(target: number): Promise<Proxy> {
  const server = createServer((incoming) => {
    const outgoing = connect(proxy.target, '127.0.0.1');
    incoming.pipe(outgoing).pipe(incoming);
    for (const [socket, other] of [[incoming, outgoing], [outgoing, incoming]] as const) {
      socket.on('error', () => socket.destroy());
      socket.on('close', () => other.destroy());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = (): void => void server.close();
  const proxy: Proxy = { port: (server.address() as AddressInfo).port, target, close };
  return proxy;
}
