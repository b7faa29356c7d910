//! Fuzz target: the records and texts that cross between JavaScript and the engine.

use alloc::string::String;
use alloc::vec::Vec;

use leasehold_core::{ErrorCode, OutcomeKind, Reply};

use crate::codes::{Code, OUTCOMES, OutputKind};
use crate::engine::Engine;
use crate::generated::{input_fields, input_kinds};
use crate::number::whole;
use crate::reply;
use crate::text::Texts;

/// How many random inputs the test tries after its corpus.
const RANDOM: usize = 200;
/// An input with more steps would only take longer.
const MOST_STEPS: usize = 200;

/// Each line is an input: its kind, fields (`Op=1`), then after `|` the numbers of its list, and after another `|` its
/// text. `Start`, `Remaining`, `InMemory`, `Lingering`, `Renewals`, `Renewed`, `Cluster` and `Clock MONOTONIC
/// WALL` are the other calls.
///
/// No call panics, because in WebAssembly that would be a trap. An input that can't be read is refused with a null address.
/// Each record of outputs can be read to its end, as `output-reader.ts` does it.
#[test]
fn crossing() {
    bolero::check!(name = "crossing").with_iterations(RANDOM).for_each(|input| {
        let mut engine = Engine::new();
        let mut clock = (1_000.0, 1_800_000_000_000.0);
        let lines = input.split(|byte| *byte == b'\n').filter_map(|line| core::str::from_utf8(line).ok());
        for line in lines.filter(|line| !line.is_empty()).take(MOST_STEPS) {
            clock = (clock.0 + 1.0, clock.1 + 1.0);
            step(&mut engine, &mut clock, line);
        }
    });
}

fn step(engine: &mut Engine, clock: &mut (f64, f64), line: &str) {
    let mut parts = line.splitn(3, '|');
    let mut words = parts.next().unwrap_or_default().split_ascii_whitespace();
    let Some(verb) = words.next() else { return };
    let list: Vec<f64> =
        parts.next().unwrap_or_default().split(',').filter_map(|number| number.trim().parse().ok()).collect();
    let text = parts.next().unwrap_or_default();
    let numbers = words.clone().map(|word| word.parse().unwrap_or(f64::NAN));
    if verb == "Clock" {
        let numbers: Vec<f64> = numbers.collect();
        if let [monotonic, wall] = numbers[..] {
            *clock = (monotonic, wall);
        }
        return;
    }
    engine.write(words.filter_map(field), &list);
    let (monotonic, wall) = *clock;
    let address = match verb {
        "Start" => {
            let (prefix, servers) = text.split_once(' ').unwrap_or((text, ""));
            engine.start(&[7; 16][..list.len().min(16)], prefix.into(), &servers.replace(' ', "\n"))
        }
        "Remaining" => {
            let left = engine.remaining(list.first().copied().unwrap_or_default(), monotonic, wall);
            return assert!(!left.is_nan(), "{line}: no number");
        }
        "InMemory" => return engine.set_in_memory(),
        "Lingering" => {
            engine.lingering();
            let record = engine.outputs();
            return Reading::of(record, line).lingering();
        }
        #[cfg(not(feature = "quorum"))]
        "Renewals" => {
            engine.renewals(list.first().copied().unwrap_or_default());
            return Reading::of(engine.outputs(), line).renewals();
        }
        #[cfg(not(feature = "quorum"))]
        "Renewed" => {
            let number = |at: usize| list.get(at).copied().unwrap_or_default();
            return engine.renewed(number(0), number(1), number(2), number(3));
        }
        "Cluster" => {
            let node = list.first().copied().and_then(whole).and_then(|node| u16::try_from(node).ok());
            return engine.set_cluster(node.unwrap_or_default());
        }
        verb => {
            let kind = kind(verb);
            let address = engine.input_with_text(kind, monotonic, wall, text);
            let readable = usize::from(kind) < input_kinds().len();
            assert!(readable || address.is_null(), "{line}: there is no such kind, and it was taken");
            address
        }
    };
    if !address.is_null() {
        Reading::of(engine.outputs(), line).outputs();
    }
    check_reply(&list, text);
}

/// A reply has as many scalars as the list has pairs, and no text that was not there.
fn check_reply(list: &[f64], text: &str) {
    if let Some(Reply::List(scalars)) = reply::read(true, list, text) {
        assert_eq!(scalars.len() * 2, list.len(), "{list:?}");
    }
}

/// A kind by its name, or by its number.
fn kind(verb: &str) -> u8 {
    let at = input_kinds().iter().position(|kind| kind.eq_ignore_ascii_case(verb));
    at.and_then(|at| u8::try_from(at).ok()).or_else(|| verb.parse().ok()).unwrap_or(u8::MAX)
}

fn field(word: &str) -> Option<(usize, f64)> {
    let (name, value) = word.split_once('=')?;
    let position = input_fields().iter().position(|field| field.eq_ignore_ascii_case(name))?;
    Some((position, value.parse().ok()?))
}

/// Reads a record of outputs, as TypeScript does.
struct Reading<'a> {
    numbers: core::slice::Iter<'a, f64>,
    texts: Texts<'a>,
    line: &'a str,
    left: u64,
}

