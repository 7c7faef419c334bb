//! Mistyped words, and the nearest valid ones.

/// Maximum length of a word that is compared completely: an absurdly long argument costs no time.
const LONGEST: usize = 32;

/// The entry of `names` with the least edit distance from `typed`, ignoring case; the first of several. `None`
/// only without names.
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = shown(typed).to_lowercase();
    names.into_iter().min_by_key(|name| edit_distance(name, &typed))
}

/// The typed text, truncated for display.
pub(crate) fn shown(typed: &str) -> String {
    typed.chars().take(LONGEST).collect()
}

/// Number of letters to change, add or remove from one word to the other (Levenshtein 1966).
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found() {
        let names = ["total", "bytes", "proto", "port"];
        for (typed, near) in [("totl", "total"), ("BYTE", "bytes"), ("prot", "proto"), ("prt", "port")] {
            assert_eq!(nearest(typed, names), Some(near), "{typed}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), names), Some("total"));
        assert_eq!(nearest("x", []), None);
    }
}
