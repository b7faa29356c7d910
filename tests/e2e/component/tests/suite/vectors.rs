//! The engine inside a component has the same outputs as everywhere else.

use std::fs;
use std::path::Path;

use leasehold_component_tests::{component_beside_lock, engine};
use wasmtime::Store;
use wasmtime::component::{Component, Linker};

#[test]
fn the_engine_in_a_component_replays_every_vector() {
    let component = component_beside_lock("vectors.wasm");
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../support/vectors");
    let (mut replayed, mut spoilt) = (0, 0);
    let mut differences = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let vector = fs::read_to_string(&path).unwrap();
        let found = replay(&component, &vector);
        differences.extend(found.into_iter().map(|text| format!("{}: {text}", path.display())));
        replayed += 1;
        let changed = vector.replace("\"fence\": 17", "\"fence\": 18");
        if changed != vector {
            assert!(!replay(&component, &changed).is_empty(), "{}: another fence was not noticed", path.display());
            spoilt += 1;
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(replayed >= 115 && spoilt >= 80, "only {replayed} vectors were found, {spoilt} with a fence");
}

/// How the engine's outputs differ from the vector's.
fn replay(component: &Component, vector: &str) -> Vec<String> {
    let mut store = Store::new(engine(), ());
    let instance = Linker::new(engine()).instantiate(&mut store, component).unwrap();
    let replay = instance.get_typed_func::<(&str,), (Vec<String>,)>(&mut store, "replay").unwrap();
    replay.call(&mut store, (vector,)).unwrap().0
}
