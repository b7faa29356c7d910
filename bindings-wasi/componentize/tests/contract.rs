//! What users and implementations of `wit/` rely on.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

use wit_parser::{InterfaceId, Resolve, Stability, TypeDefKind, WorldId, WorldItem, WorldKey};

type Tested = Result<(), Box<dyn Error>>;

struct Contract {
    resolve: Resolve,
    package: wit_parser::PackageId,
}

fn contract() -> Result<Contract, Box<dyn Error>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit"))?;
    Ok(Contract { resolve, package })
}

impl Contract {
    fn world(&self, name: &str) -> WorldId {
        self.resolve.packages[self.package].worlds[name]
    }

    fn interface(&self, name: &str) -> InterfaceId {
        self.resolve.packages[self.package].interfaces[name]
    }

    /// The names of a world's imports or exports.
    fn names<'a>(&self, items: impl IntoIterator<Item = (&'a WorldKey, &'a WorldItem)>) -> Vec<String> {
        let mut names: Vec<String> = items.into_iter().map(|(key, _)| self.resolve.name_world_key(key)).collect();
        names.sort();
        names
    }

    fn imports(&self, world: &str) -> Vec<String> {
        self.names(&self.resolve.worlds[self.world(world)].imports)
    }

    fn exports(&self, world: &str) -> Vec<String> {
        self.names(&self.resolve.worlds[self.world(world)].exports)
    }
}

const CONNECTION: &str = "leasehold:lock/connection@0.2.0";
const LOCKS: &str = "leasehold:lock/locks@0.2.0";

#[test]
fn the_lock_component_wants_a_connection_clocks_and_randomness_and_nothing_else() -> Tested {
    let contract = contract()?;
    let wanted = [
        CONNECTION,
        "wasi:clocks/monotonic-clock@0.3.0",
        "wasi:clocks/system-clock@0.3.0",
        "wasi:clocks/types@0.3.0",
        "wasi:random/random@0.3.0",
    ];
    assert_eq!(contract.imports("lock"), wanted);
    assert_eq!(contract.exports("lock"), [LOCKS]);
    Ok(())
}

#[test]
fn a_provider_exports_what_the_lock_imports_and_an_application_imports_what_it_exports() -> Tested {
    let contract = contract()?;
    assert_eq!(contract.exports("connection-provider"), [CONNECTION]);
    assert_eq!(contract.imports("connection-provider"), [""; 0]);
    assert_eq!(contract.imports("application"), [LOCKS]);
    Ok(())
}

/// Otherwise a component that imports `locks` would also import `connection`, and a host could give it the resources of
/// another component.
#[test]
fn each_interface_stands_by_itself() -> Tested {
    let contract = contract()?;
    for name in ["connection", "locks"] {
        let interface = &contract.resolve.interfaces[contract.interface(name)];
        for (name, id) in &interface.types {
            let foreign = matches!(contract.resolve.types[*id].kind, TypeDefKind::Type(wit_parser::Type::Id(_)));
            assert!(!foreign, "{name} is another interface's");
        }
    }
    Ok(())
}

#[test]
fn everything_that_can_block_is_async_and_nothing_else_is() -> Tested {
    let contract = contract()?;
    let at_once = ["name", "mode", "fence", "fences", "remaining-ms", "is-held", "nested", "token"];
    for interface in ["connection", "locks"] {
        for function in contract.resolve.interfaces[contract.interface(interface)].functions.values() {
            let expected = !at_once.contains(&function.item_name());
            assert_eq!(function.kind.is_async(), expected, "{}", function.name);
        }
    }
    Ok(())
}

#[test]
fn every_item_is_documented() -> Tested {
    let contract = contract()?;
    let mut bare = BTreeSet::new();
    for name in ["connection", "locks"] {
        let interface = &contract.resolve.interfaces[contract.interface(name)];
        let mut check = |item: String, docs: &wit_parser::Docs| {
            if docs.contents.is_none() {
                bare.insert(item);
            }
        };
        check(name.to_owned(), &interface.docs);
        for (function, item) in &interface.functions {
            check(function.clone(), &item.docs);
        }
        for (name, id) in &interface.types {
            let item = &contract.resolve.types[*id];
            check(name.clone(), &item.docs);
            let mut part = |part: &str, docs| check(format!("{name}.{part}"), docs);
            match &item.kind {
                TypeDefKind::Record(record) => record.fields.iter().for_each(|field| part(&field.name, &field.docs)),
                TypeDefKind::Variant(variant) => variant.cases.iter().for_each(|case| part(&case.name, &case.docs)),
                TypeDefKind::Enum(words) => words.cases.iter().for_each(|case| part(&case.name, &case.docs)),
                _ => {}
            }
        }
    }
    assert!(bare.is_empty(), "not documented: {bare:?}");
    Ok(())
}

/// A reader of a later version sees which items an older component can't have.
#[test]
fn every_item_says_since_which_version_it_exists() -> Tested {
    let contract = contract()?;
    let package = &contract.resolve.packages[contract.package];
    let mut items = Vec::new();
    for (name, id) in &package.worlds {
        let world = &contract.resolve.worlds[*id];
        items.push((name.clone(), &world.stability));
        for (key, item) in world.imports.iter().chain(&world.exports) {
            // An interface that is imported only for its types has no line in the world, and so no gate.
            if let WorldItem::Interface { stability, .. } = item
                && contract.resolve.name_world_key(key) != "wasi:clocks/types@0.3.0"
            {
                items.push((format!("{name}: {}", contract.resolve.name_world_key(key)), stability));
            }
        }
    }
    for (name, id) in &package.interfaces {
        let interface = &contract.resolve.interfaces[*id];
        items.push((name.clone(), &interface.stability));
        let functions = interface.functions.values();
        items.extend(functions.map(|function| (format!("{name}.{}", function.name), &function.stability)));
        let types = interface.types.iter();
        items.extend(types.map(|(kind, id)| (format!("{name}.{kind}"), &contract.resolve.types[*id].stability)));
    }
    assert!(items.len() > 50, "only {} items were found", items.len());
    items.retain(|(_, stability)| !matches!(stability, Stability::Stable { .. }));
    assert!(items.is_empty(), "without `@since`: {items:?}");
    Ok(())
}

/// All surfaces have these codes. They are the engine's names.
#[test]
fn the_errors_are_the_stable_codes_and_end_with_other() -> Tested {
    let contract = contract()?;
    let locks = &contract.resolve.interfaces[contract.interface("locks")];
    let TypeDefKind::Variant(kinds) = &contract.resolve.types[locks.types["error-kind"]].kind else {
        return Err("error-kind is no variant".into());
    };
    let names: Vec<&str> = kinds.cases.iter().map(|case| case.name.as_str()).collect();
    let shared = [
        "invalid-option",
        "not-held",
        "cross-slot",
        "wrong-kind",
        "conflict",
        "unsupported",
        "closed",
        "busy",
        "cancelled",
        "lost",
        "unreachable",
        "not-replicated",
        "auth",
        "server",
        "protocol",
        "other",
    ];
    assert_eq!(names, shared);
    Ok(())
}
