//! Dates and times of day in UTC, without time zones.

/// Year, month and day of a day counted from 1970-01-01 (Howard Hinnant, *chrono-compatible low-level date algorithms*).
pub const fn civil(day: i64) -> (i64, u8, u8) {
    let z = day.saturating_add(719_468);
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * month_from_march + 2) / 5 + 1) as u8;
    let month = (if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 }) as u8;
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// The day counted from 1970-01-01 of a date, if there is such a date.
pub fn day(year: i64, month: u8, of_month: u8) -> Option<i64> {
    if !(1..=12).contains(&month) || !(-200_000..=200_000).contains(&year) {
        return None;
    }
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let of_era = y.rem_euclid(400);
    let from_march = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let of_year = (153 * from_march + 2) / 5 + i64::from(of_month) - 1;
    let day = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    // Rejects the 31st of a shorter month.
    (civil(day) == (year, month, of_month)).then_some(day)
}

/// Second of the day as hours, minutes, seconds.
pub const fn clock(second: i64) -> (u8, u8, u8) {
    ((second / 3_600) as u8, (second / 60 % 60) as u8, (second % 60) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_four_centuries_and_back() {
        for at in -200_000..200_000 {
            let (y, m, d) = civil(at);
            assert_eq!(day(y, m, d), Some(at));
        }
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(20_454), (2026, 1, 1));
        assert_eq!(day(2023, 2, 29), None);
        assert_eq!(day(2024, 2, 29), Some(19_782));
        assert_eq!(clock(86_399), (23, 59, 59));
    }
}
