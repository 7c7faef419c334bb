//! The table of hops: each row is complete, and no list or match elsewhere decides for a hop that it does not name.

use magscope_core::blame::{Part, step_words};
use magscope_core::hop::{HOP_IDS, Role};
use magscope_core::journey::{Correlator, Journey, Limits};
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Direction, Generator, GeneratorOptions, Hop, Proto};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_order_of_hops_is_that_of_their_rows() {
    for pair in Hop::ALL.windows(2) {
        assert!(pair[0] < pair[1] && pair[0].order() < pair[1].order(), "{pair:?}");
    }
    for (row, hop) in Hop::ALL.iter().enumerate() {
        let rank = (row < Hop::path().len()).then_some(row);
        assert_eq!((hop.rank(), hop.spec().rank), (rank, rank.map(|rank| rank as u8)), "{hop}");
        assert_eq!((hop.spec().hop, hop.spec().id), (*hop, hop.id()));
        assert!(usize::from(hop.spec().id) < HOP_IDS);
    }
    let sent = Hop::path().iter().take_while(|hop| hop.direction() == Direction::Tx).count();
    let received = Hop::path().iter().rev().take_while(|hop| hop.direction() == Direction::Rx).count();
    assert_eq!(sent + received, Hop::path().len(), "the sender's path, then the receiver's");
    assert!(Hop::path().len() < 32, "a bit of 32 per hop of the path");
}

#[test]
fn the_columns_of_a_row_agree() {
    for hop in Hop::ALL {
        let spec = hop.spec();
        assert!(!spec.without.is_empty() && !spec.place.is_empty(), "{hop}");
        assert!(spec.full || !spec.default, "{hop}: the default set is a part of `all`");
        let on_path = spec.direction != Direction::Off;
        assert!(!on_path || spec.side == spec.direction, "{hop}");
        assert_eq!(on_path, spec.part != Part::Unknown, "{hop}");
        assert_eq!(on_path && *hop != Hop::path()[0], !spec.step.is_empty(), "{hop}");
        let has_bytes =
            matches!(spec.role, Role::Send | Role::Read) || spec.role == Role::Packet && spec.has_packet;
        assert_eq!(on_path && has_bytes, !spec.border.is_empty(), "{hop}");
        let is_of_path =
            matches!(spec.role, Role::Send | Role::Packet | Role::Ready | Role::Reader | Role::Read);
        assert_eq!(on_path, is_of_path, "{hop}");
        assert!(!spec.needs.contains(hop), "{hop}");
    }
}

#[test]
fn every_step_to_the_next_hop_has_words() {
    for proto in [Proto::TCP, Proto::UDP] {
        let path: Vec<Hop> = Hop::path().iter().copied().filter(|hop| hop.passes(proto)).collect();
        for step in path.windows(2) {
            let words = step_words(step[0], step[1], proto);
            assert!(!words.contains('→') && !words.contains('{'), "{step:?}: {words}");
        }
    }
}

fn generated() -> Vec<Journey> {
    let mut generator =
        Generator::new(GeneratorOptions { events: 20_000, flows: 4, ..GeneratorOptions::default() });
    let mut correlator = Correlator::new(generator.info().coverage.served(), Limits::default());
    let (mut batch, mut done) = (Batch::default(), Vec::new());
    loop {
        let progress = generator.next(&mut batch, Duration::ZERO).expect("generated");
        correlator.push(&batch, &mut done);
        if progress == Progress::End {
            correlator.finish(&mut done);
            return done;
        }
    }
}

#[test]
fn every_packet_hop_is_a_level_of_every_journey() {
    let journeys = generated();
    for proto in [Proto::TCP, Proto::UDP] {
        let of_proto: Vec<&Journey> = journeys.iter().filter(|journey| journey.proto == proto).collect();
        assert!(!of_proto.is_empty(), "{proto}");
        for hop in Hop::path()
            .iter()
            .filter(|hop| hop.role() == Role::Packet && !hop.is_optional() && hop.passes(proto))
        {
            let passed = of_proto.iter().filter(|journey| journey.rungs.has(*hop)).count();
            assert_eq!(passed, of_proto.len(), "{hop} of {proto}");
        }
        for journey in of_proto {
            assert_eq!(journey.disordered(), 0, "the hops are passed in the order of their rows");
        }
    }
}

/// The tables in the documents: file, head and rows.
fn tables() -> [(&'static str, &'static str, Vec<String>); 3] {
    let row = |cells: &[&str]| {
        cells
            .iter()
            .fold("|".to_owned(), |row, cell| row + " " + cell + if cell.is_empty() { "|" } else { " |" })
    };
    let name = |hop: &Hop| format!("`{hop}`");
    let on_path = |hop: &Hop| {
        let (spec, layer) = (hop.spec(), format!("{:?}", hop.layer()).to_lowercase());
        row(&[&name(hop), &layer, spec.place, spec.content, spec.user])
    };
    let off_path = |hop: &Hop| row(&[&name(hop), hop.spec().place, hop.spec().content]);
    let (path, others) = Hop::ALL.split_at(Hop::path().len());
    let mut by_number = Hop::ALL.to_vec();
    by_number.sort_by_key(|hop| hop.id());
    let number = |hop: &Hop| row(&[&hop.id().to_string(), &name(hop)]);
    [
        (
            "docs/hops.md",
            "| hop | layer | where in the kernel | range | known |\n|---|---|---|---|---|\n",
            path.iter().map(on_path).collect(),
        ),
        (
            "docs/hops.md",
            "| hop | where in the kernel | content |\n|---|---|---|\n",
            others.iter().map(off_path).collect(),
        ),
        ("docs/formats.md", "| number | name |\n|---|---|\n", by_number.iter().map(number).collect()),
    ]
}

