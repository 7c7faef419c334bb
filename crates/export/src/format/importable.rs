//! The formats that can be imported.

/// A format that a recording can be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importable {
    /// `NetLogger`'s ULM lines.
    Ulm,
    /// `NetLogger`'s later lines.
    Bp,
    /// `MAGNeT`'s binary traces.
    Trace,
}

impl Importable {
    /// All of them.
    pub const ALL: [Importable; 3] = [Importable::Ulm, Importable::Bp, Importable::Trace];

    /// The format of a file that begins with these bytes: a log is text, and a trace has zeros at its beginning.
    pub fn of(begin: &[u8]) -> Self {
        if begin.contains(&0) {
            return Importable::Trace;
        }
        // Each line says for itself which of the two it is.
        if begin.starts_with(b"ts=") { Importable::Bp } else { Importable::Ulm }
    }

    /// What a recording of it cannot have, whatever was captured; empty where it has all that its lines have.
    pub const fn without(self) -> &'static str {
        match self {
            Importable::Ulm | Importable::Bp => "",
            Importable::Trace => {
                "a trace has no addresses and no byte ranges, so its events have no flow and no journey"
            }
        }
    }
}
