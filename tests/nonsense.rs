//! For any numbers in a recording, every command prints a result and does not crash.

use crate::common;
#[path = "../crates/gui/tests/common/nonsense.rs"]
mod made_of_nonsense;
#[path = "../crates/tui/tests/made_up/mod.rs"]
mod made_up;

use common::{run, stderr};
use made_up::World;
use magscope_core::node::NodeInfo;

#[test]
fn no_command_dies_of_a_recording_of_nonsense() {
    let seeds = std::env::var("MAGSCOPE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(4_u64);
    for seed in 1..=seeds {
        let dir = tempfile::TempDir::new().expect("room");
        let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
        let (a, b) = (path("a"), path("b"));
        let info = made_up::info();
        let record = |path: &str, info: &NodeInfo, seed| {
            let mut world = World::new(400.0);
            made_of_nonsense::record(path.as_ref(), info, seed, |ns| world.batch_until(ns).clone());
        };
        record(&a, &info, 2 * seed);
        let other = NodeInfo { host: "other".to_owned(), boot_id: "another".to_owned(), ..info };
        record(&b, &other, 2 * seed + 1);
        let mut commands = vec![
            vec!["info".to_owned(), a.clone()],
            vec!["report".to_owned(), a.clone()],
            vec!["report".to_owned(), "--json".to_owned(), a.clone(), b.clone()],
            vec!["journeys".to_owned(), "--json".to_owned(), a.clone(), b.clone()],
            vec!["align".to_owned(), a.clone(), b.clone()],
            vec!["compare".to_owned(), a.clone(), b.clone()],
        ];
        for format in ["parquet", "csv", "jsonl", "ulm", "bp", "pcapng", "perfetto", "chrome", "ctf", "magnet"]
        {
            let out = path(format);
            let mut export = ["export", &*a, &*b, "--format", format, "-o", &*out].map(str::to_owned).to_vec();
            if matches!(format, "csv" | "jsonl") {
                export.extend(["--tables", "journeys"].map(str::to_owned));
            }
            commands.push(export);
        }
        commands.push(
            ["export", &*a, "--format", "csv", "--every", "100ms", "-o", &*path("every")]
                .map(str::to_owned)
                .to_vec(),
        );
        for command in commands {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            let output = run(&words);
            let died = output.status.code().is_none_or(|code| code > 2);
            assert!(!died, "seed {seed}, {words:?}: {:?} {}", output.status, stderr(&output));
        }
    }
}
