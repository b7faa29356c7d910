//! The record in which inputs arrive.
//!
//! TypeScript writes the numbers of an input into this module's memory, and then makes one call, with the kind and the text of
//! the input. A number that it does not write is absent. [`InputField`] has the fields, and [`InputKind`](crate::codes::InputKind)
//! says which of them an input has.

use alloc::vec;
use alloc::vec::Vec;
use leasehold_core::Duration;

use leasehold_core::{
    AcquireOptions, CallFields, CommandId, Failure, FailureKind, Family, Kind, KindFields, LeaseId, Mode, OpId, Owner,
    Part, Replicas, Reply, Setter, Wait,
};

use crate::codes::{ABSENT, Code, FIELDS, InputField, LOCK_OPTIONS};
use crate::number::{duration, small, whole};
use crate::text::Texts;
use crate::{failure, reply};

/// The fields, and the list behind them.
pub(crate) struct InputRecord {
    numbers: Vec<f64>,
}

impl InputRecord {
    pub(crate) fn new() -> Self {
        Self { numbers: vec![ABSENT; FIELDS] }
    }

    /// The address of the record, with room for a list of this length. The record moves when it grows.
    pub(crate) fn reserve(&mut self, list: usize) -> *mut f64 {
        let length = FIELDS.saturating_add(list);
        if self.numbers.len() < length {
            self.numbers.resize(length, ABSENT);
        }
        self.numbers.as_mut_ptr()
    }

    /// Makes all fields absent, so that nothing of this input gets into the next one.
    pub(crate) fn clear(&mut self) {
        self.numbers.iter_mut().take(FIELDS).for_each(|number| *number = ABSENT);
    }

    pub(crate) fn get(&self, field: InputField) -> Option<f64> {
        self.at(field as usize)
    }

    fn at(&self, position: usize) -> Option<f64> {
        self.numbers.get(position).copied().filter(|number| !number.is_nan())
    }

    /// The number of a field, [`ABSENT`] if there is none. No conversion in `number` accepts that.
    fn number(&self, field: InputField) -> f64 {
        self.get(field).unwrap_or(ABSENT)
    }

    pub(crate) fn flag(&self, field: InputField) -> bool {
        self.get(field).is_some()
    }

    pub(crate) fn op(&self) -> Option<OpId> {
        whole(self.number(InputField::Op)).map(OpId)
    }

    pub(crate) fn lease(&self) -> Option<LeaseId> {
        whole(self.number(InputField::Lease)).map(LeaseId)
    }

    pub(crate) fn command_id(&self) -> Option<CommandId> {
        whole(self.number(InputField::Id)).map(CommandId)
    }

    fn ttl(&self) -> Option<Duration> {
        duration(self.number(InputField::Ttl))
    }

    fn mode(&self) -> Mode {
        if self.flag(InputField::Shared) { Mode::Shared } else { Mode::Exclusive }
    }

    pub(crate) fn options(&self) -> Option<AcquireOptions> {
        let mut options = AcquireOptions {
            kind: self.kind()?,
            mode: self.mode(),
            ttl: self.ttl()?,
            renew: self.flag(InputField::Renew),
            wait: self.wait()?,
            within: self.duration(InputField::Within as usize)?,
            replicas: self.replicas()?,
            ..AcquireOptions::default()
        };
        options.set_plain(&mut self.setter(LOCK_OPTIONS))?;
        Some(options)
    }

    /// Sets plain options from the fields that begin here. None if one is out of range, or a time without default is absent.
    pub(crate) fn setter(&self, first: usize) -> impl FnMut(Setter<'_>) -> Option<()> {
        let mut fields = first..;
        move |setter| {
            let field = fields.next()?;
            match setter {
                Setter::Time(time) => *time = self.duration(field)??,
                Setter::OptionalTime(time) => *time = self.duration(field)?,
                Setter::Count(count) => *count = self.count(field)?,
                Setter::Flag(flag) => *flag = self.at(field).is_some(),
            }
            Some(())
        }
    }