impl<'a> Reading<'a> {
    fn of((numbers, text): (&'a [f64], &'a [u8]), line: &'a str) -> Self {
        let text = core::str::from_utf8(text).unwrap_or_else(|error| panic!("{line}: {error} in {text:?}"));
        let (head, numbers) = numbers.split_at_checked(5).unwrap_or_else(|| panic!("{line}: the head is cut off"));
        assert_eq!(whole(head[4]), u64::try_from(text.len()).ok(), "{line}: the text's length");
        assert!(head[0] >= 0.0 && head[1] >= 0.0, "{line}: the times are {head:?}");
        let left = whole(head[2]).unwrap_or_else(|| panic!("{line}: {} outputs", head[2]));
        Self { numbers: numbers.iter(), texts: Texts::new(text), line, left }
    }

    fn outputs(mut self) {
        for _ in 0..self.left {
            self.output();
        }
        self.ends();
    }

    fn lingering(mut self) {
        for _ in 0..self.left {
            self.number();
            self.text();
        }
        self.ends();
    }

    #[cfg(not(feature = "quorum"))]
    fn renewals(mut self) {
        for _ in 0..self.left {
            self.numbers::<3>();
            self.command();
        }
        self.ends();
    }

    fn ends(&self) {
        assert_eq!(self.numbers.len(), 0, "{}: numbers are left", self.line);
        assert_eq!(self.texts.rest(), "", "{}: text is left", self.line);
    }

    fn output(&mut self) {
        let kind = self.number();
        if let Some(outcome) = OutcomeKind::read(kind - OUTCOMES) {
            self.number();
            return outcome.fields().iter().for_each(|(_, kind)| self.field(kind));
        }
        match OutputKind::read(kind).unwrap_or_else(|| panic!("{}: an output of kind {kind}", self.line)) {
            OutputKind::Send => {
                self.numbers::<2>();
                self.command();
            }
            OutputKind::SendDedicated => {
                self.number();
                self.text();
                self.command();
            }
            OutputKind::CloseDedicated => {
                self.number();
            }
            OutputKind::Subscribe | OutputKind::Unsubscribe => {
                self.text();
            }
            OutputKind::Leader => {
                let [_, fence, led] = self.numbers();
                assert!(fence.is_nan() || whole(fence).is_some(), "{}: {fence}", self.line);
                assert!(led >= 0.0, "{}: {led}", self.line);
                self.text();
            }
            OutputKind::Lost => {
                self.numbers::<2>();
            }
            OutputKind::Failed => self.failed(),
        }
    }

    fn field(&mut self, kind: &str) {
        match kind {
            "text" => {
                self.text();
            }
            "numbers" => {
                let count = self.number();
                for _ in 0..count as u32 {
                    self.number();
                }
            }
            "grant" => {
                let [_, shared, fence, until, local] = self.numbers();
                let flags = [shared, local].iter().all(|flag| [0.0, 1.0].contains(flag));
                assert!(flags && whole(fence).is_some() && until > 0.0, "{}: {fence} until {until}", self.line);
            }
            "inspection" => {
                let [_, _, _, _, holders, waiters] = self.numbers();
                for _ in 0..holders as u32 {
                    self.numbers::<4>();
                    self.text();
                }
                for _ in 0..waiters as u32 {
                    self.numbers::<3>();
                    self.text();
                }
            }
            _ => {
                self.number();
            }
        }
    }

    fn failed(&mut self) {
        let [_, code, ..] = self.numbers::<8>();
        assert!(ErrorCode::read(code).is_some(), "{}: the error {code}", self.line);
        self.text();
        self.number();
        self.text();
        let votes = self.number();
        for _ in 0..3 * votes as u32 {
            self.text();
        }
    }

    /// A command is an array of its words, in RESP.
    fn command(&mut self) {
        let command = self.text();
        let bytes = self.number();
        assert_eq!(whole(bytes), u64::try_from(command.len()).ok(), "{}: the command's length", self.line);
        let mut rest = command;
        let count = header(&mut rest, '*');
        for _ in 0..count {
            let length = header(&mut rest, '$');
            rest = rest.get(length..).and_then(|rest| rest.strip_prefix("\r\n")).expect("a word and its end");
        }
        assert_eq!(rest, "", "{}: more than the words", self.line);
    }

    fn number(&mut self) -> f64 {
        *self.numbers.next().unwrap_or_else(|| panic!("{}: a number is missing", self.line))
    }

    fn numbers<const COUNT: usize>(&mut self) -> [f64; COUNT] {
        core::array::from_fn(|_| self.number())
    }

    fn text(&mut self) -> &'a str {
        let length = self.number();
        self.texts.take(length).unwrap_or_else(|| panic!("{}: a text of {length} units is missing", self.line))
    }
}

/// `*3\r\n`
fn header(rest: &mut &str, kind: char) -> usize {
    let (line, after) = rest.strip_prefix(kind).and_then(|rest| rest.split_once("\r\n")).expect("a header");
    *rest = after;
    line.parse().expect("a number")
}

/// The engine's options, for the seeds.
#[test]
fn a_seed_that_starts_an_engine_does_so() {
    let mut engine = Engine::new();
    step(&mut engine, &mut (0.0, 0.0), START);
    let mut clock = (1.0, 1_800_000_000_001.0);
    step(&mut engine, &mut clock, "Acquire Op=1 Ttl=30000 Renew=1 Wait=60000||job");
    let (numbers, text) = engine.outputs();
    let text = String::from_utf8_lossy(text);
    assert!(numbers[2] > 0.0 && text.contains("EVALSHA"), "{numbers:?} {text}");
}

const START: &str = "Start LocalHandoffs=32 ClaimWindow=3000 ResponseTimeout=2000 NodeTimeout=100|1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16|";
