//! Writes the TypeScript modules that have the tables of the engine and of this crate, and compares the manual with the
//! tables. After a change of a table, run `LEASEHOLD_BLESS=1 cargo test -p leasehold-js`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use leasehold_core::{
    AcquireOptions, BAD_FENCE, BROKE, CLOSE_SETTINGS, CROSS_SLOT, CallKind, Config, Ends, ErrorCode, FailureKind,
    Family, KEYDB, LABEL_RULES, LOCK_SETTINGS, LossReason, MANAGER_SETTINGS, NO_CLOCK, NO_MORE_CLIENTS, NO_RIGHT,
    NO_SLOTS, NOT_READY, OutcomeKind, PROBE, REFUSED_SERVERS, REFUSES_INFO, ReleaseOutcome, SLOT_MOVES,
    SUPPORTED_SERVERS, Setting, Supported, TOO_OLD, UNREACHED, WRONG_TYPE, slot_counters,
};

use crate::codes::{ABSENT, Code, DECLARED, Declared, InputField, InputKind, OutputKind};

pub(crate) const HEADER: &str =
    "// Generated from the tables in Rust: `LEASEHOLD_BLESS=1 cargo test -p leasehold-js` writes this file.\n";
pub(crate) const WIDTH: usize = 120;

#[test]
fn typescript_has_these_codes() {
    check("ts/engine/codes.generated.ts", &codes());
}

#[test]
fn typescript_has_the_engines_calls() {
    check("ts/engine/calls.generated.ts", &calls());
}

#[test]
fn typescript_has_the_engines_kinds() {
    check("ts/engine/kinds.generated.ts", &kinds());
}

#[test]
fn typescript_has_the_engines_outcomes() {
    check("ts/engine/outcomes.generated.ts", &outcomes());
}

#[test]
fn typescript_has_the_engines_errors() {
    check("ts/support/errors.generated.ts", &errors());
}

#[test]
fn typescript_refuses_the_same_servers() {
    check("ts/client/servers.generated.ts", &servers());
}

#[test]
fn typescript_has_the_engines_options() {
    check("ts/support/options.generated.ts", &options());
}

#[test]
fn the_manual_has_the_options() {
    let mut page = manual("options.md");
    let tables = [
        ("## Options of a lock", LOCK_SETTINGS),
        ("## Options of a manager", MANAGER_SETTINGS),
        ("## Options of a close", CLOSE_SETTINGS),
    ];
    for (heading, settings) in tables {
        let start = page.find(heading).unwrap();
        let start = start + page[start..].find("| --- |").or_else(|| page[start..].find("|---|")).unwrap();
        let start = start + page[start..].find('\n').unwrap() + 1;
        let end = start + page[start..].find("\n\n").unwrap() + 1;
        page.replace_range(start..end, &settings.iter().filter_map(row_of_manual).collect::<String>());
    }
    check("../docs/options.md", &page);
}

#[test]
fn the_manual_lists_every_error() {
    let manual = manual("errors.md");
    let codes: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.code()).collect();
    let rows = table_under(&manual, "| code |");
    let found: Vec<_> = rows.iter().filter_map(|row| row.first()?.strip_prefix('`')?.strip_suffix('`')).collect();
    let listed: BTreeSet<_> = found.iter().copied().collect();
    let wrong: Vec<_> = listed.symmetric_difference(&codes).collect();
    assert!(wrong.is_empty(), "docs/errors.md must have a row for each of these, or none: {wrong:?}");
    assert_eq!(found.len(), codes.len(), "docs/errors.md has a code twice: {found:?}");
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
    let after = InputKind::ALL.last().unwrap().number() + 1.0;
    for bad in [-1.0, 0.5, after, 256.0, ABSENT] {
        assert_eq!(InputKind::read(bad), None, "{bad}");
    }
}

/// Compares a file with what it should be, or writes it.
pub(crate) fn check(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if env::var_os("LEASEHOLD_BLESS").is_some() {
        // Another test may read the file at this moment.
        let new = path.with_extension("new");
        fs::write(&new, text).and_then(|()| fs::rename(new, &path)).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "{file} is out of date: run `LEASEHOLD_BLESS=1 cargo test -p leasehold-js`");
}