    /// The parts of a lock on several names.
    pub(crate) fn parts<'a>(&self, text: &'a str) -> Option<Vec<Part<'a>>> {
        let mut texts = Texts::new(text);
        let mut parts = Vec::new();
        for numbers in self.list()?.chunks(3) {
            let [length, permits, limit] = *numbers else { return None };
            let (permits, limit) = (small(permits)?, small(limit)?);
            let kind = if permits > 0 { Kind::Semaphore { permits, limit } } else { Kind::Lock };
            let mode = if permits == 0 && limit > 0 { Mode::Shared } else { Mode::Exclusive };
            parts.push(Part { name: texts.take(length)?, kind, mode });
        }
        Some(parts)
    }

    pub(crate) fn reply(&self, text: &str) -> Option<Reply> {
        reply::read(self.flag(InputField::Array), self.list()?, text)
    }

    pub(crate) fn failure(&self, text: &str) -> Option<Failure> {
        Some(failure::read(FailureKind::read(self.number(InputField::Failure))?, text))
    }

    /// A channel or a token, and the text that follows it.
    pub(crate) fn channel<'a>(&self, text: &'a str) -> Option<(&'a str, &'a str)> {
        let mut texts = Texts::new(text);
        Some((texts.take(self.number(InputField::ChannelLength))?, texts.rest()))
    }

    fn list(&self) -> Option<&[f64]> {
        let length = small(self.number(InputField::ListLength))?;
        self.numbers.get(FIELDS..)?.get(..length)
    }

    fn kind(&self) -> Option<Kind> {
        let Some(kind) = self.get(InputField::Kind) else { return Some(Kind::Lock) };
        Family::at(small(kind)?)?.read(self)
    }

    fn wait(&self) -> Option<Wait> {
        match self.get(InputField::Wait) {
            None => Some(Wait::No),
            Some(f64::INFINITY) => Some(Wait::Forever),
            Some(wait) => duration(wait).map(Wait::For),
        }
    }

    /// None if it is there and out of range.
    fn replicas(&self) -> Option<Option<Replicas>> {
        // No server has so many that more would make a difference.
        let Some(min) = self.count(InputField::Replicas as usize)? else { return Some(None) };
        Some(Some(Replicas { min, timeout: duration(self.number(InputField::ReplicaTimeout))? }))
    }

    /// None if it is there and no whole number. A greater one than fits is out of the option's bounds.
    fn count(&self, position: usize) -> Option<Option<u32>> {
        let Some(count) = self.at(position) else { return Some(None) };
        Some(Some(u32::try_from(whole(count)?).unwrap_or(u32::MAX)))
    }

    /// None if it is there and out of range.
    fn duration(&self, position: usize) -> Option<Option<Duration>> {
        match self.at(position) {
            None => Some(None),
            Some(time) => duration(time).map(Some),
        }
    }
}

impl KindFields for InputRecord {
    fn owner(&self) -> Option<Owner> {
        whole(self.number(InputField::Owner)).map(Owner)
    }

    fn permits(&self) -> Option<u32> {
        small(self.number(InputField::Permits))
    }

    fn limit(&self) -> Option<u32> {
        small(self.number(InputField::Limit))
    }

    fn keep(&self) -> Option<Duration> {
        duration(self.number(InputField::Keep))
    }
}

/// The fields of a call that has no options. Its text is a name.
pub(crate) struct CallRecord<'a> {
    pub(crate) record: &'a InputRecord,
    pub(crate) text: &'a str,
}

impl<'a> CallFields<'a> for CallRecord<'a> {
    fn op(&self) -> Option<OpId> {
        self.record.op()
    }

    fn lease(&self) -> Option<LeaseId> {
        self.record.lease()
    }

    fn ttl(&self) -> Option<Duration> {
        self.record.ttl()
    }

    fn time(&self) -> Option<Option<Duration>> {
        self.record.duration(InputField::Ttl as usize)
    }

    fn mode(&self) -> Option<Mode> {
        Some(self.record.mode())
    }

    fn name(&self) -> Option<&'a str> {
        Some(self.text)
    }

    fn foreign(&self) -> Option<bool> {
        Some(self.record.flag(InputField::Foreign))
    }

    fn grace(&self) -> Option<Duration> {
        self.record.ttl()
    }

    fn value(&self) -> Option<&'a [u8]> {
        Some(self.text.as_bytes())
    }
}

