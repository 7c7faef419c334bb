//! Field names of the two dialects.

/// Line format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `DATE=… HOST=… PROG=… LVL=… NL.EVNT=… ID=…`
    Ulm,
    /// `ts=… event=… level=… guid=…`
    Bp,
}

/// Names of fields in one dialect.
#[allow(missing_docs)] // named after its content
pub struct Words {
    pub event: &'static [u8],
    pub id: &'static [u8],
    pub ns: &'static [u8],
    pub cpu: &'static [u8],
    pub latency: &'static [u8],
    pub from: &'static [u8],
    pub error: &'static [u8],
    pub process: &'static [u8],
    pub thread: &'static [u8],
    pub comm: &'static [u8],
    pub place: &'static [u8],
    pub netns: &'static [u8],
    pub again: &'static [u8],
    pub waited: &'static [u8],
    pub at_return: &'static [u8],
    pub src_ip: &'static [u8],
    pub src_port: &'static [u8],
    pub dst_ip: &'static [u8],
    pub dst_port: &'static [u8],
    pub proto: &'static [u8],
    pub volume: &'static [u8],
    pub status: &'static [u8],
    pub seq: &'static [u8],
    pub ip_id: &'static [u8],
    pub value: &'static [u8],
    pub message: &'static [u8],
    pub count: &'static [u8],
    pub reason: &'static [u8],
    pub kept: &'static [u8],
    pub hop: &'static [u8],
    pub poller: &'static [u8],
    pub total: &'static [u8],
    pub total_error: &'static [u8],
}

impl Words {
    /// The names of a dialect.
    pub fn of(dialect: Dialect) -> &'static Words {
        if dialect == Dialect::Ulm { &ULM } else { &BP }
    }
}

const ULM: Words = Words {
    event: b"NL.EVNT",
    id: b"ID",
    ns: b"MAG.NS",
    cpu: b"MAG.CPU",
    latency: b"MAG.LAT",
    from: b"MAG.FROM",
    error: b"MAG.ERR",
    process: b"PS",
    thread: b"MAG.TID",
    comm: b"CMD",
    place: b"MAG.NODE",
    netns: b"MAG.NETN",
    again: b"MAG.TRY",
    waited: b"MAG.WAIT",
    at_return: b"MAG.RET",
    src_ip: b"SRC.IP",
    src_port: b"SRC.PORT",
    dst_ip: b"DST.IP",
    dst_port: b"DST.PORT",
    proto: b"PROT",
    volume: b"VOL",
    status: b"STAT",
    seq: b"MAG.SEQ",
    ip_id: b"MAG.IPID",
    value: b"VAL",
    message: b"MSG",
    count: b"CNT",
    reason: b"MAG.RSN",
    kept: b"MAG.KEPT",
    hop: b"MAG.HOP",
    poller: b"MAG.POLL",
    total: b"MAG.ALL",
    total_error: b"MAG.AERR",
};

const BP: Words = Words {
    event: b"event",
    id: b"guid",
    ns: b"mag.ns",
    cpu: b"mag.cpu",
    latency: b"mag.latency_ns",
    from: b"mag.from",
    error: b"mag.half_width_ns",
    process: b"pid",
    thread: b"tid",
    comm: b"comm",
    place: b"mag.node",
    netns: b"mag.netns",
    again: b"mag.again",
    waited: b"mag.waited_ns",
    at_return: b"mag.at_return",
    src_ip: b"src.ip",
    src_port: b"src.port",
    dst_ip: b"dst.ip",
    dst_port: b"dst.port",
    proto: b"proto",
    volume: b"bytes",
    status: b"status",
    seq: b"mag.seq",
    ip_id: b"mag.ip_id",
    value: b"val",
    message: b"msg",
    count: b"count",
    reason: b"mag.reason",
    kept: b"mag.kept",
    hop: b"mag.hop",
    poller: b"mag.poller",
    total: b"mag.total_ns",
    total_error: b"mag.total_half_width_ns",
};