/// `UPDATE_DOCS=1` writes the tables.
#[test]
fn the_documents_have_the_tables_of_hops() {
    for (file, head, rows) in tables() {
        let path = root().join(file);
        let page = fs::read_to_string(&path).expect(file);
        let (before, after) = page.split_once(head).unwrap_or_else(|| panic!("{file} has no table {head}"));
        let (_, after) = after.split_once("\n\n").expect("a paragraph follows");
        let updated = format!("{before}{head}{}\n\n{after}", rows.join("\n"));
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, updated).expect("the document can be written");
        } else {
            assert!(page == updated, "{file} differs from the table of hops: UPDATE_DOCS=1 writes its tables");
        }
    }
}

fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|end| end == "rs") {
            out.push(path);
        }
    }
}

/// The part of a match arm before its guard and its result.
fn pattern(line: &str) -> Option<&str> {
    let (pattern, _) = line.trim().split_once("=>")?;
    Some(pattern.split(" if ").next().unwrap_or(pattern).trim())
}

fn takes_anything(pattern: &str) -> bool {
    pattern == "_" || pattern.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

/// Lines of matches on hops with an arm for all other hops, in rustfmt's format.
fn swallowing(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().take_while(|line| *line != "#[cfg(test)]").collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if !pattern(line).is_some_and(|pattern| pattern.contains("Hop::") && !pattern.contains("Place::")) {
            continue;
        }
        let is_inside = |other: &&(usize, &&str)| other.1.trim().is_empty() || indent(other.1) >= indent(line);
        let all: Vec<(usize, &&str)> = lines.iter().enumerate().collect();
        let arms = all[at..].iter().take_while(is_inside).filter(|(_, arm)| indent(arm) == indent(line));
        found.extend(arms.filter(|(_, arm)| pattern(arm).is_some_and(takes_anything)).map(|(at, _)| at + 1));
    }
    found.dedup();
    found
}

/// Lines that cast a hop to a number, which gives its position: records and files have [`Hop::id`].
fn casts(text: &str) -> Vec<usize> {
    let is_cast = |line: &str| {
        line.split(" as u").skip(1).zip(line.split(" as u")).any(|(width, before)| {
            let name =
                before.rsplit(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').next().unwrap_or("");
            let is_width = width.starts_with(|c: char| c.is_ascii_digit()) || width.starts_with("size");
            is_width && (name == "hop" || name.starts_with("Hop::"))
        })
    };
    text.lines().enumerate().filter(|(_, line)| is_cast(line)).map(|(at, _)| at + 1).collect()
}

#[test]
fn the_number_of_a_hop_is_never_a_cast() {
    assert_eq!(casts("a\nrow[event.hop as usize] = 1;\n1 << Hop::IpIn as u8\nhops as u8\n"), [2, 3]);
    let mut files = Vec::new();
    for folder in ["crates", "tests", "fuzz"] {
        sources(&root().join(folder), &mut files);
    }
    let is_own = |path: &&PathBuf| path.ends_with("crates/core/src/hop.rs") || path.ends_with("tests/hops.rs");
    let found: Vec<String> = files
        .iter()
        .filter(|path| !is_own(path))
        .flat_map(|path| {
            let text = fs::read_to_string(path).expect("a source file");
            casts(&text).into_iter().map(move |line| format!("{}:{line}", path.display()))
        })
        .collect();
    assert!(found.is_empty(), "a position in place of a number: {found:#?}");
}

#[test]
fn no_match_on_a_hop_has_an_arm_for_all_others() {
    assert_eq!(swallowing("match hop {\n    Hop::IpOut => 1,\n    _ => 2,\n}"), [3]);
    assert_eq!(
        swallowing(
            "match hop {\n    Hop::IpOut\n    | Hop::IpIn if x => {\n        1\n    }\n    own => own,\n}"
        ),
        [6]
    );
    assert!(
        swallowing("match hop {\n    Hop::IpOut => 1,\n    Hop::IpIn => 2,\n}\nmatch x {\n    _ => 2,\n}")
            .is_empty()
    );
    let mut files = Vec::new();
    for crate_ in fs::read_dir(root().join("crates")).expect("crates").flatten() {
        sources(&crate_.path().join("src"), &mut files);
    }
    assert!(files.len() > 100, "{}", files.len());
    let found: Vec<String> = files
        .iter()
        .flat_map(|path| {
            let text = fs::read_to_string(path).expect("a source file");
            swallowing(&text).into_iter().map(move |line| format!("{}:{line}", path.display()))
        })
        .collect();
    assert!(
        found.is_empty(),
        "a new hop would be taken for another here; use a column of the table: {found:#?}"
    );
}
