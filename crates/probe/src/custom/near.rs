//! Names that are near a mistyped one.

/// Maximum number of suggestions.
const MOST: usize = 4;
/// Minimum similarity of a suggestion (Jaro-Winkler).
const LEAST: f64 = 0.8;

/// The nearest names, the nearest first, as a sentence; empty where none is near.
pub fn near<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> String {
    let mut found: Vec<(f64, &str)> = Vec::new();
    for name in names {
        let likeness = strsim::jaro_winkler(typed, name);
        if likeness < LEAST || found.iter().any(|(_, other)| *other == name) {
            continue;
        }
        found.push((likeness, name));
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        found.truncate(MOST);
    }
    let names: Vec<String> = found.into_iter().map(|(_, name)| format!("`{name}`")).collect();
    if names.is_empty() { String::new() } else { format!("; near it are {}", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::near;

    #[test]
    fn the_nearest_come_first_and_far_ones_not_at_all() {
        let names = ["tcp_rcv_established", "tcp_rcv_state_process", "udp_rcv", "schedule"];
        let text = near("tcp_rcv_establised", names.into_iter());
        assert!(text.starts_with("; near it are `tcp_rcv_established`, `tcp_rcv_state_process`"), "{text}");
        assert!(!text.contains("schedule"));
        assert_eq!(near("zzzz", names.into_iter()), "");
    }
}
