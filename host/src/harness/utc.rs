//! What time is it, as a ledger writes it? RFC 3339 in UTC, whole seconds.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, such as `2026-03-01T09:30:00Z`.
pub fn utc_now() -> String {
    // A clock before 1970 is read as 1970: the order of a ledger does not come from times.
    rfc3339(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// A time in seconds since 1970, in the Gregorian calendar, without leap seconds, as POSIX counts.
pub fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    // Years that begin in March put the leap day last; an era of 400 years has 146,097 days.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..10 => (era * 400 + year, month + 3),
        _ => (era * 400 + year + 1, month - 9),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn seconds_become_the_date_that_posix_gives_them() {
        let check = |seconds, expected: &str| assert_eq!(rfc3339(seconds), expected);
        check(0, "1970-01-01T00:00:00Z");
        check(86_399, "1970-01-01T23:59:59Z");
        check(951_782_400, "2000-02-29T00:00:00Z");
        check(951_868_800, "2000-03-01T00:00:00Z");
        check(1_709_164_800, "2024-02-29T00:00:00Z");
        check(1_735_689_599, "2024-12-31T23:59:59Z");
        check(1_735_689_600, "2025-01-01T00:00:00Z");
        check(4_107_542_400, "2100-03-01T00:00:00Z");
        check(4_107_542_399, "2100-02-28T23:59:59Z");
    }
}
