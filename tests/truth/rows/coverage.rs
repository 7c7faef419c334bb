//! `docs/coverage.md`: which ways that bytes move are seen, and on which kernels that was held against programs.

use super::scene::{CoverageRow, Seen};
use super::{consumers, deciders, ends, networks, packets, pinned, queues, redirects, rings, streams};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Ways of tests that are not made by `rows!`.
const OTHERS: &[CoverageRow] = &[
    CoverageRow {
        test: "a_read_after_both_sides_have_closed_ends_its_journeys",
        words: "TCP: a read after both sides have closed",
        seen: Seen::Complete,
    },
    CoverageRow {
        test: "a_read_after_a_reset_ends_its_journeys",
        words: "TCP: a read after the peer's reset",
        seen: Seen::Complete,
    },
    CoverageRow {
        test: "a_read_after_the_last_acknowledgement_ends_its_journeys",
        words: "TCP: a read after the last acknowledgement",
        seen: Seen::Complete,
    },
    CoverageRow {
        test: "the_error_queue_is_no_data",
        words: "UDP: time stamps read from the error queue",
        seen: Seen::Complete,
    },
    CoverageRow {
        test: "a_failed_read_moves_no_later_datagram",
        words: "UDP: reads that fail (`EFAULT`)",
        seen: Seen::Dropped("its read failed"),
    },
    CoverageRow {
        test: "a_bad_checksum_moves_no_later_datagram",
        words: "UDP: wrong checksums, found at the read",
        seen: Seen::Dropped("its checksum was wrong"),
    },
    CoverageRow {
        test: "two_pairs_with_equal_addresses_have_their_own_journeys",
        words: "TCP and UDP: two pairs of namespaces with equal addresses and ports",
        seen: Seen::Complete,
    },
    CoverageRow {
        test: "sockets_that_are_not_followed_are_counted",
        words: "Unix, packet and raw sockets",
        seen: Seen::Ends("not followed from `send` to `recv`; their number by kind and namespace"),
    },
];

/// Ways that no row holds, with the documented limit.
const WITHOUT_ROW: &[(&str, &str)] =
    &[("ICMP and other protocols without ports", "the packet hops only, `ip.out` to `ip.in`")];

/// The series of the kernel on which the rows run for this document.
const NATIVE: &str = "6.18";
/// The series of emulated machines, whose results `scripts/truth-kernels.sh` writes.
const EMULATED: [&str; 2] = ["6.12", "6.1"];

const HEAD: &str = "| how bytes move | what is seen | 6.18, native | 6.12, emulated | 6.1, emulated |\n|---|---|---|---|---|\n";

/// Results by series and test, of kernels other than the native one, and of rows that the native one skips.
struct Results(BTreeMap<(String, String), String>);

impl Results {
    /// Reads `tests/truth/kernels.txt`: a line has the series, the test, and `held`, `failed` or the reason of a skip.
    fn read() -> Self {
        let text = fs::read_to_string(root().join("tests/truth/kernels.txt")).expect("tests/truth/kernels.txt");
        let parts = |line: &str| {
            let [series, test, result] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            ((series.to_owned(), test.to_owned()), result.to_owned())
        };
        Results(text.lines().map(parts).collect())
    }

    fn of(&self, series: &str, test: &str) -> String {
        let result = self.0.get(&(series.to_owned(), test.to_owned())).map(String::as_str);
        match result.unwrap_or(if series == NATIVE { "held" } else { "not tried" }) {
            word @ ("held" | "not tried") => word.to_owned(),
            "failed" => "**not held**".to_owned(),
            reason => format!("skipped: {reason}"),
        }
    }
}

fn coverage_rows() -> impl Iterator<Item = &'static CoverageRow> {
    [
        streams::ROWS,
        ends::ROWS,
        ends::TWO_READERS,
        rings::ROWS,
        packets::ROWS,
        networks::ROWS,
        pinned::ROWS,
        queues::ROWS,
        deciders::ROWS,
        OTHERS,
    ]
    .into_iter()
    .chain(redirects::ROWS.iter().copied())
    .chain(consumers::ROWS.iter().copied())
    .flatten()
}

