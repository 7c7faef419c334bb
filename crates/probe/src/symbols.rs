//! Names of kernel functions.
//!
//! The kernel generates some ten megabytes of text for each read of `/proc/kallsyms`, which takes longer than
//! an attach. Each process therefore reads the file once, and only if functions can be probed.

use crate::candidates;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::OnceLock;

/// Candidate functions and their kernel symbols: `ip_rcv_core` may be `ip_rcv_core.isra.0`.
pub type Names = BTreeMap<String, String>;

/// Symbols of the candidate functions of the running kernel, read at the first call in this process.
pub fn names() -> &'static Names {
    static READ: OnceLock<Names> = OnceLock::new();
    READ.get_or_init(|| {
        let wanted = candidates::functions().collect();
        File::open("/proc/kallsyms").map(|file| parse(BufReader::new(file), &wanted)).unwrap_or_default()
    })
}

/// Symbols of these functions, or of their compiler-generated clones (`name.isra.0`, `name.constprop.0`). The
/// function itself has priority over clones.
fn parse(mut kallsyms: impl BufRead, functions: &BTreeSet<&str>) -> Names {
    let mut names = Names::default();
    let mut line = String::new();
    while kallsyms.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        take(&mut names, &line, functions);
        line.clear();
    }
    names
}

fn take(names: &mut Names, line: &str, functions: &BTreeSet<&str>) {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (Some("T" | "t" | "W" | "w"), Some(symbol)) = (fields.next(), fields.next()) else {
        return;
    };
    let (function, suffix) = symbol.split_at(symbol.find('.').unwrap_or(symbol.len()));
    let is_copy = suffix.starts_with(".isra.") || suffix.starts_with(".constprop.");
    // a split-off part (`.part.0`, `.cold`) is not the function
    let whole = suffix.is_empty() || is_copy && !suffix.contains(".part.") && !suffix.contains(".cold");
    if whole && functions.contains(function) && (suffix.is_empty() || !names.contains_key(function)) {
        names.insert(function.to_owned(), symbol.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_whole_or_as_a_copy_but_not_in_parts() {
        let kallsyms = "ffffffff81000000 t ip_rcv_core.isra.0\nffffffff81000010 T ip_rcv_core\n\
            ffffffff81000020 t __netif_receive_skb_core.constprop.0\nffffffff81000030 t udp_sendmsg.cold\n\
            ffffffff81000040 t tcp_x.part.0\nffffffff81000050 d inet_sendmsg\nffffffff81000060 T other\nnonsense\n";
        let names = ["ip_rcv_core", "__netif_receive_skb_core", "udp_sendmsg", "tcp_x", "inet_sendmsg"];
        let symbols = parse(kallsyms.as_bytes(), &names.into_iter().collect());
        let found: Vec<_> = symbols.iter().map(|(f, s)| (f.as_str(), s.as_str())).collect();
        assert_eq!(
            found,
            [
                ("__netif_receive_skb_core", "__netif_receive_skb_core.constprop.0"),
                ("ip_rcv_core", "ip_rcv_core")
            ]
        );
    }

    #[test]
    fn an_address_may_be_hidden_and_a_function_a_module_s() {
        let kallsyms = "0000000000000000 t ip6_output\t[ipv6]\n";
        let symbols = parse(kallsyms.as_bytes(), &["ip6_output"].into_iter().collect());
        assert_eq!(symbols["ip6_output"], "ip6_output");
    }
}
