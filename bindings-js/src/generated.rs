//! Writes the TypeScript modules that have the tables of the engine and of this crate, and compares the manual with the
//! tables. After a change of a table, run `LEASEHOLD_BLESS=1 cargo test -p leasehold-js`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use leasehold_core::{ErrorCode, FailureKind, LossReason, ReleaseOutcome};

use crate::codes::{ABSENT, Code, DECLARED, Declared, InputKind};

const HEADER: &str =
    "// Generated from the tables in Rust: `LEASEHOLD_BLESS=1 cargo test -p leasehold-js` writes this file.\n";
const WIDTH: usize = 120;

#[test]
fn typescript_has_these_codes() {
    check("ts/engine/codes.generated.ts", &codes());
}

#[test]
fn typescript_has_the_engines_errors() {
    check("ts/support/errors.generated.ts", &errors());
}

#[test]
fn the_manual_lists_every_error() {
    let manual = manual("errors.md");
    let codes: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.code()).collect();
    let rows = table_under(&manual, "| code |");
    let found: Vec<_> = rows.iter().filter_map(|row| row.first()?.strip_prefix('`')?.strip_suffix('`')).collect();
    assert!(found.len() == codes.len() && found.iter().copied().collect::<BTreeSet<_>>() == codes, "{found:?}");
    for (code, row) in found.iter().zip(&rows) {
        let retryable = ErrorCode::ALL.iter().any(|known| known.code() == *code && known.is_retryable());
        assert_eq!(row[1].contains("Retryable."), retryable, "{code}");
    }
    let losses: Vec<_> = LossReason::ALL.iter().map(|reason| format!("`{}`", reason.code())).collect();
    let losses = format!("A lease is lost with one of these reasons: {}", losses.join(", "));
    assert!(manual.contains(&losses), "the reasons of losses are not {losses}");
}

#[test]
fn a_code_is_read_as_it_is_written() {
    for (position, kind) in InputKind::ALL.iter().enumerate() {
        assert_eq!(kind.number(), f64::from(u8::try_from(position).unwrap()));
        assert_eq!(InputKind::read(kind.number()), Some(*kind));
    }
    for bad in [-1.0, 0.5, 23.0, 256.0, ABSENT] {
        assert_eq!(InputKind::read(bad), None, "{bad}");
    }
}

/// Compares a file with what it should be, or writes it.
fn check(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if env::var_os("LEASEHOLD_BLESS").is_some() {
        fs::write(&path, text).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "{file} is out of date: run `LEASEHOLD_BLESS=1 cargo test -p leasehold-js`");
}

fn manual(page: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page)).unwrap()
}

/// The cells of each row of the table with this head.
fn table_under<'a>(manual: &'a str, head: &str) -> Vec<Vec<&'a str>> {
    let table = manual.lines().skip_while(|line| !line.starts_with(head)).skip(2);
    let rows = table.map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.map(|row| row.split(" | ").collect()).collect()
}

fn codes() -> String {
    let mut module = HEADER.to_owned();
    for Declared { name, doc, variants } in DECLARED {
        module += "\n/**\n";
        for line in *doc {
            let _ = writeln!(module, " *{line}");
        }
        // In one comment before the object, because the bundler keeps comments inside of it.
        for (variant, about) in variants.iter().filter(|(_, about)| !about.is_empty()) {
            let _ = writeln!(module, " * - `{}`:{}", camel_case(variant), about.join("\n *  "));
        }
        let _ = writeln!(module, " */\nexport const {name} = {{");
        for (position, (variant, _)) in variants.iter().enumerate() {
            let _ = writeln!(module, "  {}: {position},", camel_case(variant));
        }
        module += "} as const;\n";
    }
    module
}

