//! The operator `window`, which aggregates the events of a window into one event per group.

mod aggregate;
mod config;

use tremor_pdk::{
    Batch, Buffered, Component, ComponentContext, Error, EventMut, EventRef, Memory, Object,
    Operator, Output, Result, Value, ValueRef, Verdict, template::Field,
};

use self::{
    aggregate::{State, size},
    config::{Column, Config},
};
use super::{
    bounded::{Bounded, Evictions, Found, Slot},
    key::KeyBuffer,
};

/// Condition that ends a window.
#[derive(Clone, Copy)]
enum Size {
    /// Duration in ns.
    Time(u64),
    /// Number of events of a group.
    Events(u64),
}

struct Group {
    /// Values of the fields that identify the group.
    by: Box<[Value<'static>]>,
    states: Box<[State]>,
    buffered: Buffered,
    /// Size of the key and of the values that identify the group, in bytes.
    fixed: usize,
    /// Part of [`Windows::bytes`] that this group takes, as of the last batch that had events of the group.
    bytes: usize,
    /// `true` if the current batch has events of the group.
    is_touched: bool,
    /// Times of the first and the last event, in ns since the Unix epoch.
    first: u64,
    last: u64,
}

pub(crate) struct Windows {
    size: Size,
    by: Vec<Field>,
    columns: Vec<Column>,
    key: KeyBuffer,
    /// Open groups in the order of their first events.
    groups: Bounded<Group>,
    evictions: Evictions,
    /// Start of the open time window, or end of the last one if none is open, in ns since the Unix epoch. Events with
    /// an earlier time are late.
    begin: u64,
    /// Memory of the open groups, in bytes.
    bytes: usize,
    /// Reports `bytes` to the memory limit of the flow.
    memory: Memory,
    /// Groups of which the current batch has events.
    touched: Vec<Slot>,
    /// Rows that the current call emits.
    rows: Vec<Row>,
}

/// Result of a group.
struct Row {
    /// Time of the emitted event, in ns since the Unix epoch.
    time: u64,
    value: Value<'static>,
    /// Events from which the row was computed.
    buffered: Buffered,
}

const LATE: Verdict = Verdict::Port(0);

impl Component for Windows {
    const NAME: &str = "window";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        Self::of(config, context.memory())
    }
}

impl Operator for Windows {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.divert(batch, |event| self.take(event));
        for slot in self.touched.drain(..) {
            if let Some(group) = self.groups.try_get_mut(slot) {
                group.is_touched = false;
                let bytes = group.memory();
                self.bytes = self.bytes - group.bytes + bytes;
                group.bytes = bytes;
            }
        }
        self.count();
        self.emit(output)
    }

    fn due(&self) -> Option<u64> {
        match self.size {
            Size::Time(length) if self.groups.len() > 0 => Some(self.begin.saturating_add(length)),
            _ => None,
        }
    }

    fn on_time(&mut self, now: u64, output: &mut Output) -> Result<()> {
        if self.due().is_some_and(|due| due <= now) {
            self.close(false);
        }
        self.emit(output)
    }

    fn flush(&mut self, output: &mut Output) -> Result<()> {
        self.close(true);
        self.emit(output)
    }

    fn ports(&self) -> Vec<String> {
        vec!["late".to_owned()]
    }
}

impl Windows {
    fn of(config: Config, memory: Memory) -> Result<Self> {
        let size = match (config.every, config.events) {
            (Some(every), None) => Size::Time(every.ns()),
            (None, Some(events)) => Size::Events(events.get()),
            (every, _) => {
                let found = if every.is_some() { "both" } else { "none" };
                return Err(Error::configuration(format_args!(
                    "expected exactly one of `every` and `events`, found {found}"
                )));
            }
        };
        let columns =
            config.aggregates.0.into_iter().map(|(name, aggregate)| aggregate.compile(name));
        Ok(Self {
            size,
            by: config.by,
            columns: columns.collect::<Result<_>>()?,
            key: KeyBuffer::new(),
            groups: Bounded::new(config.max_groups.get()),
            evictions: Evictions::default(),
            begin: 0,
            bytes: 0,
            memory,
            touched: Vec::new(),
            rows: Vec::new(),
        })
    }

    /// Absorbs an event into its group, sends it to the port `late`, or rejects it.
    fn take(&mut self, absorbed: &EventMut<'_>) -> Verdict {
        let event = absorbed.get();
        if let Err(error) = self.check(event) {
            return Verdict::Reject(error);
        }
        if let Size::Time(length) = self.size {
            let now = event.ingest_ns();
            if now < self.begin {
                return LATE;
            }
            if now - self.begin >= length {
                self.close(false);
                self.begin = now - now % length;
            }
        }
        let slot = self.group(event);
        let group = self.groups.get_mut(slot);
        let verdict = group.buffered.absorb(absorbed);
        if !std::mem::replace(&mut group.is_touched, true) {
            self.touched.push(slot);
        }
        group.last = event.ingest_ns();
        for (column, state) in self.columns.iter().zip(&mut group.states) {
            if let Some(value) = column.value(event) {
                column.function.add(state, value);
            }
        }
        if matches!(self.size, Size::Events(events) if group.buffered.len() as u64 >= events) {
            let group = self.groups.remove(slot);
            self.push_row(group, false);
        }
        verdict
    }