fn manual(page: &str) -> String {
    read(&format!("../docs/{page}"))
}

pub(crate) fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
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
        let variants = variants.iter().map(|(variant, _)| camel_case(variant)).collect();
        let variants: Vec<_> = match *name {
            "InputField" => input_fields(),
            "InputKind" => input_kinds(),
            _ => variants,
        };
        for (position, variant) in variants.iter().enumerate() {
            let _ = writeln!(module, "  {variant}: {position},");
        }
        module += "} as const;\n";
    }
    module
}

/// The calls of users that have no options, and how TypeScript writes each into the record.
fn calls() -> String {
    let mut module = HEADER.to_owned();
    module += "\nimport { InputField, InputKind } from './codes.generated.js';\nimport type { InputRecord } from './input-record.js';\n";
    module += "import type { Mode } from './types.js';\n";
    module += "\n/** The calls of users that have no options. `Input` in `core/src/event.rs` says what each does. */\n";
    module += "export abstract class Calls {\n  protected abstract readonly record: InputRecord;\n";
    module += "  protected abstract input(kind: number): void;\n";
    module += "  protected abstract inputWithText(kind: number, text: string): void;\n";
    for call in CallKind::ALL {
        let name = camel_case(&format!("{call:?}"));
        let (mut parameters, mut body, mut text) = (String::new(), String::new(), None);
        for field in call.fields() {
            let (kind, statement) = match *field {
                "name" | "value" => {
                    text = Some(*field);
                    ("string", String::new())
                }
                "mode" => ("Mode", "setFlag(InputField.shared, mode === 'shared')".to_owned()),
                "foreign" => ("boolean", "setFlag(InputField.foreign, foreign)".to_owned()),
                "time" => ("number | undefined", "setOptional(InputField.ttl, time)".to_owned()),
                "grace" => ("number", "set(InputField.ttl, grace)".to_owned()),
                field => ("number", format!("set(InputField.{field}, {field})")),
            };
            let _ = write!(parameters, ", {field}: {kind}");
            if !statement.is_empty() {
                let _ = writeln!(body, "    this.record.{statement};");
            }
        }
        let input = match text {
            Some(text) => format!("inputWithText(InputKind.{name}, {text})"),
            None => format!("input(InputKind.{name})"),
        };
        let _ =
            write!(module, "\n  {name}(op: number{parameters}): void {{\n    this.record.set(InputField.op, op);\n");
        let _ = writeln!(module, "{body}    this.{input};\n  }}");
    }
    module + "}\n"
}

/// The kinds of locks, and how TypeScript writes each into the record. A kind has its own fields, and the options that only its place
/// takes. The value of a campaign is no field of its kind.
fn kinds() -> String {
    let mut module = HEADER.to_owned();
    module +=
        "\nimport { InputField } from './codes.generated.js';\nimport type { InputRecord } from './input-record.js';\n";
    module += "\n/** The kinds of locks that the engine has, each with what only it has. `Kind` in `core/src/options.rs` says what each is. */\n";
    module += "export type EngineKind =\n";
    let mut cases = String::new();
    for (position, kind) in Family::ALL.iter().enumerate() {
        let code = kind.code();
        let _ = write!(module, "  | {{ readonly type: '{code}'");
        let _ = writeln!(cases, "    case '{code}':");
        if position > 0 {
            let _ = writeln!(cases, "      record.set(InputField.kind, {position});");
        }
        for field in kind.fields().iter().map(|name| camel_case_name(name)) {
            let _ = write!(module, "; readonly {field}: number");
            let _ = writeln!(cases, "      record.set(InputField.{field}, kind.{field});");
        }
        for option in AcquireOptions::PLAIN.iter().filter(|option| option.places == [code]) {
            let option = camel_case_name(option.name);
            let _ = write!(module, "; readonly {option}?: number | undefined");
            let _ = writeln!(cases, "      record.setOptional(InputField.{option}, kind.{option});");
        }
        module += if *kind == Family::Election { "; readonly value: string }\n" } else { " }\n" };
        cases += "      return;\n";
    }
    module.insert(module.len() - 1, ';');
    module += "\n/** Writes the kind of a lock, which is a mutex or a read-write lock if nothing is written. */\n";
    module += "export function writeKind(record: InputRecord, kind: EngineKind): void {\n  switch (kind.type) {\n";
    module + &cases + "  }\n}\n"
}