fn errors() -> String {
    let errors = rows(ErrorCode::ALL, |code| [code.code(), code.message(), code.about()]);
    let failures = rows(FailureKind::ALL, |kind| [kind.code(), kind.message(), kind.about()]);
    let losses = rows(LossReason::ALL, |reason| [reason.code(), reason.message(), reason.about()]);
    let outcomes = rows(ReleaseOutcome::ALL, |outcome| [outcome.code(), "", outcome.about()]);
    let retryable: Vec<_> = ErrorCode::ALL.iter().filter(|code| code.is_retryable()).map(|code| code.code()).collect();

    let mut module = HEADER.to_owned();
    union(
        &mut module,
        "ErrorCode",
        "The stable error codes. They are the same in Rust and in the WASI component",
        &errors,
    );
    union(&mut module, "LossReason", "How a lease was lost", &losses);
    union(&mut module, "ReleaseOutcome", "What a release did", &outcomes);
    module += "\n/** Why a command has no reply. */\nexport type Failure =\n";
    for [code, message, about] in &failures {
        let text = if message.contains('{') { "; readonly text: string" } else { "" };
        let _ = writeln!(module, "  /** {} */\n  | {{ readonly kind: '{code}'{text} }}", about.trim());
    }
    module.insert(module.len() - 1, ';');

    list(&mut module, "ERROR_CODES", "ErrorCode", errors.iter().map(|[code, ..]| *code));
    list(&mut module, "RETRYABLE", "ErrorCode", retryable.into_iter());
    list(&mut module, "LOSS_REASONS", "LossReason", losses.iter().map(|[code, ..]| *code));
    list(&mut module, "RELEASE_OUTCOMES", "ReleaseOutcome", outcomes.iter().map(|[code, ..]| *code));
    list(&mut module, "FAILURE_KINDS", "Failure['kind']", failures.iter().map(|[code, ..]| *code));
    messages(&mut module, "ERROR_MESSAGES", "ErrorCode", &errors);
    messages(&mut module, "LOSS_MESSAGES", "LossReason", &losses);
    messages(&mut module, "FAILURE_MESSAGES", "Failure['kind']", &failures);
    module
}

/// The code, the message and the meaning of each row of a table.
type Rows = Vec<[&'static str; 3]>;

fn rows<T>(table: &[T], row: impl Fn(&T) -> [&'static str; 3]) -> Rows {
    table.iter().map(row).collect()
}

/// A type with one text for each row, and a comment that explains all of them.
fn union(module: &mut String, name: &str, doc: &str, rows: &Rows) {
    let _ = writeln!(module, "\n/**\n * {doc}:\n *");
    for [code, _, about] in rows {
        let about = camel_case_options(about.trim());
        let mut line = format!(" * - `{code}`:");
        for word in about.split_whitespace() {
            if line.len() + 1 + word.len() > WIDTH {
                let _ = writeln!(module, "{line}");
                line = " *  ".to_owned();
            }
            line = line + " " + word;
        }
        let _ = writeln!(module, "{line}");
    }
    let _ = writeln!(module, " */\nexport type {name} =");
    for [code, ..] in rows {
        let _ = writeln!(module, "  | '{code}'");
    }
    module.insert(module.len() - 1, ';');
}

/// The texts of a table in the order of their numbers.
fn list<'a>(module: &mut String, name: &str, of: &str, codes: impl Iterator<Item = &'a str>) {
    let codes: Vec<_> = codes.map(|code| format!("  '{code}',\n")).collect();
    let _ = writeln!(module, "\nexport const {name}: readonly {of}[] = [\n{}];", codes.concat());
}

fn messages(module: &mut String, name: &str, of: &str, rows: &Rows) {
    let _ = writeln!(module, "\nexport const {name}: Readonly<Record<{of}, string>> = {{");
    for [code, message, _] in rows {
        let message =
            if message.contains("max_hold") { message.replace("max_hold", "maxHold") } else { (*message).to_owned() };
        let _ = writeln!(module, "  '{code}': '{message}',");
    }
    *module += "};\n";
}

/// Options have other names in JavaScript: `max_hold` in backticks becomes `maxHold`.
fn camel_case_options(text: &str) -> String {
    text.split('`')
        .enumerate()
        .map(|(at, part)| if at % 2 == 1 { camel_case_name(part) } else { part.to_owned() })
        .collect::<Vec<_>>()
        .join("`")
}

fn camel_case_name(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| name + &part[..1].to_uppercase() + &part[1..])
}

fn camel_case(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    first.to_lowercase() + rest
}
