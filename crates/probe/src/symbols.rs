//! `/proc/kallsyms`: what the kernel calls its functions, and where one of them is.
//!
//! The kernel makes some ten megabytes of text for each reading, which takes longer than attaching. So it is read once a
//! process, for all that is wanted of it: libbpf would read it again for every object that asks for an address.

use crate::candidates;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::OnceLock;

/// What epoll puts into a socket's wait queue.
const EPOLL_CALLBACK: &str = "ep_poll_callback";

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// Functions that a plan could use, and what the kernel calls them: `ip_rcv_core` may be `ip_rcv_core.isra.0`.
    pub names: BTreeMap<String, String>,
    /// Address of `ep_poll_callback`; 0 where it is not there, or not shown to this process.
    pub epoll_callback: u64,
}

/// Those of the running kernel, as this process saw them when it first asked.
pub fn of_kernel() -> &'static Symbols {
    static SYMBOLS: OnceLock<Symbols> = OnceLock::new();
    SYMBOLS.get_or_init(|| {
        let wanted = candidates::functions().collect();
        File::open("/proc/kallsyms").map(|file| parse(BufReader::new(file), &wanted)).unwrap_or_default()
    })
}

/// The symbols that are these functions, or copies that the compiler made of them (`name.isra.0`, `name.constprop.0`); the
/// function itself comes before any copy.
fn parse(mut kallsyms: impl BufRead, functions: &BTreeSet<&str>) -> Symbols {
    let mut symbols = Symbols::default();
    let mut line = String::new();
    while kallsyms.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        take(&mut symbols, &line, functions);
        line.clear();
    }
    symbols
}

fn take(symbols: &mut Symbols, line: &str, functions: &BTreeSet<&str>) {
    let mut fields = line.split_ascii_whitespace();
    let (Some(address), Some("T" | "t" | "W" | "w"), Some(symbol)) =
        (fields.next(), fields.next(), fields.next())
    else {
        return;
    };
    if symbol == EPOLL_CALLBACK {
        symbols.epoll_callback = u64::from_str_radix(address, 16).unwrap_or(0);
    }
    let (function, suffix) = symbol.split_at(symbol.find('.').unwrap_or(symbol.len()));
    let is_copy = suffix.starts_with(".isra.") || suffix.starts_with(".constprop.");
    // what was split off (`.part.0`, `.cold`) is not the function
    let whole = suffix.is_empty() || is_copy && !suffix.contains(".part.") && !suffix.contains(".cold");
    if whole && functions.contains(function) && (suffix.is_empty() || !symbols.names.contains_key(function)) {
        symbols.names.insert(function.to_owned(), symbol.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_whole_or_as_a_copy_but_not_in_parts() {
        let kallsyms = "ffffffff81000000 t ip_rcv_core.isra.0\nffffffff81000010 T ip_rcv_core\n\
            ffffffff81000020 t __netif_receive_skb_core.constprop.0\nffffffff81000030 t udp_sendmsg.cold\n\
            ffffffff81000040 t tcp_x.part.0\nffffffff81000050 d inet_sendmsg\nffffffff81000060 T other\nnonsense\n\
            ffffffff81000070 t ep_poll_callback\n";
        let names = ["ip_rcv_core", "__netif_receive_skb_core", "udp_sendmsg", "tcp_x", "inet_sendmsg"];
        let symbols = parse(kallsyms.as_bytes(), &names.into_iter().collect());
        let found: Vec<_> = symbols.names.iter().map(|(f, s)| (f.as_str(), s.as_str())).collect();
        assert_eq!(
            found,
            [
                ("__netif_receive_skb_core", "__netif_receive_skb_core.constprop.0"),
                ("ip_rcv_core", "ip_rcv_core")
            ]
        );
        assert_eq!(symbols.epoll_callback, 0xffff_ffff_8100_0070);
    }

    #[test]
    fn a_hidden_address_is_none_and_a_function_may_be_a_module_s() {
        let kallsyms = "0000000000000000 t ep_poll_callback\n0000000000000000 t ip6_output\t[ipv6]\n";
        let symbols = parse(kallsyms.as_bytes(), &["ip6_output"].into_iter().collect());
        assert_eq!((symbols.epoll_callback, symbols.names["ip6_output"].as_str()), (0, "ip6_output"));
    }
}