/// The outcomes of operations, and how TypeScript reads each.
fn outcomes() -> String {
    let mut module = HEADER.to_owned();
    module += "\nimport type { ReleaseOutcome } from '../support/errors.generated.js';\n";
    module += "import type { EngineError, Grant, Inspection } from './types.js';\n";
    module += "\n/** How a user's operation ended. */\nexport type Outcome =\n";
    for kind in OutcomeKind::ALL {
        let fields = kind.fields().iter().map(|(name, of)| {
            let of = match *of {
                "moment" => "number",
                "flag" => "boolean",
                "text" => "string",
                "numbers" => "readonly number[]",
                "grant" => "Grant",
                "released" => "ReleaseOutcome",
                "inspection" => "Inspection",
                other => other,
            };
            format!("; readonly {}: {of}", camel_case_name(name))
        });
        let _ = writeln!(module, "  /** {} */", kind.about().trim());
        let _ = writeln!(module, "  | {{ readonly kind: '{}'{} }}", kind.code(), fields.collect::<String>());
    }
    module += "  | { readonly kind: 'failed'; readonly error: EngineError };\n";
    module += "\n/** Reads a field of an outcome. */\nexport interface FieldReader {\n";
    for (name, of) in [
        ("number", "number"),
        ("moment", "number"),
        ("flag", "boolean"),
        ("text", "string"),
        ("numbers", "readonly number[]"),
        ("grant", "Grant"),
        ("released", "ReleaseOutcome"),
        ("inspection", "Inspection"),
        ("error", "EngineError"),
    ] {
        let _ = writeln!(module, "  {name}(): {of};");
    }
    module += "}\n\n/** The outcome of this kind of output. The fields follow each other in the record. */\n";
    module += "export function readOutcome(kind: number, read: FieldReader): Outcome {\n  switch (kind) {\n";
    for (position, kind) in OutcomeKind::ALL.iter().enumerate() {
        let fields = kind.fields().iter().map(|(name, of)| format!(", {}: read.{of}()", camel_case_name(name)));
        let (number, fields) = (OutputKind::ALL.len() + position, fields.collect::<String>());
        let _ = writeln!(module, "    case {number}:\n      return {{ kind: '{}'{fields} }};", kind.code());
    }
    module += "    default:\n      return { kind: 'failed', error: read.error() };\n  }\n}\n";
    module
}

/// The kinds of inputs, in JavaScript's case.
pub(crate) fn input_kinds() -> Vec<String> {
    let calls = CallKind::ALL.iter().map(|call| camel_case(&format!("{call:?}")));
    InputKind::ALL.iter().map(|kind| camel_case(&format!("{kind:?}"))).chain(calls).collect()
}

/// The fields of the record of inputs, in JavaScript's case.
pub(crate) fn input_fields() -> Vec<String> {
    let fields = InputField::ALL.iter().map(|field| camel_case(&format!("{field:?}")));
    let plain = AcquireOptions::PLAIN.iter().chain(Config::PLAIN);
    fields.chain(plain.map(|option| camel_case_name(option.name))).collect()
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
    list(&mut module, "NOT_READY", "string", NOT_READY.into_iter());
    list(&mut module, "NO_RIGHT", "string", NO_RIGHT.into_iter());
    list(&mut module, "CROSS_SLOT", "string", CROSS_SLOT.into_iter());
    list(&mut module, "UNREACHED", "string", UNREACHED.into_iter());
    list(&mut module, "BROKE", "string", BROKE.map(|words| words.replace('\n', "\\n")).iter().map(String::as_str));
    for (name, words) in [
        ("WRONG_TYPE", WRONG_TYPE),
        ("BAD_FENCE", BAD_FENCE),
        ("SLOT_MOVES", SLOT_MOVES),
        ("NO_MORE_CLIENTS", NO_MORE_CLIENTS),
    ] {
        let _ = writeln!(module, "\nexport const {name} = '{words}';");
    }
    messages(&mut module, "ERROR_MESSAGES", "ErrorCode", &errors);
    module += "\n/** How the message of a `busy` error says when the name may be free, before the time. */\nexport const BUSY_UNTIL = {\n";
    for ends in [Ends::Holder, Ends::Its, Ends::Window] {
        let _ = writeln!(module, "  {}: \"{}\",", camel_case(&format!("{ends:?}")), ends.text());
    }
    module += "} as const;\n";
    messages(&mut module, "LOSS_MESSAGES", "LossReason", &losses);
    messages(&mut module, "FAILURE_MESSAGES", "Failure['kind']", &failures);
    module
}

