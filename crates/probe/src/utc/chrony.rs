//! Clock error from chronyd: `chronyc -n -c tracking`, one line of 14 fields.
//!
//! The chrony manual defines *an absolute bound on the computer's clock accuracy (assuming the stratum-1
//! computer is correct)*: `|system time offset| + root dispersion + root delay / 2`.

use super::{MOST_NS, UtcBound};

/// Validity of an answer.
const HOLDS_NS: u64 = 60_000_000_000;
/// chronyd's default for the rate error of an unmeasured clock, parts per million.
const CLOCK_ERROR_PPM: f64 = 1.0;
/// Maximum plausible drift relative to chronyd's estimate, parts per million.
const MOST_PPM: f64 = 1000.0;

/// Parses the answer from an instant of `CLOCK_MONOTONIC`.
///
/// # Errors
/// The reason why the answer is no bound: bad format, not synchronised, or synchronised only to itself.
pub fn parse(line: &str, as_of_ns: u64) -> Result<UtcBound, &'static str> {
    let fields: Vec<&str> = line.trim_end_matches(['\r', '\n']).split(',').collect();
    let [reference, _, stratum, _, offset, _, _, _, residual, skew, delay, dispersion, _, leap] =
        fields.as_slice()
    else {
        return Err("chronyc's answer does not have 14 fields");
    };
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|x| x.is_finite());
    let malformed = "chronyc's answer has no number where one belongs";
    let stratum: u8 = stratum.trim().parse().map_err(|_| malformed)?;
    let reference = u32::from_str_radix(reference.trim(), 16).map_err(|_| malformed)?;
    if *leap == "Not synchronised" || reference == 0 || !(1..16).contains(&stratum) {
        return Err("chronyd is not synchronised");
    }
    // 127.127.1.x: the machine's own clock as reference, without another source.
    if reference >> 8 == 0x7f_7f01 {
        return Err("chronyd is synchronised to nothing but its own clock");
    }
    let mut numbers = [0.0; 5];
    for (number_of, text) in numbers.iter_mut().zip([offset, residual, skew, delay, dispersion]) {
        *number_of = number(text).ok_or(malformed)?;
    }
    let [offset, residual, skew, delay, dispersion] = numbers;
    // Correction of asymmetric delays can make a root delay negative; a dispersion or a skew cannot be
    // negative.
    if dispersion < 0.0 || skew < 0.0 {
        return Err("chronyc's answer has a negative dispersion");
    }
    let error_ns = (offset.abs() + dispersion + delay.abs() / 2.0) * 1e9;
    let growth_ppm = residual.abs() + skew + CLOCK_ERROR_PPM;
    if error_ns > MOST_NS as f64 || growth_ppm > MOST_PPM {
        return Err("chronyd's bound is too wide to be one");
    }
    Ok(UtcBound {
        as_of_ns,
        void_after_ns: as_of_ns.saturating_add(HOLDS_NS),
        error_ns: (error_ns.ceil() as u64).max(1),
        least_ns: 0,
        growth_ppb: (growth_ppm * 1e3).ceil() as u64,
        rate: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Output of chronyd 4.3 for a client of a server on the same machine, so that the true offset is 0.
    const GOOD: &str = "0A630001,10.99.0.1,3,1795277159.405919249,-0.000002541,-0.000000050,0.000000445,-0.026,-0.003,0.139,0.000010512,0.000001066,0.3,Normal\n";
    /// Output of that server, which follows its own clock.
    const OWN: &str = "7F7F0101,,2,1795277152.414160735,0.000000000,0.000000000,0.000000000,0.000,0.000,0.000,0.000000000,0.000000000,0.0,Normal\n";

    #[test]
    fn the_bound_is_that_of_the_manual() {
        let bound = parse(GOOD, 7).expect("a bound");
        assert_eq!(bound.error_ns, 2_541 + 1_066 + 10_512 / 2);
        assert_eq!((bound.as_of_ns, bound.growth_ppb), (7, 1_142));
    }

    #[test]
    fn a_hardware_clock_as_reference_is_a_bound() {
        let line = GOOD.replace("0A630001,10.99.0.1,3,", "50484330,PHC0,1,");
        assert_eq!(parse(&line, 7), parse(GOOD, 7));
    }

    #[test]
    fn what_is_no_bound_is_refused() {
        let with = |from: &str, to: &str| parse(&GOOD.replace(from, to), 0);
        assert_eq!(with("Normal", "Not synchronised"), Err("chronyd is not synchronised"));
        assert_eq!(with("0A630001", "00000000"), Err("chronyd is not synchronised"));
        assert_eq!(with(",3,", ",16,"), Err("chronyd is not synchronised"));
        assert_eq!(parse(OWN, 0), Err("chronyd is synchronised to nothing but its own clock"));
        assert!(with("0.000001066", "-0.00005").is_err_and(|e| e.contains("negative")));
        assert!(with("0.000001066", "NaN").is_err() && with("0.000001066", "inf").is_err());
        assert!(with("0.000001066", "11.5").is_err_and(|e| e.contains("too wide")));
        assert!(with("0.139", "5000").is_err_and(|e| e.contains("too wide")));
        for nothing in ["", "506 Cannot talk to daemon", ",,,,,,,,,,,,,"] {
            assert!(parse(nothing, 0).is_err(), "{nothing}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn anything_at_all_is_a_bound_worth_the_name_or_refused(
            fields in prop::collection::vec(prop_oneof![any::<f64>().prop_map(|x| x.to_string()), "[0-9A-F]{8}", "[-0-9.e]{0,12}", "\\PC{0,8}", Just("3".to_owned()), Just("Normal".to_owned())], 12..16),
            as_of_ns in any::<u64>(),
        ) {
            if let Ok(bound) = parse(&fields.join(","), as_of_ns) {
                prop_assert!((1..=MOST_NS).contains(&bound.error_ns) && bound.growth_ppb <= 1_000_000);
            }
        }

        #[test]
        fn one_wrong_field_never_panics(at in 0..14_usize, text in "\\PC{0,20}") {
            let mut fields: Vec<&str> = GOOD.trim().split(',').collect();
            fields[at] = &text;
            let _ = parse(&fields.join(","), 0);
        }
    }
}
