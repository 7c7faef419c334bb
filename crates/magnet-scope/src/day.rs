//! Rows with a time of day under a title with a date.

/// The date of an instant, `2026-11-22T12:00:00.123456Z`.
pub fn of(utc: &str) -> Option<&str> {
    utc.split_once('T').map(|(date, _)| date)
}

/// The time of day of a row under a title with this date; with its own date if that is another, `·` if unknown.
pub fn under(title: &str, utc: Option<&str>) -> String {
    let Some((date, time)) = utc.and_then(|utc| utc.split_once('T')) else { return "·".to_owned() };
    let time = time.trim_end_matches('Z');
    if date == title { time.to_owned() } else { format!("{date} {time}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_another_day_has_its_date() {
        let (evening, night) = ("2026-11-22T23:59:59.900000Z", "2026-11-23T00:01:00.000000Z");
        let title = of(evening).unwrap();
        assert_eq!(under(title, Some(evening)), "23:59:59.900000");
        assert_eq!(under(title, Some(night)), "2026-11-23 00:01:00.000000");
        assert_eq!((under(title, None), of("?")), ("·".to_owned(), None));
    }
}