fn servers() -> String {
    let mut module = format!("{HEADER}\n");
    module.push_str("/** Servers that can't be used: what a line of their `INFO` begins with, and the problem around the rest of the line. */\n");
    module.push_str(
        "export const REFUSED_SERVERS: readonly (readonly [begin: string, before: string, after: string])[] = [\n",
    );
    for row in REFUSED_SERVERS {
        let _ = writeln!(module, "  {row:?},");
    }
    module.push_str("];\n\n/** What a line of KeyDB's `INFO server` begins with. */\n");
    let _ = writeln!(module, "export const KEYDB = {KEYDB:?};");
    module.push_str(
        "\n/** What an error reply to `INFO` says, in lower case, if the server doesn't tell about itself. */\n",
    );
    let _ = writeln!(module, "export const REFUSES_INFO: readonly string[] = {REFUSES_INFO:?};");
    module.push_str(
        "\n/** The servers that can be used: the oldest version, and the command that deletes a key by its value, since a version. */\n",
    );
    module.push_str("export const SUPPORTED_SERVERS = [\n");
    for Supported { name, version, oldest, command, deletes, .. } in SUPPORTED_SERVERS {
        let _ = writeln!(
            module,
            "  {{ name: {name:?}, version: {version:?}, oldest: {oldest:?}, command: {command:?}, deletes: {deletes:?} }},"
        );
    }
    module.push_str("] as const;\n\n/** What is wrong with a server that is too old: between its version and the one needed, and after that. */\n");
    let _ = writeln!(module, "export const TOO_OLD = {TOO_OLD:?} as const;");
    module.push_str("\n/** A script on keys of two slots. It writes nothing, and answers 0, or why scripts can't read the clock. */\n");
    let _ = writeln!(module, "export const PROBE: readonly string[] = {PROBE:?};");
    module.push_str(
        "\n/** If they can't: what the answer begins with, and the problem, before the server's refusal. */\n",
    );
    let _ = writeln!(module, "export const NO_CLOCK = {NO_CLOCK:?} as const;");
    module.push_str("\n/** What is wrong with the option: the server takes other calls, or why it doesn't tell. */\n");
    let _ = writeln!(module, "export const NO_SLOTS = {NO_SLOTS:?} as const;");
    module.push_str("\n/** The counters of 16 slots. One node of a cluster answers `MOVED` for some of them. */\n");
    let _ =
        writeln!(module, "export const SLOT_COUNTERS: readonly string[] = {:?};", slot_counters().collect::<Vec<_>>());
    module
}

pub(crate) fn settings() -> impl Iterator<Item = &'static Setting> {
    LOCK_SETTINGS.iter().chain(MANAGER_SETTINGS).chain(CLOSE_SETTINGS)
}

