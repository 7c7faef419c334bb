//! UTC time for `meta.toml`, without a dependency on a calendar crate.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, as `2026-01-02T03:04:05Z`.
pub(crate) fn now() -> String {
    let secs = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    format(secs)
}

fn format(secs: u64) -> String {
    let (days, of_day) = (secs / 86_400, secs % 86_400);
    // Days to civil date by Howard Hinnant's algorithm (chrono-compatible, proleptic Gregorian), for days >= 1970.
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", of_day / 3_600, of_day / 60 % 60, of_day % 60)
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_formatted() {
        assert_eq!(super::format(0), "1970-01-01T00:00:00Z");
        assert_eq!(super::format(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(super::format(1_767_323_045), "2026-01-02T03:04:05Z");
        assert_eq!(super::format(4_102_444_799), "2099-12-31T23:59:59Z");
    }
}
