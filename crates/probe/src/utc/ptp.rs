//! Clock error from linuxptp's ptp4l: its management client's answers (`pmc -u -b 0 'GET …'`).
//!
//! ptp4l reports no error bound, but what one is made of. A clock that it follows is off from the grandmaster by its
//! measured offset, and by the asymmetry of the path, which is at most the mean path delay. The grandmaster states its own
//! accuracy (IEEE 1588-2019, table 5). Boundary clocks in between state nothing, so there is no bound then.
//!
//! A message that waited in a queue makes one offset smaller or larger than it is. So the largest of the last ones counts
//! ([`PtpOffsets`]).

use super::phc::PhcMeasure;
use super::{MOST_NS, UtcBound};
use std::collections::VecDeque;

/// What to ask for. linuxptp knows the last one from 4.0 on; earlier ones ignore it.
pub const REQUESTS: [&str; 6] = [
    "GET TIME_STATUS_NP",
    "GET CURRENT_DATA_SET",
    "GET PARENT_DATA_SET",
    "GET TIME_PROPERTIES_DATA_SET",
    "GET PORT_DATA_SET",
    "GET PORT_HWCLOCK_NP",
];
/// Validity of an answer.
const HOLDS_NS: u64 = 10_000_000_000;
/// Number of offsets that count, and how many of them are needed.
const OFFSETS: usize = 8;
const LEAST_OFFSETS: usize = 3;
/// Maximum drift of the card since the answer, parts per billion.
const GROWTH_PPB: u64 = 10_000;

/// A clock that ptp4l follows its grandmaster with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtpClaim {
    /// The last measured distance from the grandmaster, nanoseconds.
    pub offset_ns: u64,
    /// Maximum error of that and of the grandmaster, nanoseconds.
    pub error_ns: u64,
    /// TAI less UTC, nanoseconds.
    pub tai_less_utc_ns: i64,
    /// Number of the card's clock, where ptp4l states it.
    pub clock: Option<u32>,
}

/// The newest offsets that ptp4l measured.
#[derive(Clone, Debug, Default)]
pub struct PtpOffsets(VecDeque<u64>);

impl PtpOffsets {
    /// Adds one.
    pub fn push(&mut self, offset_ns: u64) {
        self.0.truncate(OFFSETS - 1);
        self.0.push_front(offset_ns);
    }

    /// The largest of the last ones.
    pub fn largest(&self) -> u64 {
        self.0.iter().copied().max().unwrap_or(0)
    }

    /// True if the largest is one to rely on.
    pub fn are_enough(&self) -> bool {
        self.0.len() >= LEAST_OFFSETS
    }

    /// True if ptp4l follows, and has measured less than all that count.
    pub fn are_few(&self) -> bool {
        (1..OFFSETS).contains(&self.0.len())
    }
}

/// The value of a name in an answer: one a line, behind spaces.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut words = text.lines().map(|line| line.trim().split_ascii_whitespace());
    words.find_map(|mut words| (words.next()? == name).then(|| words.next())?)
}

/// The number of the clock that all ports share.
fn clock(text: &str) -> Result<Option<u32>, &'static str> {
    let mut numbers = text.lines().filter_map(|line| line.trim().strip_prefix("phcIndex"));
    let Some(number) = numbers.next() else { return Ok(None) };
    if numbers.any(|other| other.trim() != number.trim()) {
        return Err("the ports of ptp4l have several clocks");
    }
    // -1: time stamps of software.
    number.trim().parse().map(Some).map_err(|_| "ptp4l does not follow with a card's clock")
}

/// Parses the answers of pmc.
///
/// # Errors
/// The reason why they are no bound.
pub fn parse(text: &str) -> Result<PtpClaim, &'static str> {
    let number = |name: &str| value(text, name)?.parse::<f64>().ok().filter(|number| number.is_finite());
    let malformed = "pmc's answer has no number where one belongs";
    if value(text, "gmPresent") != Some("true") {
        return Err("ptp4l has no grandmaster");
    }
    let mut states = text.lines().filter_map(|line| line.trim().strip_prefix("portState"));
    if !states.any(|state| state.trim() == "SLAVE") {
        return Err("no port of ptp4l follows a clock");
    }
    if number("stepsRemoved") != Some(1.0) {
        return Err("boundary clocks state no error");
    }
    if !["ptpTimescale", "currentUtcOffsetValid", "timeTraceable"].iter().all(|name| number(name) == Some(1.0))
    {
        return Err("the grandmaster does not serve TAI, or not its distance from UTC");
    }
    let accuracy = value(text, "gm.ClockAccuracy").and_then(|word| word.strip_prefix("0x"));
    let accuracy = accuracy.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or(malformed)?;
    let accuracy_ns = accuracy_ns(accuracy).ok_or("the grandmaster's accuracy is not known")?;
    let (offset, delay) = (number("offsetFromMaster"), number("meanPathDelay"));
    let (offset, delay) = (offset.ok_or(malformed)?, delay.ok_or(malformed)?);
    // Corrections of an asymmetric path can make a delay negative.
    let error_ns = accuracy_ns as f64 + delay.abs();
    let utc_offset_s = number("currentUtcOffset").filter(|s| s.abs() < 1e6).ok_or(malformed)?;
    if error_ns + offset.abs() > MOST_NS as f64 {
        return Err("ptp4l's offset is too wide to be a bound");
    }
    Ok(PtpClaim {
        offset_ns: offset.abs().ceil() as u64,
        error_ns: error_ns.ceil() as u64,
        tai_less_utc_ns: utc_offset_s as i64 * 1_000_000_000,
        clock: clock(text)?,
    })
}