#[cfg(test)]
impl InputRecord {
    /// Writes an input, as TypeScript does.
    pub(crate) fn write(&mut self, fields: impl Iterator<Item = (usize, f64)>, list: &[f64]) {
        self.reserve(list.len());
        self.numbers[FIELDS..][..list.len()].copy_from_slice(list);
        self.numbers[InputField::ListLength as usize] = crate::number::number(list.len() as u64);
        for (field, number) in fields {
            self.numbers[field] = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::MANAGER_OPTIONS;
    use crate::generated::{camel_case_name, input_fields};

    fn record(fields: &[(InputField, f64)], list: &[f64]) -> InputRecord {
        let mut record = InputRecord::new();
        record.reserve(list.len());
        record.numbers[FIELDS..].copy_from_slice(list);
        for (field, number) in fields {
            record.numbers[*field as usize] = *number;
        }
        record
    }

    #[test]
    fn what_is_not_written_is_absent() {
        let empty = InputRecord::new();
        assert_eq!((empty.op(), empty.ttl(), empty.mode()), (None, None, Mode::Exclusive));
        assert_eq!(empty.options(), None);

        let least = record(&[(InputField::Ttl, 10.0)], &[]).options();
        let ttl = Duration::from_millis(10);
        let options =
            AcquireOptions { kind: Kind::Lock, wait: Wait::No, renew: false, ttl, ..AcquireOptions::default() };
        assert_eq!(least, Some(options));
    }

    #[test]
    fn nothing_of_an_input_gets_into_the_next() {
        let mut record =
            record(&[(InputField::Ttl, 10.0), (InputField::Owner, 1.0), (InputField::ListLength, 1.0)], &[7.0]);
        assert!(record.options().is_some() && record.list() == Some(&[7.0]));
        record.clear();
        assert!(InputField::ALL.iter().all(|field| record.get(*field).is_none()));
        assert_eq!(record.list(), None);
    }

    #[test]
    fn a_number_out_of_range_is_not_absent() {
        for field in [InputField::Wait, InputField::Within, InputField::Kind] {
            assert_eq!(record(&[(InputField::Ttl, 10.0), (field, -1.0)], &[]).options(), None, "{field:?}");
        }
        // Any number sets a flag.
        let numbers = (LOCK_OPTIONS..MANAGER_OPTIONS).zip(AcquireOptions::PLAIN);
        for (position, _) in numbers.filter(|(_, row)| row.default != "false") {
            let mut record = record(&[(InputField::Ttl, 10.0)], &[]);
            assert!(record.options().is_some());
            record.write([(position, -1.0)].into_iter(), &[]);
            assert_eq!(record.options(), None, "{position}");
        }
        // Of each kind, each field must be there and within its range.
        for (position, kind) in Family::ALL.iter().enumerate() {
            let place = |name: &str| input_fields().iter().position(|field| *field == camel_case_name(name)).unwrap();
            let fields: Vec<_> = kind.fields().iter().map(|name| place(name)).collect();
            let read = |bad: Option<(usize, f64)>| {
                let kind = crate::number::number(position as u64);
                let mut record = record(&[(InputField::Ttl, 10.0), (InputField::Kind, kind)], &[]);
                record.write(fields.iter().map(|field| (*field, 2.0)).chain(bad), &[]);
                record.options().map(|options| options.kind.family())
            };
            assert_eq!(read(None), Some(*kind));
            for field in &fields {
                assert_eq!([-1.0, ABSENT].map(|bad| read(Some((*field, bad)))), [None; 2], "{kind:?}: {field}");
            }
        }
        for length in [-1.0, 0.5, 3.0] {
            assert_eq!(record(&[(InputField::ListLength, length)], &[1.0, 2.0]).list(), None, "{length}");
        }
    }

    #[test]
    fn texts_that_follow_each_other_are_taken_apart() {
        let list = [3.0, 0.0, 0.0, 2.0, 0.0, 1.0, 1.0, 2.0, 5.0];
        let lengths = record(&[(InputField::ListLength, 9.0)], &list);
        let [mutex, reader, permits] = [
            Part { name: "a😀", kind: Kind::Lock, mode: Mode::Exclusive },
            Part { name: "éz", kind: Kind::Lock, mode: Mode::Shared },
            Part { name: "s", kind: Kind::Semaphore { permits: 2, limit: 5 }, mode: Mode::Exclusive },
        ];
        assert_eq!(lengths.parts("a😀ézs"), Some(vec![mutex, reader, permits]));
        assert_eq!(lengths.parts("a"), None);
        assert_eq!(record(&[(InputField::ListLength, 2.0)], &list).parts("abc"), None);
        let channel = record(&[(InputField::ChannelLength, 2.0)], &[]);
        assert_eq!(channel.channel("é:payload"), Some(("é:", "payload")));
    }
}
