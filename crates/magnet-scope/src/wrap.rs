//! Text wrapped at blanks to the terminal's width.

/// Writes a line wrapped at blanks; continuation lines start with `indent`. A word wider than the terminal
/// stays whole, because it may be copied.
pub fn wrap(text: &mut String, line: &str, width: usize, indent: &str) {
    let lead = line.chars().take_while(|c| *c == ' ').count();
    let (first, rest) = line.split_at(lead);
    text.push_str(first);
    let (mut at, mut begun) = (lead, false);
    // Blanks inside a line are columns and stay; a break removes those at its position.
    for word in rest.split_inclusive(' ') {
        let columns = word.trim_end().chars().count();
        if columns > 0 && begun && at + columns > width {
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
            text.push_str(indent);
            at = indent.chars().count();
        }
        text.push_str(word);
        at += word.chars().count();
        begun = true;
    }
    text.truncate(text.trim_end_matches(' ').len());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_words_stay_whole() {
        let wrapped = |line: &str, width| {
            let mut text = String::new();
            wrap(&mut text, line, width, "    ");
            text
        };
        assert_eq!(wrapped("  one  two three four", 12), "  one  two\n    three\n    four\n");
        assert_eq!(wrapped("short", 80), "short\n");
        assert_eq!(
            wrapped("a very-long-word-that-is-a-path b", 10),
            "a\n    very-long-word-that-is-a-path\n    b\n"
        );
    }
}