/// Bounds of IEEE 1588's `clockAccuracy`, nanoseconds; `None` for unknown or more than ten seconds.
const fn accuracy_ns(code: u8) -> Option<u64> {
    Some(match code {
        // From a picosecond on.
        0x17..=0x20 => 25,
        0x21 => 100,
        0x22 => 250,
        0x23 => 1_000,
        0x24 => 2_500,
        0x25 => 10_000,
        0x26 => 25_000,
        0x27 => 100_000,
        0x28 => 250_000,
        0x29 => 1_000_000,
        0x2a => 2_500_000,
        0x2b => 10_000_000,
        0x2c => 25_000_000,
        0x2d => 100_000_000,
        0x2e => 250_000_000,
        0x2f => 1_000_000_000,
        0x30 => 10_000_000_000,
        _ => return None,
    })
}

/// The bound of `CLOCK_REALTIME` from ptp4l's clock, which is a card's (PHC) and shows TAI; `asked_ns` is the instant of
/// the question, and `offset_ns` the largest of the last offsets.
pub fn bound(claim: &PtpClaim, offset_ns: u64, measure: &PhcMeasure, asked_ns: u64) -> Option<UtcBound> {
    // REALTIME less UTC, where UTC is the card's clock less the offset of TAI.
    let ahead_ns = measure.offset.ns.checked_add(claim.tai_less_utc_ns)?;
    let ahead_ns = ahead_ns.unsigned_abs();
    let doubt_ns = measure.offset.half_ns.checked_add(claim.error_ns)?.checked_add(offset_ns)?;
    let as_of_ns = asked_ns.min(measure.as_of_ns);
    let growth_ppb = measure.growth_ppb?.saturating_add(GROWTH_PPB);
    Some(UtcBound {
        as_of_ns,
        void_after_ns: as_of_ns.saturating_add(HOLDS_NS),
        error_ns: ahead_ns.checked_add(doubt_ns)?.max(1),
        least_ns: ahead_ns.saturating_sub(doubt_ns),
        growth_ppb,
        rate: Some(measure.rate),
    })
}

#[cfg(test)]
mod tests {
    use super::super::phc::PhcOffset;
    use super::*;
    use proptest::prelude::*;

    /// Output of linuxptp 3.1.1 for a clock that follows another over one wire.
    const GOOD: &str = include_str!("pmc.txt");
    const TAI_NS: i64 = 37_000_000_000;

    fn read(ns: i64, half_ns: u64) -> PhcMeasure {
        PhcMeasure { as_of_ns: 5, offset: PhcOffset { ns, half_ns }, rate: 3 << 16, growth_ppb: Some(2_000) }
    }

    #[test]
    fn the_bound_is_offset_path_and_accuracy() {
        let claim = parse(GOOD).expect("a bound");
        assert_eq!(
            claim,
            PtpClaim { offset_ns: 125, error_ns: 100 + 1_658, tai_less_utc_ns: TAI_NS, clock: None }
        );
        // REALTIME is 400 ns ahead of UTC by the card, which shows TAI.
        let found = bound(&claim, 125, &read(400 - TAI_NS, 50), 7).expect("a bound");
        assert_eq!(found.error_ns, 400 + 50 + 1_883);
        // It holds from the earlier of the two instants, and for this rate of the wall clock.
        assert_eq!((found.as_of_ns, found.growth_ppb, found.rate), (5, 12_000, Some(3 << 16)));
        // A card that shows another time than the daemon steers it to.
        let wrong = bound(&claim, 125, &read(0, 50), 7).expect("a measurement");
        assert_eq!((wrong.error_at(7), wrong.least_ns), (None, TAI_NS as u64 - 50 - 1_883));
        // One reading does not show the drift of the wall clock.
        let first = PhcMeasure { growth_ppb: None, ..read(400 - TAI_NS, 50) };
        assert_eq!(bound(&claim, 125, &first, 7), None);
    }

