//! `magnet-scope sched`: figures 2 and 3 of the paper of 2003 in one command.

use crate::common;

use common::{as_nobody, is_root, run, stderr, stdout};
use std::fs;
use tempfile::TempDir;

#[test]
fn switches_are_measured_idle_and_beside_a_busy_task_and_drawn() {
    if !is_root("measuring switches") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let (svg, csv) = (dir.path().join("switches.svg"), dir.path().join("switches.csv"));
    let (svg_name, csv_name) = (svg.display().to_string(), csv.display().to_string());
    let output = run(&["sched", "--duration", "1s", "--busy", "1", "--plot", &svg_name, "--csv", &csv_name]);
    if stderr(&output).contains("no switch can be measured here") {
        common::skipped("measuring switches", "this kernel has neither its tracepoints nor kprobes");
        return;
    }
    assert!(output.status.success(), "{}", stderr(&output));
    let table = stdout(&output);
    assert!(table.contains("as it was") && table.contains("beside one busy task"), "{table}");

    let csv = fs::read_to_string(&csv).expect("written");
    let mut rows = csv.lines();
    assert_eq!(rows.next(), Some("phase,at_s,cpu,switches,mean_ns,p50_ns,p99_ns,max_ns"));
    let (mut phases, mut switches) = (Vec::new(), 0_u64);
    for row in rows {
        let fields: Vec<&str> = row.split(',').collect();
        let number = |nth: usize| fields[nth].parse::<f64>().expect("a number");
        assert!((0.0..1.0).contains(&number(1)), "{row}");
        assert!(number(3) >= 1.0 && number(4) > 0.0 && number(5) <= number(7), "{row}");
        switches += number(3) as u64;
        if phases.last() != Some(&fields[0]) {
            phases.push(fields[0]);
        }
    }
    assert_eq!(phases, ["as it was", "beside one busy task"]);
    let in_table: u64 = table
        .lines()
        .filter_map(|line| {
            line.split_ascii_whitespace()
                .collect::<Vec<_>>()
                .get(..2)?
                .join(" ")
                .split_once(' ')?
                .1
                .parse::<u64>()
                .ok()
        })
        .sum();
    assert_eq!(in_table, switches, "windows add up to the whole\n{table}");
    let svg = fs::read_to_string(&svg).expect("written");
    assert!(svg.starts_with("<svg") && svg.matches("<polyline").count() >= 2, "a line a CPU and look");
}

#[test]
fn what_cannot_be_done_is_said_before_anything_is_measured() {
    for arguments in
        [&["sched", "--plot", "x.gif"][..], &["sched", "--window", "0s"], &["sched", "--window", "20s"]]
    {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    }
    if is_root("running as nobody") {
        let dir = TempDir::new().expect("a directory");
        let output = as_nobody(&dir, &["sched"]).output().expect("it starts");
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("CAP_BPF"), "{}", stderr(&output));
    }
}