/// A row of the manual's table. None for what the manual explains elsewhere.
fn row_of_manual(setting: &Setting) -> Option<String> {
    let Setting { name, default, about, .. } = setting;
    let javascript = camel_case_name(name);
    let text = setting.bounds.text;
    let is_lock_label = *name == "label" && default == &"none";
    let (rust, default, bounds) = match *name {
        "limit" => return None,
        "permits" => ("`permits(n)`".to_owned(), *default, "1 to the limit".to_owned()),
        "one_script" => ("`one_script()`".to_owned(), *default, String::new()),
        "renew_in" => (String::new(), *default, String::new()),
        "drain" => ("`close_draining(d)`".to_owned(), *default, text.to_owned()),
        "wait" => ("`wait`".to_owned(), *default, format!("{text}, or forever")),
        "wait_for_replicas" => (format!("`{name}`"), *default, format!("timeout {text}")),
        "label" if is_lock_label => ("`label`".to_owned(), *default, "128 bytes".to_owned()),
        "label" => ("`label`".to_owned(), "`<host>/<process id>`", "128 bytes".to_owned()),
        _ => (format!("`{name}`"), *default, text.to_owned()),
    };
    let row = format!("| {rust} | `{javascript}` | {default} | {bounds} | {about} |\n");
    Some(row.replace("|  |", "| |"))
}

