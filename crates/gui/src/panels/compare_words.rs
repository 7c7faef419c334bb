//! Words of a comparison: the recording that was open is *before*, the other one *after*. The letters of the terminal's
//! text are those of cursors in a window.

use magscope_report::compare::{CaptureSide, LEAST_RUNS, Protocol, Share, Warning};
use magscope_scope::format::{count, percent};

/// Shares of journeys by their ends, as `magnet-scope compare` has them.
pub fn endings(protocol: &Protocol) -> String {
    let of = |n: u64, all: u64| percent(n as f64 / all.max(1) as f64).trim().to_owned();
    let each = |share: &Share| {
        let mark = if share.differs { " — differs" } else { "" };
        let figures = format!("{} → {}", of(share.a, share.of_a), of(share.b, share.of_b));
        format!("{} {figures} ({} → {}){mark}", share.kind, count(share.a), count(share.b))
    };
    let shares: Vec<String> = protocol.shares.iter().map(each).collect();
    format!("{}: how they ended: {}", protocol.proto.to_string().to_uppercase(), shares.join("; "))
}

/// Name of a side.
const fn name(side: CaptureSide) -> &'static str {
    match side {
        CaptureSide::A => "before",
        CaptureSide::B => "after",
    }
}

/// A warning, with the names of the sides in this window.
pub fn warning_words(warning: &Warning) -> String {
    match warning {
        // The dialog puts several recordings on one time line, which is one side.
        Warning::TooFewRuns(..) => format!(
            "recordings of the same thing differ too, and by how much takes at least {LEAST_RUNS} a side: no intervals \
             and no advice. This window compares one a side, `magnet-scope compare` in a terminal several"
        ),
        Warning::Settings(before, after) => {
            format!(
                "before was captured with {before}, after with {after}: their journeys are of different traffic"
            )
        }
        Warning::SettingsChanged(side, changes) => format!(
            "settings changed while *{}* was recorded: {changes}. Its journeys are not of the same traffic all the time",
            name(*side)
        ),
        Warning::LeftOut { hop, not_in, because: None } => {
            format!("{hop} was off in *{}*: left out", name(*not_in))
        }
        Warning::LeftOut { hop, not_in, because: Some(because) } => {
            format!("{hop} could not be had in *{}*: left out ({because})", name(*not_in))
        }
        Warning::OtherRoute { proto, route, other, n } => format!(
            "totals of {proto} are from {} to {}; {} journeys before and {} after were seen from {} to {}: left out of them",
            route.0, route.1, n.0, n.1, other.0, other.1
        ),
        Warning::EventsLost(side, n) => {
            format!("{n} events of *{}* were lost: journeys around them are not measured", name(*side))
        }
        Warning::ServicesLeftOut(side, n) => {
            format!("{n} requests of *{}* are of services beyond the first ones: left out", name(*side))
        }
        Warning::Host(before, after) => format!("before was taken on {before}, after on {after}"),
        Warning::Kernel(before, after) => format!("before ran on Linux {before}, after on Linux {after}"),
        Warning::Cpus(before, after) => format!("before had {before} CPUs, after {after}"),
        Warning::Backend(..) => warning.to_string(), // names no side
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::Hop;

    #[test]
    fn warnings_name_the_sides_as_the_window_does() {
        let all = [
            Warning::TooFewRuns(1, 1),
            Warning::Host("this".to_owned(), "that".to_owned()),
            Warning::Kernel("6.1".to_owned(), "6.12".to_owned()),
            Warning::Cpus("4".to_owned(), "8".to_owned()),
            Warning::Settings("this".to_owned(), "that".to_owned()),
            Warning::SettingsChanged(CaptureSide::A, "a filter".to_owned()),
            Warning::LeftOut { hop: Hop::DevDone, not_in: CaptureSide::B, because: None },
            Warning::LeftOut { hop: Hop::DevDone, not_in: CaptureSide::A, because: Some("why".to_owned()) },
            Warning::EventsLost(CaptureSide::B, 7),
            Warning::ServicesLeftOut(CaptureSide::A, 7),
        ];
        for warning in all {
            let words = warning_words(&warning);
            let is_letter = |word: &str| word == "A" || word == "B" || word == "A:" || word == "B:";
            assert!(!words.split(' ').any(is_letter), "{words}");
            assert!(!words.contains("-- B1"), "{words}");
        }
        assert!(warning_words(&Warning::EventsLost(CaptureSide::B, 7)).contains("after"));
    }
}