    /// Checks that all aggregates accept the event, so that an event counts either in all of them or in none.
    fn check(&self, event: EventRef<'_>) -> Result<()> {
        for column in &self.columns {
            let Some(value) = column.value(event) else { continue };
            column.function.check(value).map_err(|expected| {
                let (name, field) = (&column.name, column.field.as_ref());
                let field = field.map(|field| format!(" at `{field}`")).unwrap_or_default();
                Error::bad_data(format_args!(
                    "the aggregate `{name}` expected {expected}{field}, found {value}"
                ))
            })?;
        }
        Ok(())
    }

    /// Returns the group of an event. Opens the group if it is not open.
    fn group(&mut self, event: EventRef<'_>) -> Slot {
        self.key.clear();
        self.by.iter().for_each(|field| self.key.push(field.get(event)));
        let (by, columns) = (&self.by, &self.columns);
        let value = |field: &Field| field.get(event).map(ValueRef::to_value);
        let key = self.key.key();
        let found = self.groups.find_or_insert(key, || Group {
            by: by.iter().map(|field| value(field).unwrap_or_default()).collect(),
            states: columns.iter().map(|column| column.function.begin()).collect(),
            buffered: Buffered::new(),
            fixed: key.len() + by.iter().filter_map(|it| it.get(event)).map(size).sum::<usize>(),
            bytes: 0,
            is_touched: false,
            first: event.ingest_ns(),
            last: event.ingest_ns(),
        });
        match found {
            Found::Known(slot) => slot,
            Found::New(slot, evicted) => {
                if let Some(group) = evicted {
                    self.evictions.count("window", "raise `max_groups`");
                    self.push_row(group, true);
                }
                slot
            }
        }
    }

    /// Updates the memory of the open groups.
    ///
    /// Time windows may exceed the memory limit, because they end by themselves. Windows of a number of events must not
    /// exceed it: while sources wait for memory, no event arrives that would end such a window.
    fn count(&mut self) {
        if let Size::Time(_) = self.size {
            return self.memory.resize(self.bytes);
        }
        while !self.memory.try_resize(self.bytes) && self.groups.len() > 1 {
            let Some(group) = self.groups.pop_oldest() else { return };
            self.evictions.count("window", "lower `max_groups`, or raise `--memory-limit`");
            self.push_row(group, true);
        }
    }

    /// Ends the windows of all groups.
    fn close(&mut self, is_partial: bool) {
        if self.groups.len() == 0 {
            return;
        }
        while let Some(group) = self.groups.pop_oldest() {
            self.push_row(group, is_partial);
        }
        if let Size::Time(length) = self.size {
            self.begin = self.begin.saturating_add(length);
        }
    }

    fn push_row(&mut self, group: Group, is_partial: bool) {
        let (start, end) = match self.size {
            Size::Time(length) => (self.begin, self.begin.saturating_add(length)),
            Size::Events(_) => (group.first, group.last),
        };
        let mut window = Object::with_capacity(4);
        window.insert("start", start);
        window.insert("end", end);
        window.insert("events", group.buffered.len() as u64);
        if is_partial {
            window.insert("partial", true);
        }
        let mut row = Object::with_capacity(2 + self.columns.len());
        row.insert("window", Value::Object(window));
        if !self.by.is_empty() {
            let mut by = Object::with_capacity(self.by.len());
            for (field, value) in self.by.iter().zip(group.by) {
                by.insert(field.to_string(), value);
            }
            row.insert("group", Value::Object(by));
        }
        for (column, state) in self.columns.iter().zip(group.states) {
            row.insert(column.name.clone(), column.function.end(state));
        }
        self.bytes -= group.bytes;
        let (value, buffered) = (Value::Object(row), group.buffered);
        self.rows.push(Row { time: end, value, buffered });
    }

    fn emit(&mut self, output: &mut Output) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        for Row { time, value, mut buffered } in self.rows.drain(..) {
            match buffered.emit(output, &value) {
                Ok(mut row) => row.set_ingest_ns(time),
                Err(error) => {
                    let mut window = Batch::new();
                    window.push(&value.get("window"))?;
                    buffered.reject(output, window, error);
                }
            }
        }
        if self.memory.used() > self.bytes {
            self.memory.resize(self.bytes);
        }
        Ok(())
    }
}

impl Group {
    /// Returns the approximate memory of the group, in bytes.
    fn memory(&self) -> usize {
        let states: usize = self.states.iter().map(State::memory).sum();
        size_of::<Self>() + self.fixed + states
    }
}

impl Column {
    /// Returns the value of an event for the aggregate.
    fn value<'b>(&self, event: EventRef<'b>) -> Option<ValueRef<'b>> {
        match &self.field {
            Some(field) => field.get(event).filter(|value| !value.is_null()),
            None => Some(ValueRef::NULL),
        }
    }
}

#[cfg(test)]
mod tests;
