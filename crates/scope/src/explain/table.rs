//! The table of labels.

/// A label, the term of the glossary that it rests on, and a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The text on the screen.
    pub label: &'static str,
    /// A bold term of `docs/glossary.md`.
    pub term: &'static str,
    /// What it means.
    pub words: &'static str,
}

const fn row(label: &'static str, term: &'static str, words: &'static str) -> Label {
    Label { label, term, words }
}

/// All labels but hops, pairs of hops and signals.
pub const TABLE: &[Label] = &[
    // Columns of numbers.
    row("p50", "percentile", "half of the times are at most this long"),
    row("p90", "percentile", "90 % of the times are at most this long"),
    row("p99", "percentile", "99 % of the times are at most this long"),
    row("max", "percentile", "the longest time"),
    row("n", "percentile", "number of times that were measured"),
    row("p50 before", "percentile", "half of the times of the first recording are at most this long"),
    row("p50 after", "percentile", "half of the times of the second recording are at most this long"),
    row("p99 before", "percentile", "99 % of the times of the first recording are at most this long"),
    row("p99 after", "percentile", "99 % of the times of the second recording are at most this long"),
    row("n before", "percentile", "number of times that were measured in the first recording"),
    row("n after", "percentile", "number of times that were measured in the second recording"),
    row("step", "step", "from one hop to the next one that is served"),
    row("on the mean", "step", "what the step adds to the mean time of a journey, second recording less first"),
    row("difference", "percentile", "whether the two recordings differ by more than their own spread"),
    row("events", "event", "events of this hop per second"),
    row("from → to", "step", "the two hops between which the time passed"),
    // Flows.
    row("flow", "flow", "protocol, addresses and ports, from sender to receiver"),
    row("processes", "flow", "the process that sends and the process that reads"),
    row("journeys", "journey", "ranges of a byte stream, or datagrams, followed over all hops"),
    row("failed", "lost", "journeys that the network dropped or lost"),
    row(
        "broken",
        "broken",
        "journeys that may lack an event, because the instrument missed events; their latencies are left out",
    ),
    row("resent", "resent", "journeys with more than one copy; each counts once"),
    row("bytes", "journey", "payload, without headers"),
    row("most of its time", "blame", "the part that most of the flow's time belongs to, and its share"),
    row(
        "longest, lately",
        "journey",
        "the longest journey in each of equal stretches of recent time, the newest at the right",
    ),
    row("packets", "sums", "packets that the kernel counted, without an event for each"),
    row("lately", "sums", "payload per second in the newest interval of the kernel's sums"),
    // Journeys and the ladder of one.
    row("total", "journey", "time from the first event of the journey to its last"),
    row("longest part", "blame", "the step that took longest, in words"),
    row("its time", "step", "the time that the longest step took"),
    row("began (UTC)", "journey", "time of day of the first event"),
    row("number", "journey", "running number of the journey in this capture"),
    row("whole journey", "journey", "time from the first event of a complete journey to its last"),
    row("hop", "hop", "named place in the stack where the event was taken"),
    row("at", "event", "time since the first event of the journey"),
    row("Δ", "step", "time since the hop before it in the same copy"),
    row("CPU", "event", "the CPU on which the event ran"),
    row("who", "event", "the thread whose call it is; below the socket layer none is known"),
    // Events.
    row("time (UTC)", "event", "time of day of the event"),
    row("after", "event", "time since the event in the row above"),
    row("sequence", "range", "first byte of the event's range, as TCP numbers it"),
    row("packet", "event", "address of the packet's buffer in the kernel; equal while it is the same packet"),
    row("detail", "detail", "the number that this kind of hop adds, such as a drop reason"),
    // Requests.
    row("service", "exchange", "port that is asked, and the process that answers"),
    row("turns", "grade", "share of the exchanges whose order of sends and reads proves a latency"),
    row("where the slowest go", "exchange", "the parts that take most of the time of the slowest requests"),
    row("request transfer", "exchange", "from the first send of the request to the read of its last byte"),
    row(
        "until answered",
        "until answered",
        "from the read of a request's last byte to the first send of its response",
    ),
    row("response transfer", "exchange", "from the first send of the response to the read of its last byte"),
    // The trigger.
    row("at (UTC)", "trigger", "time of day at which the trigger fired"),
    row("because", "trigger", "what met the condition of the trigger"),
    row("kept before", "pre-trigger", "length of the saved window before the trigger"),
    row("kept after", "trigger", "length of the saved window after the trigger"),
    // Parts of blame.
    row("the sender's stack", "blame", "the sender's call, IP, queueing discipline, up to the driver"),
    row(
        "held in TCP's send queue",
        "blame",
        "bytes that TCP accepted and does not send yet: window, Nagle, pacing",
    ),
    row("waiting for retransmission", "blame", "a copy was dropped or lost, and the next one was not sent yet"),
    row("the wire", "blame", "from the sender's driver to the receiver's"),
    row("forwarding", "forwarder", "inside the nodes that passed the packet on: bridges, routers, translators"),
    row("the receiver's stack", "blame", "from the receiver's driver to the socket, and the reader's wake-up"),
    row(
        "waiting for earlier bytes",
        "head of line",
        "bytes that arrived waited in the receiver's socket for earlier ones of their stream",
    ),
    row("waiting for a CPU", "blame", "the reader was woken and had no CPU yet"),
    row(
        "waiting for the reader",
        "blame",
        "the data were ready and the reader did not ask for them: busy, or asleep elsewhere",
    ),
    row("the reader's own call", "blame", "the reader's call, from being on a CPU to its return"),
    row("not observed", "blame", "between hops of which no served one separates the parts"),
    // Verdicts.
    row("complete", "verdict", "both ends are in the capture, and the journey reached its end"),
    row("half", "half-journey", "only one end is in the capture, and that half is complete"),
    row("lost", "lost", "journeys that were not seen again after a hop, although no record is missing"),
    row("dropped", "dropped", "packets that the kernel discarded, for a reason it gives"),
    row("in-flight", "in flight", "begun and not ended at the end of the capture"),
    row("in flight", "in flight", "journeys that have begun and not ended"),
    row("read-unseen", "verdict", "the reader is past these bytes, but no hop saw the read"),
    row("evicted", "verdict", "given up, because too many journeys were in flight"),
    row("not-probed", "verdict", "it reached the last hop of the capture; what followed is unknown"),
    row("filtered", "verdict", "later events may have been left out by a filter or a sampler of the capture"),
    row("discarded", "verdict", "its socket discarded it: closed with these bytes unread or unsent"),
    row("delivered", "verdict", "the kernel took it from the socket itself; no process reads it there"),
    // Counts.
    row(
        "events missed",
        "missed event",
        "records that did not reach user space: a loss of the instrument, never of the network",
    ),
    row("dropped or lost", "lost", "share of journeys that the network dropped or lost"),
    row("retransmits", "retransmit", "times that TCP sent again; a journey may have several"),
    row("without times", "journey", "journeys of further protocols, which are counted and not timed"),
    row("journeys/s", "journey", "journeys that ended per second, over the last seconds"),
    row("end seen", "verdict", "journeys whose end was observed, of all that ended"),
    row("late", "missed event", "events that arrived too late to be sorted into the order of time"),
    row(
        "overhead",
        "governor",
        "CPU time of this program and of its probes, and the fill level of its buffers",
    ),
    row("BUDGET", "budget", "the capture was reduced to keep to its share of the machine"),
    row("Σ the kernel adds up", "sums", "the kernel adds up times and packets in place of events"),
    row("the kernel adds up", "sums", "the kernel adds up times and packets in place of events"),
    row(
        "added up by the kernel",
        "sums",
        "times of packets and sockets that the kernel added up, not of journeys",
    ),
    row("payload at", "extent", "payload per second through this hop, and events per second"),
    // Causes of missed events.
    row(
        "ring buffer full",
        "missed event",
        "the kernel's buffer had no room, because this program read too slowly",
    ),
    row("gap in record numbers", "missed event", "records whose running number never came"),
    row("recorder queue full", "missed event", "the disk was slower than the capture"),
    row("damaged file", "missed event", "a part of the recording that cannot be read"),
    row("undecodable record", "missed event", "a record with a content that this version does not know"),
    row(
        "refused by the kernel",
        "missed event",
        "the kernel did not run a probe, because it was running already",
    ),
    row(
        "missed by the viewer",
        "missed event",
        "the agent's memory had let go of them before the viewer read them",
    ),
    row(
        "too late to be sorted",
        "missed event",
        "events that arrived too late to be sorted into the order of time",
    ),
    // Overhead.
    row("this program, of a core", "governor", "CPU time of this program over wall time"),
    row(
        "probes, of a core (est.)",
        "governor",
        "CPU time of the probes in the kernel, an estimate from a sample",
    ),
    row("per event", "governor", "mean time of one probe in the kernel"),
    row("of the machine, budget", "budget", "share of the machine that the capture uses, and may use"),
    row("so it captures", "governor", "what the capture was reduced to"),
    row("events of all probes", "event", "hits of all probes, filtered ones too"),
    row(
        "fullest ring buffer",
        "missed event",
        "fill level of the fullest buffer between the kernel and this program",
    ),
    // The state of picture and clock.
    row("live", "timebase", "the picture shows what happens now"),
    row("stopped", "timebase", "the picture stands still while the capture goes on"),
    row("replay", "recording", "a recording is played"),
    row("paused", "recording", "a recording stands still"),
    row("catching up", "recording", "a recording that is still being read"),
    row("connection lost", "agent", "no data come from these hosts until the connection is back"),
    row("ended", "recording", "there are no more data"),
    row("one clock", "bound", "sender and receiver have one clock: times across the wire are exact"),
    row("CERTIFIED", "CERTIFIED", "packets alone prove the bound of the two clocks"),
    row(
        "SUSPECT",
        "SUSPECT",
        "packets prove the bound, with a hint at a step of a clock that is too small for a proof",
    ),
    row("MODEL", "MODEL", "the bound rests on a model of the clocks' drift"),
    row("EXTERNAL", "EXTERNAL", "the bound rests on another time source"),
    row("HOLDOVER", "bound", "the bound grows since the last packets that proved it"),
    row("ONE-SIDED", "ONE-SIDED", "packets crossed in one direction only: the clocks have a bound on one side"),
    row("UNSYNCHRONISED", "bound", "nothing bounds the difference of the two clocks: halves are not joined"),
    row("counts time by", "epoch", "the kernel's clock source"),
    row("readings", "bound", "number of times that the clocks of this host were read together"),
    row("each is sure to", "bound", "error of one reading of the clocks"),
    row("UTC against monotonic", "epoch", "drift of the host's UTC against its monotonic clock"),
    row("UTC is right to", "bound", "error of UTC that the host's time service states"),
    row("UTC was set", "epoch", "number of steps of the host's UTC"),
    row("second less first", "bound", "difference of the two clocks in the middle of the picture"),
    row("sure to", "half width", "half of the interval that holds the true difference"),
    row("rests on", "CERTIFIED", "basis of the bound"),
    row("drift", "bound", "how fast the two clocks part, and the error of this"),
    row("shortest round trip", "bound", "shortest time there and back of packets between the two hosts"),
    row("packets that bound it", "bound", "packets in both directions that the bound rests on"),
    row("suspect", "SUSPECT", "a hint at a step of one of the clocks"),
    row("not seen is a step", "SUSPECT", "a step of a clock below this would stay unseen"),
    // The wire of the time line.
    row(
        "wire",
        "wire key",
        "between the sender's driver and the receiver's; its height is the bound of the clocks",
    ),
];