fn table() -> String {
    let results = Results::read();
    let seen = |seen: Seen| match seen {
        Seen::Complete => "complete".to_owned(),
        Seen::Marked(because) => format!("complete; some *ambiguous*, because {because}"),
        Seen::Dropped(because) => format!("complete; *dropped*, where {because}"),
        Seen::Noted(words) | Seen::Ends(words) => words.to_owned(),
    };
    let of = |series: &str, test: &str| format!(" {} |", results.of(series, test));
    let cells = |test: &str| {
        let emulated: String = EMULATED.iter().map(|series| of(series, test)).collect();
        of(NATIVE, test) + &emulated
    };
    let mut rows: Vec<_> = coverage_rows()
        .map(|row| format!("| {} | {} |{}", row.words, seen(row.seen), cells(row.test)))
        .collect();
    rows.extend(
        WITHOUT_ROW
            .iter()
            .map(|(words, limit)| format!("| {words} | {limit} | not tried | not tried | not tried |")),
    );
    rows.join("\n")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names of the tests in a file of rows that are written as functions.
fn tests_of(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).expect("a source");
    let after = text.split("#[test]\n").skip(1);
    after.filter_map(|rest| Some(rest.split_once("fn ")?.1.split_once('(')?.0.to_owned())).collect()
}

/// `UPDATE_DOCS=1` writes the table.
#[test]
fn the_document_has_each_way() {
    let path = root().join("docs/coverage.md");
    let page = fs::read_to_string(&path).expect("docs/coverage.md");
    let (before, after) = page.split_once(HEAD).expect("docs/coverage.md has the head of the table");
    let (_, after) = after.split_once("\n\n").expect("a paragraph follows");
    let updated = format!("{before}{HEAD}{}\n\n{after}", table());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, updated).expect("docs/coverage.md can be written");
    } else {
        assert!(
            page == updated,
            "docs/coverage.md differs from the rows: UPDATE_DOCS=1 make test-truth writes its table"
        );
    }
}

/// Other machines have other kernels. The document is about that of the continuous integration.
#[test]
fn the_document_names_the_kernel_that_ran_the_rows() {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    assert!(HEAD.contains(&format!("{NATIVE}, native")));
    if std::env::var_os("CI").is_some() {
        let series = release.starts_with(&format!("{NATIVE}."));
        assert!(series, "docs/coverage.md is about Linux {NATIVE}, and the rows ran on {release}");
    }
}

/// A row in another file than those of `rows!` has its way in `OTHERS`.
#[test]
fn each_row_declares_its_way_once() {
    let declared: Vec<_> = coverage_rows().map(|row| row.test).collect();
    let distinct: BTreeSet<_> = declared.iter().copied().collect();
    assert_eq!(declared.len(), distinct.len(), "two ways of one name");
    let files = fs::read_dir(root().join("tests/truth")).expect("the folder").flatten().map(|file| file.path());
    let is_of_rows =
        |file: &PathBuf| file.file_name().is_some_and(|n| n.to_string_lossy().ends_with("rows.rs"));
    let written: BTreeSet<_> = files.filter(is_of_rows).flat_map(|file| tests_of(&file)).collect();
    for test in &written {
        assert!(
            distinct.contains(test.as_str()),
            "{test} has no row in `OTHERS` of tests/truth/rows/coverage.rs"
        );
    }
    for row in OTHERS {
        assert!(written.contains(row.test), "{}: no such test", row.test);
    }
}

/// A result is of a row that is there, on a series that the document has. On the native kernel every row holds.
#[test]
fn each_result_is_of_a_row() {
    let tests: BTreeSet<_> = coverage_rows().map(|row| row.test).collect();
    for ((series, test), result) in &Results::read().0 {
        assert!(tests.contains(test.as_str()), "tests/truth/kernels.txt: no row {test}");
        assert!(series == NATIVE || EMULATED.contains(&series.as_str()), "tests/truth/kernels.txt: {series}");
        assert!(series != NATIVE || result != "failed", "tests/truth/kernels.txt: {test}");
    }
}
