/** The parts of the hosts' own modules that are used here. Their published types can't be loaded together with those of Node. */

declare module 'bun' {
  export class RedisClient {
    constructor(url: string, options: object);
    onclose: ((error: Error) => void) | null;
    connect(): Promise<undefined | { readonly mode?: unknown }>;
    close(): void;
    send(command: string, args: string[]): Promise<unknown>;
    subscribe(channel: string, listener: (payload: string, channel: string) => void): Promise<unknown>;
    unsubscribe(channel: string): Promise<unknown>;
  }
}

declare module 'cloudflare:sockets' {
  export interface Socket {
    readonly readable: ReadableStream<Uint8Array>;
    readonly writable: WritableStream<Uint8Array>;
    readonly opened: Promise<unknown>;
    readonly closed: Promise<void>;
    close(): Promise<void>;
  }
  export function connect(address: { hostname: string; port: number }, options: { secureTransport: 'on' | 'off'; allowHalfOpen: boolean }): Socket;
}
