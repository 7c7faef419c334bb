//! Names and addresses of kernel functions.
//!
//! The kernel generates some ten megabytes of text for each read of `/proc/kallsyms`, which takes longer than
//! an attach. Each process therefore reads the file once, and only if functions can be probed, or where no program can
//! look an address up (before Linux 5.16).

use crate::candidates;
use crate::record::mag_functions;
use libbpf_rs::{Object, ProgramInput};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::OnceLock;

/// Candidate functions and their kernel symbols: `ip_rcv_core` may be `ip_rcv_core.isra.0`.
pub type Names = BTreeMap<String, String>;

/// Number of addresses in `mag_functions`.
pub const FUNCTIONS: usize = size_of::<mag_functions>() / 8;

/// Addresses of functions, in the order of `mag_functions`; 0 for one that is absent or hidden from this process.
pub type Addresses = [u64; FUNCTIONS];

/// The program that looks up addresses.
pub const FINDER: &str = "find_functions";

/// The functions that it looks up, in the order of `mag_functions`.
const ADDRESSED: [&str; FUNCTIONS] = ["ep_poll_callback", "sock_def_readable", "tcp_recvmsg", "tcp_sendmsg"];

/// What the file has of the wanted functions.
#[derive(Default)]
struct Kallsyms {
    names: Names,
    addresses: Addresses,
}

/// The running kernel's, read at the first call in this process.
fn kallsyms() -> &'static Kallsyms {
    static READ: OnceLock<Kallsyms> = OnceLock::new();
    READ.get_or_init(|| {
        let wanted = candidates::functions().collect();
        File::open("/proc/kallsyms").map(|file| parse(BufReader::new(file), &wanted)).unwrap_or_default()
    })
}

/// Symbols of the candidate functions of the running kernel.
pub fn names() -> &'static Names {
    &kallsyms().names
}

/// The addresses that the file lists.
pub fn listed() -> Addresses {
    kallsyms().addresses
}

/// The addresses that the loaded program finds.
pub fn looked_up(object: &Object) -> Addresses {
    let mut bytes = [0_u8; 8 * FUNCTIONS];
    if let Some(program) = object.progs_mut().find(|program| program.name() == FINDER) {
        let _ = program.test_run(ProgramInput { context_in: Some(&mut bytes), ..ProgramInput::default() });
    }
    let mut addresses = [0; FUNCTIONS];
    for (address, bytes) in addresses.iter_mut().zip(bytes.as_chunks().0) {
        *address = u64::from_ne_bytes(*bytes);
    }
    addresses
}

/// Symbols of these functions, or of their compiler-generated clones (`name.isra.0`, `name.constprop.0`). The
/// function itself has priority over clones. Addresses are those of functions, never of clones.
fn parse(mut kallsyms: impl BufRead, functions: &BTreeSet<&str>) -> Kallsyms {
    let mut found = Kallsyms::default();
    let mut line = String::new();
    while kallsyms.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        take(&mut found, &line, functions);
        line.clear();
    }
    found
}

fn take(found: &mut Kallsyms, line: &str, functions: &BTreeSet<&str>) {
    let mut fields = line.split_ascii_whitespace();
    let (Some(address), Some("T" | "t" | "W" | "w"), Some(symbol)) =
        (fields.next(), fields.next(), fields.next())
    else {
        return;
    };
    if let Some(at) = ADDRESSED.iter().position(|function| *function == symbol) {
        found.addresses[at] = u64::from_str_radix(address, 16).unwrap_or(0);
    }
    let names = &mut found.names;
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
        let symbols = parse(kallsyms.as_bytes(), &names.into_iter().collect()).names;
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
        let symbols = parse(kallsyms.as_bytes(), &["ip6_output"].into_iter().collect()).names;
        assert_eq!(symbols["ip6_output"], "ip6_output");
    }

    #[test]
    fn addresses_are_those_of_whole_functions_in_their_order() {
        let kallsyms = "ffffffff81000020 T tcp_sendmsg\nffffffff81000030 t ep_poll_callback\n\
            ffffffff81000040 t sock_def_readable.cold\nffffffff81000050 T tcp_recvmsg\n";
        let found = parse(kallsyms.as_bytes(), &BTreeSet::new());
        assert_eq!(found.addresses, [0xffff_ffff_8100_0030, 0, 0xffff_ffff_8100_0050, 0xffff_ffff_8100_0020]);
    }
}