    #[test]
    fn the_largest_of_the_last_offsets_counts() {
        let mut offsets = PtpOffsets::default();
        assert!(!offsets.are_few());
        offsets.push(700_000);
        for count in 2..=OFFSETS {
            assert!(offsets.are_few());
            offsets.push(20);
            assert_eq!((offsets.largest(), offsets.are_enough()), (700_000, count >= LEAST_OFFSETS));
        }
        assert!(!offsets.are_few());
        offsets.push(30);
        assert_eq!(offsets.largest(), 30);
    }

    /// Output of linuxptp 4.2 for two ports.
    fn with_clocks(first: &str, second: &str) -> String {
        let port = |number: u32, index: &str| {
            format!(
                "\t525400.fffe.900002-{number} seq 6 RESPONSE MANAGEMENT PORT_HWCLOCK_NP \n\t\tportIdentity            525400.fffe.900002-{number}\n\t\tphcIndex                {index}\n\t\tflags                   0\n"
            )
        };
        format!("{GOOD}{}{}", port(1, first), port(2, second))
    }

    #[test]
    fn the_card_is_the_one_that_ptp4l_states() {
        assert_eq!(parse(&with_clocks("3", "3")).map(|claim| claim.clock), Ok(Some(3)));
        assert_eq!(parse(&with_clocks("3", "4")), Err("the ports of ptp4l have several clocks"));
        assert_eq!(parse(&with_clocks("-1", "-1")), Err("ptp4l does not follow with a card's clock"));
    }

    #[test]
    fn answers_that_are_no_bound_are_refused() {
        let with = |from: &str, to: &str| {
            assert!(GOOD.contains(from), "{from}");
            parse(&GOOD.replace(from, to))
        };
        let refused = [
            ("gmPresent                  true", "gmPresent false"),
            ("SLAVE", "UNCALIBRATED"),
            ("stepsRemoved     1", "stepsRemoved 2"),
            ("ptpTimescale          1", "ptpTimescale 0"),
            ("currentUtcOffsetValid 1", "currentUtcOffsetValid 0"),
            ("timeTraceable         1", "timeTraceable 0"),
            ("gm.ClockAccuracy                      0x21", "gm.ClockAccuracy 0xfe"),
            ("gm.ClockAccuracy                      0x21", "gm.ClockAccuracy 33"),
            ("meanPathDelay    1658.0", "meanPathDelay inf"),
            ("offsetFromMaster 125.0", "offsetFromMaster 37000000125.0"),
        ];
        for (from, to) in refused {
            assert!(with(from, to).is_err(), "{to}");
        }
        for text in ["", "sending: GET PORT_DATA_SET\n", "portState SLAVE", "\0\u{a0}\n"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(with("meanPathDelay    1658.0", "meanPathDelay -3").is_ok_and(|claim| claim.error_ns == 103));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_answer_is_a_bound_worth_the_name_or_refused(
            words in prop::collection::vec(prop_oneof![any::<f64>().prop_map(|x| x.to_string()), "[-0-9.ex]{0,12}", "\\PC{0,8}"], 6),
            ns: i64,
            half_ns: u64,
        ) {
            let lines = GOOD.lines().zip(words.iter().cycle());
            let lines = lines.enumerate().map(|(at, (line, word))| {
                let name = line.trim().split(' ').next().unwrap_or_default();
                if at % 7 == word.len() % 7 { format!("{name} {word}\n") } else { format!("{line}\n") }
            });
            if let Ok(claim) = parse(&lines.collect::<String>()) {
                prop_assert!(claim.error_ns + claim.offset_ns <= MOST_NS + 2);
                let found = bound(&claim, claim.offset_ns, &read(ns, half_ns), 0);
                prop_assert!(found.is_none_or(|found| found.least_ns <= found.error_ns));
            }
        }

        /// The true error of REALTIME is inside, whichever signs its parts have.
        #[test]
        fn the_parts_add_up(
            card_ns in -1_000_000..1_000_000_i64,
            realtime_ns in -1_000_000_000..1_000_000_000_i64,
            half_ns in 0..1_000_000_i64,
            off in -1.0..1.0_f64,
        ) {
            let offset_ns = card_ns.unsigned_abs() / 2;
            let error_ns = card_ns.unsigned_abs() - offset_ns;
            let claim = PtpClaim { offset_ns, error_ns, tai_less_utc_ns: TAI_NS, clock: None };
            // The card is off from TAI, REALTIME from UTC, and the reading by up to its half width.
            let measured_ns = realtime_ns - (card_ns + TAI_NS) + (off * half_ns as f64) as i64;
            let found = bound(&claim, offset_ns, &read(measured_ns, half_ns as u64), 0).expect("a bound");
            prop_assert!((found.least_ns..=found.error_ns).contains(&realtime_ns.unsigned_abs()));
        }
    }
}
