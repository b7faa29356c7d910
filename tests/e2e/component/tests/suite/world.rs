//! What the component imports and exports.

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
