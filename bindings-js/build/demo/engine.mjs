// The JavaScript around the demo's WebAssembly. It replaces what wasm-bindgen writes, because building wasm-bindgen's tool takes longer
// than the whole demo. That is possible because the engine's arguments are only numbers and texts. `cargo xtask demo --node` tests it
// in CI.
//
// The module is as the compiler made it. The names that it exports end in a hash, and it imports functions that wasm-bindgen would
// remove.

let wasm;

export function initSync({ module: compiled }) {
  const imports = {};
  for (const { module, name } of WebAssembly.Module.imports(compiled)) {
    imports[module] ??= {};
    imports[module][name] = (address, length) => {
      throw new Error(name.includes('_throw_') ? textAt(address, length) : `the engine called ${name}`);
    };
  }
  const { exports } = new WebAssembly.Instance(compiled, imports);
  wasm = Object.fromEntries(Object.entries(exports).map(([name, value]) => [name.replace(/_[0-9a-f]{16}$/, ''), value]));
  return wasm;
}

/** The class `Engine` of bindings-js/src. The engine owns the bytes that it is given. */
export class Engine {
  #address = wasm.engine_new();

  start(id, prefix, servers) {
    return wasm.engine_start(this.#address, ...given(id), ...given(prefix), ...given(servers)) >>> 0;
  }

  input(kind, monotonic, wall) {
    return wasm.engine_input(this.#address, kind, monotonic, wall) >>> 0;
  }

  inputWithText(kind, monotonic, wall, text) {
    return wasm.engine_inputWithText(this.#address, kind, monotonic, wall, ...given(text)) >>> 0;
  }

  record(list) {
    return wasm.engine_record(this.#address, list) >>> 0;
  }

  lingering() {
    return wasm.engine_lingering(this.#address) >>> 0;
  }

  remaining(lease, monotonic, wall) {
    return wasm.engine_remaining(this.#address, lease, monotonic, wall);
  }

  setCluster(node) {
    wasm.engine_setCluster(this.#address, node);
  }

  free() {
    wasm.__wbg_engine_free(this.#address, 0);
  }
}

/** Copies bytes or a text to the module's memory. Returns their address and their length. */
function given(value) {
  const bytes = typeof value === 'string' ? new TextEncoder().encode(value) : value;
  const address = wasm.__wbindgen_malloc(bytes.length, 1) >>> 0;
  new Uint8Array(wasm.memory.buffer).set(bytes, address);
  return [address, bytes.length];
}

function textAt(address, length) {
  return new TextDecoder().decode(new Uint8Array(wasm.memory.buffer, address >>> 0, length >>> 0));
}
