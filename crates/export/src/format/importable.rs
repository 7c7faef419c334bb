//! The formats that can be imported, and what each cannot say.

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

/// A part of a report that a format may be unable to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omission {
    /// Events that are in no journey.
    EventsOfNoJourney,
    /// Bytes of events that are in no journey, such as those that `tcp.send` accepted and TCP did not send.
    BytesOfNoJourney,
    /// Which of several hosts lost records.
    HostsOfLosses,
    /// Names of senders without a hop of their socket.
    SendersOfPackets,
    /// Copies that the kernel dropped.
    DroppedCopies,
    /// Copies that a journey counts and does not list.
    CopiesLeftOut,
    /// Interfaces that dropped packets were at.
    InterfacesOfDrops,
    /// Journeys, and copies of them, that may be a neighbour's.
    Ambiguous,
    /// Earlier names of threads that had several.
    NamesOfThreads,
    /// Verdicts by what the capture or its reader left out.
    LeftOutVerdicts,
    /// Closed receive windows that bytes waited for.
    ReceiveWindows,
}

impl Omission {
    /// All of them.
    pub const ALL: [Omission; 11] = [
        Omission::EventsOfNoJourney,
        Omission::BytesOfNoJourney,
        Omission::HostsOfLosses,
        Omission::SendersOfPackets,
        Omission::DroppedCopies,
        Omission::CopiesLeftOut,
        Omission::InterfacesOfDrops,
        Omission::Ambiguous,
        Omission::NamesOfThreads,
        Omission::LeftOutVerdicts,
        Omission::ReceiveWindows,
    ];

    /// That a recording has it and the format does not, as the user reads it after a number.
    pub const fn words(self) -> &'static str {
        match self {
            Omission::EventsOfNoJourney => {
                "events belong to no journey or to a forwarder, and an import has none of them"
            }
            Omission::BytesOfNoJourney => {
                "bytes belong to no journey or to a forwarder, and an import has none of them"
            }
            Omission::HostsOfLosses => {
                "stretches of loss were one host's of several: verdicts near them allow for that on every host"
            }
            Omission::SendersOfPackets => "journeys have no line of their sender",
            Omission::DroppedCopies => "dropped copies have no line",
            Omission::CopiesLeftOut => "copies of bytes that were sent again were not kept and have no line",
            Omission::InterfacesOfDrops => "drops have no interface",
            Omission::Ambiguous => "journeys or copies are not marked as ambiguous",
            Omission::NamesOfThreads => "threads had several names, and all their journeys have one of them",
            Omission::LeftOutVerdicts => {
                "journeys are filtered, evicted, discarded or delivered in the kernel, and no line has why"
            }
            Omission::ReceiveWindows => {
                "journeys waited for a receive window, and an import has that time in the send queue"
            }
        }
    }
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

    /// The details that it cannot say. Its export or its import names each with a number; of all others the report
    /// of the import says what that of the original says.
    pub const fn lacks(self) -> &'static [Omission] {
        match self {
            Importable::Ulm | Importable::Bp => &[
                Omission::EventsOfNoJourney,
                Omission::BytesOfNoJourney,
                Omission::HostsOfLosses,
                Omission::CopiesLeftOut,
                Omission::NamesOfThreads,
                Omission::LeftOutVerdicts,
                Omission::ReceiveWindows,
            ],
            Importable::Trace => &[
                Omission::HostsOfLosses,
                Omission::SendersOfPackets,
                Omission::DroppedCopies,
                Omission::CopiesLeftOut,
                Omission::InterfacesOfDrops,
                Omission::Ambiguous,
                Omission::NamesOfThreads,
                Omission::LeftOutVerdicts,
                Omission::ReceiveWindows,
            ],
        }
    }

    /// What a recording of it cannot have, whatever was captured; empty where it has all that its lines have.
    pub const fn without(self) -> &'static str {
        match self {
            Importable::Ulm | Importable::Bp => "",
            Importable::Trace => {
                "a trace has no addresses, no byte ranges and no losses, so its events have no flow, no journey, no \
                 copies and no sender"
            }
        }
    }
}
