//! What the component imports and exports.

use std::fs;
use std::path::Path;
use std::process::Command;

use leasehold_component_tests::{engine, lock_component, tcp_component};

#[test]
fn it_imports_exactly_what_its_world_names_and_exports_locks() {
    let kind = lock_component().component_type();
    let mut imports: Vec<_> = kind.imports(engine()).map(|(name, _)| name.to_owned()).collect();
    imports.sort();
    let wanted = [
        "leasehold:lock/connection@0.2.0",
        "wasi:clocks/monotonic-clock@0.3.0",
        "wasi:clocks/system-clock@0.3.0",
        "wasi:clocks/types@0.3.0",
        "wasi:random/random@0.3.0",
    ];
    // An interface with only types has no function that a host must provide.
    imports.retain(|name| name != "wasi:clocks/types@0.3.0");
    let wanted: Vec<_> = wanted.into_iter().filter(|name| *name != "wasi:clocks/types@0.3.0").collect();
    assert_eq!(imports, wanted);
    let exports: Vec<_> = kind.exports(engine()).map(|(name, _)| name.to_owned()).collect();
    assert_eq!(exports, ["leasehold:lock/locks@0.2.0"]);
}

#[test]
fn the_one_that_connects_by_itself_needs_only_standard_wasi() {
    let kind = tcp_component().component_type();
    let mut imports: Vec<_> = kind.imports(engine()).map(|(name, _)| name.to_owned()).collect();
    imports.sort();
    let wanted = [
        "wasi:clocks/monotonic-clock@0.3.0",
        "wasi:clocks/system-clock@0.3.0",
        "wasi:random/random@0.3.0",
        "wasi:sockets/ip-name-lookup@0.3.0",
        "wasi:sockets/types@0.3.0",
    ];
    imports.retain(|name| name != "wasi:clocks/types@0.3.0");
    assert_eq!(imports, wanted);
    let exports: Vec<_> = kind.exports(engine()).map(|(name, _)| name.to_owned()).collect();
    assert_eq!(exports, ["leasehold:lock/locks@0.2.0"]);
}

/// A component that is composed with ours, or built with `wit/`, has its own copy of these packages. Both must be the same.
#[test]
fn the_packages_of_wasi_are_whole_and_as_the_host_has_them() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut metadata = Command::new(env!("CARGO"));
    metadata.args(["metadata", "--format-version", "1", "--locked"]).current_dir(here);
    let metadata = metadata.output().unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let host = packages.iter().find(|package| package["name"] == "wasmtime-wasi").unwrap();
    let host = Path::new(host["manifest_path"].as_str().unwrap()).with_file_name("src/p3/wit/deps");
    for ours in ["wit/deps/clocks.wit", "wit/deps/random.wit", "bindings-wasi/tcp-connection/wit/deps/sockets.wit"] {
        let ours = here.join("../../..").join(ours);
        let theirs = host.join(ours.file_name().unwrap());
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(read(&ours), read(&theirs), "{}", ours.display());
    }
}
