//! Formatting of numbers for a screen: three digits, fixed width, stable unit.
//!
//! Every function here pads to one width for all values, so that columns do not move.

use crate::channel::Unit;
use magscope_report::percent_of;

const DURATION_UNITS: [&str; 4] = ["ns", "µs", "ms", "s "];
const SI: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];

/// A day, nanoseconds.
pub const DAY_NS: i128 = 86_400_000_000_000;

/// Width of [`duration`], columns.
pub const DURATION_WIDTH: usize = 7;
/// Width of [`rate`], columns.
pub const RATE_WIDTH: usize = 8;
/// Width of [`bit_rate`], columns.
pub const BIT_RATE_WIDTH: usize = 9;
/// Width of [`bytes`], columns.
pub const BYTES_WIDTH: usize = 7;

/// Three digits in four columns: `1.92`, `41.2`, ` 412`. Values from 999.5 do not fit; see [`scaled`].
fn three_digits(value: f64) -> String {
    if value < 9.995 {
        format!("{value:4.2}")
    } else if value < 99.95 {
        format!("{value:4.1}")
    } else {
        format!("{value:4.0}")
    }
}

/// Divides by 1000 until three digits hold the value. Returns the text and the number of divisions, at most
/// `last`.
fn scaled(mut value: f64, last: usize) -> (String, usize) {
    if !value.is_finite() || value < 0.0 {
        value = 0.0;
    }
    let mut step = 0;
    while value >= 999.5 && step < last {
        value /= 1000.0;
        step += 1;
    }
    (three_digits(value), step)
}

/// A duration in 7 columns: `41.2 µs`, `1.92 ms`, ` 412 ns`.
pub fn duration(ns: u64) -> String {
    if ns < 1000 {
        return format!("{ns:4} ns"); // a clock with a resolution of nanoseconds has no tenths of one
    }
    let (digits, step) = scaled(ns as f64, DURATION_UNITS.len() - 1);
    format!("{digits} {}", DURATION_UNITS[step])
}

/// Drift between two clocks and its bound, parts per million: `+1.250 ±0.030 ppm`. With zero inside the bound
/// the sign is unknown.
pub fn drift((ppm, half_width): (f64, f64)) -> String {
    let interval = format!("{ppm:+.3} ±{half_width:.3} ppm");
    if ppm.abs() > half_width { interval } else { format!("not resolvable ({interval})") }
}

/// A duration without padding, for running text and scales: `41.2 µs`, `1 ms`.
pub fn short_duration(ns: u64) -> String {
    let (mut value, mut step) = (ns as f64, 0);
    while value >= 999.5 && step + 1 < DURATION_UNITS.len() {
        value /= 1000.0;
        step += 1;
    }
    let unit = DURATION_UNITS[step].trim_end();
    if (value - value.round()).abs() < 1e-9 {
        format!("{value:.0} {unit}")
    } else {
        format!("{} {unit}", three_digits(value).trim())
    }
}

/// Events per second in 8 columns: `18.2 k/s`, ` 412  /s`.
pub fn rate(per_s: f64) -> String {
    if per_s == 0.0 {
        return "   0  /s".to_owned();
    }
    let (digits, step) = scaled(per_s, SI.len() - 1);
    format!("{digits} {:1}/s", SI[step])
}

/// Payload bits per second from bytes per second, in 9 columns: `9.41 Gb/s`.
pub fn bit_rate(bytes_per_s: f64) -> String {
    if bytes_per_s == 0.0 {
        return "   0  b/s".to_owned();
    }
    let (digits, step) = scaled(bytes_per_s * 8.0, SI.len() - 1);
    format!("{digits} {:1}b/s", SI[step])
}

/// The mark of the kernel's sums.
pub const SUMMED: char = 'Σ';

/// A rate as an estimate, in as many columns: `≈18.2k/s`, `≈412  /s`.
pub fn estimate(rate: &str) -> String {
    marked('≈', rate)
}

/// A number that ends with its unit, marked, in as many columns: `Σ18.2k/s`, ` Σ412  B`.
pub fn marked(mark: char, rate: &str) -> String {
    let digits = rate.trim_start();
    let (spare, digits) = match rate.len() - digits.len() {
        // no blank in front of it: the one after the digits is removed
        0 => (0, digits.replacen(' ', "", 1)),
        blanks => (blanks - 1, digits.to_owned()),
    };
    format!("{}{mark}{digits}", " ".repeat(spare))
}

/// Bytes in 7 columns: `81.9 kB`, ` 412  B`.
pub fn bytes(count: u64) -> String {
    if count < 1000 {
        return format!("{count:4}  B");
    }
    let (digits, step) = scaled(count as f64, SI.len() - 1);
    format!("{digits} {:1}B", SI[step])
}

/// A whole number with its thousands apart: `18 204`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// A number of things: `1 journey`, `18 204 journeys`.
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// A plain amount in 6 columns: `   412`, `18.2 k`.
pub fn amount(n: u64) -> String {
    if n < 1000 {
        return format!("{n:6}");
    }
    let (digits, step) = scaled(n as f64, SI.len() - 1);
    format!("{digits} {:1}", SI[step])
}