/// The defaults, the bounds, and which options each place takes.
fn options() -> String {
    let names = |place: &str, also: &str| {
        let at = |setting: &&Setting| {
            setting.places.contains(&place) && (also.is_empty() || !setting.places.contains(&also))
        };
        settings()
            .filter(at)
            .map(|setting| format!("'{}'", camel_case_name(setting.name)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut module = HEADER.to_owned();
    // The engine's record has its own two fields for the replicas.
    let of_lock = || LOCK_SETTINGS.iter().filter(|it| it.places.contains(&"lock") && it.name != "wait_for_replicas");
    module += "\n/** How many replicas must have a lease, and how long to wait for them, in milliseconds. */\n";
    module += "export interface ReplicaSettings {\n  readonly min: number;\n  readonly timeout: number;\n}\n";
    module += "\n/** The options of a lock, once they are read. Durations are in milliseconds. A `wait` of `Infinity` waits forever. */\n";
    module += "export interface LockSettings {\n";
    for Setting { name, default, .. } in of_lock() {
        let kind = match (*name, *default) {
            // A call that does not wait leaves it out, and must say so.
            ("wait", _) => ": number | undefined",
            ("label", _) => "?: string | undefined",
            (_, "none") => "?: number | undefined",
            (_, "false") => "?: boolean | undefined",
            (_, "true") => ": boolean",
            _ => ": number",
        };
        let _ = writeln!(module, "  readonly {}{kind};", camel_case_name(name));
    }
    module += "  /** How many replicas must have the lease before the caller gets it. */\n";
    module += "  readonly replicas?: ReplicaSettings | undefined;\n";
    module += "  /** How long a call that does not wait may take, if this is shorter than the response timeout. */\n";
    module += "  readonly within?: number | undefined;\n}\n";
    let fields = of_lock().map(|it| camel_case_name(it.name)).collect::<Vec<_>>().join(", ");
    let without_wait = fields.replace("wait,", "wait: undefined,");
    module += "\n/** The settings of a call that doesn't wait for the lock: its `wait` limits how long the server may take. Not a spread, which is slow. */\n";
    let _ = writeln!(module, "export function withoutWait({{ {fields}, replicas }}: LockSettings): LockSettings {{");
    let _ =
        writeln!(module, "  return {{ {without_wait}, replicas, within: wait === Infinity ? undefined : wait }};\n}}");
    defaults(&mut module, "LOCK_DEFAULTS: LockSettings", "a lock", &of_lock().collect::<Vec<_>>());
    let of_once: Vec<_> = settings().filter(|it| it.places == ["once"] && !it.default.is_empty()).collect();
    defaults(&mut module, "ONCE_DEFAULTS", "a once", &of_once);
    let of_manager: Vec<_> = MANAGER_SETTINGS
        .iter()
        .filter(|it| !it.default.is_empty() && !matches!(it.name, "renew_in" | "cluster_slots"))
        .collect();
    defaults(&mut module, "MANAGER_DEFAULTS", "a manager", &of_manager);
    let fields = input_fields();
    let sent = of_lock().map(|it| camel_case_name(it.name)).filter(|name| fields.contains(name));
    let sent: Vec<_> = sent.map(|name| format!("'{name}'")).collect();
    module += "\n/** The options of a lock that the engine gets. */\n";
    let _ = writeln!(module, "export const FOR_ENGINE = [{}] as const;", sent.join(", "));
    module += "\n/** The bounds: the least value, the greatest, and both in words. Durations are in milliseconds. */\n";
    module += "export const BOUNDS = {\n";
    for Setting { name, bounds, .. } in settings().filter(|setting| !setting.bounds.text.is_empty()) {
        let (name, least, most) =
            (camel_case_name(name), with_underscores(bounds.least), with_underscores(bounds.most));
        let _ = writeln!(module, "  {name}: [{least}, {most}, '{}'],", bounds.text);
    }
    module += "} as const;\n";
    let counts = settings().filter(|setting| setting.is_count()).map(|setting| camel_case_name(setting.name));
    let counts: Vec<_> = counts.map(|name| format!("'{name}'")).collect();
    module += "\n/** The options that are numbers, and no durations. */\n";
    let _ = writeln!(module, "export const COUNTS: readonly string[] = [{}];", counts.join(", "));
    module += "\n// The options that each place takes, in the order in which messages list them.\n";
    let lock = names("lock", "");
    let _ = writeln!(module, "export const LOCK = [{lock}] as const;");
    let _ = writeln!(module, "export const MANAGER = [{}] as const;", names("manager", ""));
    let _ = writeln!(module, "export const QUORUM = [...MANAGER, {}] as const;", names("quorum", ""));
    let _ = writeln!(module, "export const CLOSE = [{}] as const;", names("close", ""));
    for (constant, place) in [("SEMAPHORE", "semaphore"), ("ONCE", "once"), ("MULTI", "multi")] {
        let own = names(place, "lock");
        let others = settings().filter(|setting| setting.places.contains(&"lock") && setting.places.contains(&place));
        let others: Vec<_> = others.map(|setting| format!("'{}'", camel_case_name(setting.name))).collect();
        let _ = writeln!(module, "export const {constant} = [{own}, {}] as const;", others.join(", "));
    }
    module += "\n/** What all clients' labels keep to: numbers, and times in milliseconds. `core/src/labels.rs` explains them. */\n";
    module += "export const LABEL_RULES = {\n";
    for (name, value) in LABEL_RULES {
        let _ = writeln!(module, "  {}: {},", camel_case_name(name), with_underscores(u64::try_from(*value).unwrap()));
    }
    module += "} as const;\n";
    module
}

fn defaults(module: &mut String, constant: &str, of: &str, settings: &[&Setting]) {
    let _ = writeln!(module, "\n/** The defaults of {of}. Durations are in milliseconds. */");
    let _ = writeln!(module, "export const {constant} = {{");
    for Setting { name, default, default_number, .. } in settings {
        let value = match *default {
            // The manager's object is its own type.
            "none" if constant == "MANAGER_DEFAULTS" => "undefined as number | undefined".to_owned(),
            "none" => "undefined".to_owned(),
            "empty" => "''".to_owned(),
            "true" | "false" => (*default).to_owned(),
            _ => with_underscores(*default_number),
        };
        let _ = writeln!(module, "  {}: {value},", camel_case_name(name));
    }
    *module += "};\n";
}

/// A number as TypeScript writes it: `30_000`.
fn with_underscores(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('_');
        }
        text.push(digit);
    }
    text
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
    let quote = |text: &str| if text.contains('\'') { '"' } else { '\'' };
    let codes: Vec<_> = codes.map(|code| format!("  {0}{code}{0},\n", quote(code))).collect();
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
pub(crate) fn camel_case_options(text: &str) -> String {
    text.split('`')
        .enumerate()
        .map(|(at, part)| if at % 2 == 1 { camel_case_name(part) } else { part.to_owned() })
        .collect::<Vec<_>>()
        .join("`")
}

pub(crate) fn camel_case_name(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| name + &part[..1].to_uppercase() + &part[1..])
}

pub(crate) fn camel_case(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    first.to_lowercase() + rest
}