/// Time of day from nanoseconds since midnight, to the microsecond: `14:02:07.310 211`.
pub fn utc_time(ns: u64) -> String {
    let (s, us) = (ns / 1_000_000_000, ns / 1000 % 1_000_000);
    let (hour, minute, second) = (s / 3600 % 24, s / 60 % 60, s % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{:03} {:03}", us / 1000, us % 1000)
}

/// A ratio as per cent in 6 columns: ` 0.7 %`, `  76 %`; `<0.1 %` for a small non-zero value.
pub fn percent(ratio: f64) -> String {
    let (value, has_decimal) = percent_of(if ratio.is_finite() { ratio.max(0.0) } else { 0.0 });
    if value > 0.0 && value < 0.05 {
        return "<0.1 %".to_owned();
    }
    if value < 9.95 || has_decimal { format!("{value:4.1} %") } else { format!("{value:4.0} %") }
}

/// A value of a signal in its unit, at most nine columns, and one more for a sign: `1.9 %`, `41.2 µs`, `−18.2 k`.
pub fn signal(unit: Unit, value: f64) -> String {
    let size = if value.is_finite() { value.abs() } else { 0.0 };
    let text = match unit {
        Unit::Time => duration(size as u64),
        Unit::Bytes => bytes(size as u64),
        Unit::BytesPerS => bit_rate(size),
        Unit::PerS => rate(size),
        Unit::Count => amount(size.round() as u64),
        Unit::Ratio => percent(size),
    };
    if value < 0.0 { format!("−{}", text.trim_start()) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_its_unit() {
        for (unit, value, text) in [
            (Unit::Ratio, 0.019_068_012_345, "1.9 %"),
            (Unit::Ratio, 0.76, "76 %"),
            (Unit::Time, 41_234.0, "41.2 µs"),
            (Unit::Bytes, 81_920.0, "81.9 kB"),
            (Unit::BytesPerS, 1e6, "8.00 Mb/s"),
            (Unit::PerS, 18_204.0, "18.2 k/s"),
            (Unit::Count, -412.0, "−412"),
            (Unit::Count, f64::NAN, "0"),
        ] {
            assert_eq!(signal(unit, value).trim(), text, "{unit:?} {value}");
        }
    }

    #[test]
    fn durations_keep_their_width() {
        let table: &[(u64, &str)] = &[
            (0, "   0 ns"),
            (412, " 412 ns"),
            (999, " 999 ns"),
            (1_000, "1.00 µs"),
            (9_994, "9.99 µs"),
            (9_996, "10.0 µs"),
            (41_234, "41.2 µs"),
            (999_499, " 999 µs"),
            (999_500, "1.00 ms"),
            (1_920_000, "1.92 ms"),
            (5_310_000_000, "5.31 s "),
            (999_000_000_000, " 999 s "),
        ];
        for (ns, text) in table {
            assert_eq!(duration(*ns), *text);
            assert_eq!(duration(*ns).chars().count(), DURATION_WIDTH);
        }
    }

    #[test]
    fn rates_and_bytes_keep_their_width() {
        for (value, text) in
            [(0.0, "   0  /s"), (18_204.0, "18.2 k/s"), (412.0, " 412  /s"), (2.5e6, "2.50 M/s")]
        {
            assert_eq!(rate(value), text);
        }
        assert_eq!(
            (estimate("18.2 k/s"), estimate(" 412  /s")),
            ("≈18.2k/s".to_owned(), "≈412  /s".to_owned())
        );
        assert_eq!(bit_rate(9.41e9 / 8.0), "9.41 Gb/s");
        assert_eq!(bit_rate(0.0), "   0  b/s");
        assert_eq!(bytes(81_920), "81.9 kB");
        assert_eq!(bytes(412), " 412  B");
        for exponent in 0..60 {
            let value = 1.7_f64.powi(exponent);
            assert_eq!(rate(value).chars().count(), RATE_WIDTH, "{value}");
            assert_eq!(bit_rate(value).chars().count(), BIT_RATE_WIDTH, "{value}");
            assert_eq!(bytes(value as u64).chars().count(), BYTES_WIDTH, "{value}");
            assert_eq!(estimate(&rate(value)).chars().count(), RATE_WIDTH, "{value}");
            assert_eq!(estimate(&bit_rate(value)).chars().count(), BIT_RATE_WIDTH, "{value}");
        }
    }

    #[test]
    fn what_is_no_number_prints_as_nothing_much() {
        assert_eq!(rate(f64::NAN), "0.00  /s");
        assert_eq!(percent(f64::INFINITY), " 0.0 %");
        assert_eq!(percent(0.0), " 0.0 %");
        assert_eq!(percent(0.0002), "<0.1 %");
        assert_eq!(percent(0.0005), " 0.1 %");
        assert_eq!(percent(0.007), " 0.7 %");
        assert_eq!(percent(0.76), "  76 %");
        assert_eq!(percent(0.997), "99.7 %");
        assert_eq!(percent(0.999_99), "99.9 %", "not all");
        assert_eq!(percent(1.0), " 100 %");
    }

    #[test]
    fn thousands_are_separated() {
        for (n, text) in [(0, "0"), (999, "999"), (18_204, "18 204"), (1_234_567, "1 234 567")] {
            assert_eq!(count(n), text);
        }
        assert_eq!(short_duration(1_000_000), "1 ms");
        assert_eq!(short_duration(212_400), "212 µs");
        assert_eq!(utc_time((14 * 3600 + 2 * 60 + 7) * 1_000_000_000 + 310_211_999), "14:02:07.310 211");
        assert_eq!((amount(412), amount(18_204)), ("   412".to_owned(), "18.2 k".to_owned()));
    }
}
