//! libpcap filter expressions, compiled by libpcap itself, so that the syntax and semantics are tcpdump's.
//!
//! The library is loaded on first use; all other features work without it.

use crate::record::{MAG_PCAP_INSNS, mag_insn};
use libloading::{Library, Symbol};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;

/// Packets begin with their IP header (`DLT_RAW`).
const RAW: c_int = 12;
const SNAPLEN: c_int = 65_535;
const OPTIMIZE: c_int = 1;
/// `PCAP_NETMASK_UNKNOWN`
const NO_NETMASK: c_uint = c_uint::MAX;
/// Maximum length of an expression.
const LONGEST: usize = 8 << 10;
/// Loads from this offset on are of what a capture socket adds to a packet, such as its direction (`SKF_AD_OFF` of
/// `linux/filter.h`).
const ANCILLARY: u32 = 0xffff_f000;
/// Class and mode of an instruction, and those of a load at a fixed offset (`BPF_LD | BPF_ABS`).
const CLASS_AND_MODE: u16 = 0xe7;
const ABSOLUTE_LOAD: u16 = 0x20;
/// The note behind libpcap's words about a link layer.
const NO_LINK_LAYER: &str =
    "packets begin with their IP header here: Ethernet's header, VLANs and ARP are never seen";

/// `struct bpf_program` of pcap.h.
#[repr(C)]
struct Program {
    count: c_uint,
    insns: *mut mag_insn,
}

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Compile = unsafe extern "C" fn(*mut c_void, *mut Program, *const c_char, c_int, c_uint) -> c_int;
type Error = unsafe extern "C" fn(*mut c_void) -> *mut c_char;
type Free = unsafe extern "C" fn(*mut Program);
type Close = unsafe extern "C" fn(*mut c_void);

/// Reason for a rejected expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PcapError {
    /// libpcap is missing.
    #[error("libpcap cannot be opened ({0}); install it (Debian: libpcap0.8, Fedora and Arch: libpcap)")]
    NoLibrary(String),
    /// A static binary opens no library.
    #[error("this binary is static and has no libpcap; write a --filter, or use the binary that is not static")]
    Static,
    /// libpcap rejected the expression.
    #[error("`{text}`: libpcap says: {message}")]
    Refused {
        /// The expression.
        text: String,
        /// libpcap's message.
        message: String,
    },
    /// It asks for what a capture socket adds to a packet, as `inbound` and `outbound` do.
    #[error(
        "`{0}` asks for what is no part of a packet, such as its direction; `--filter rx` and `--filter tx` choose hops by \
         their direction"
    )]
    Ancillary(String),
    /// More instructions than the kernel side supports.
    #[error("the expression comes to {0} instructions, the kernel side walks at most {MAG_PCAP_INSNS}")]
    TooLong(usize),
}

/// Compiles an expression for packets that begin with their IP header.
///
/// # Errors
/// [`PcapError`]: no library, libpcap's own message, no question about a packet alone, too long.
pub fn compile(text: &str) -> Result<Vec<mag_insn>, PcapError> {
    let shown: String = text.chars().take(200).collect();
    let refused = |message: &str| PcapError::Refused { text: shown.clone(), message: message.to_owned() };
    let expression = CString::new(text).map_err(|_| refused("it has a zero byte"))?;
    if text.len() > LONGEST {
        return Err(refused("it is too long"));
    }
    if cfg!(target_feature = "crt-static") {
        return Err(PcapError::Static);
    }
    let missing = |error: libloading::Error| PcapError::NoLibrary(error.to_string());
    // SAFETY: libpcap runs no code on load. The types are those of pcap.h, unchanged since libpcap 0.8 (2003).
    // The handle is created and closed by libpcap. The instructions are copied, in the number that libpcap
    // returns, before they are freed; the message is copied before the handle is closed.
    #[allow(unsafe_code)]
    unsafe {
        let library = Library::new("libpcap.so.0.8").or_else(|_| Library::new("libpcap.so.1"));
        let library = library.or_else(|_| Library::new("libpcap.so")).map_err(missing)?;
        let open: Symbol<'_, OpenDead> = library.get(b"pcap_open_dead\0").map_err(missing)?;
        let compile: Symbol<'_, Compile> = library.get(b"pcap_compile\0").map_err(missing)?;
        let error: Symbol<'_, Error> = library.get(b"pcap_geterr\0").map_err(missing)?;
        let free: Symbol<'_, Free> = library.get(b"pcap_freecode\0").map_err(missing)?;
        let close: Symbol<'_, Close> = library.get(b"pcap_close\0").map_err(missing)?;
        let handle = open(RAW, SNAPLEN);
        if handle.is_null() {
            return Err(refused("it has no memory"));
        }
        let mut program = Program { count: 0, insns: ptr::null_mut() };
        let done = compile(handle, &raw mut program, expression.as_ptr(), OPTIMIZE, NO_NETMASK);
        let result = if done == 0 && !program.insns.is_null() {
            let insns = std::slice::from_raw_parts(program.insns, program.count as usize).to_vec();
            free(&raw mut program);
            Ok(insns)
        } else {
            Err(refused(&explained(&CStr::from_ptr(error(handle)).to_string_lossy())))
        };
        close(handle);
        let insns = result?;
        if insns.iter().any(|insn| is_ancillary(*insn)) {
            return Err(PcapError::Ancillary(shown));
        }
        if insns.len() > MAG_PCAP_INSNS as usize { Err(PcapError::TooLong(insns.len())) } else { Ok(insns) }
    }
}

/// True for a load of what a capture socket adds to a packet. The kernel side has the packet alone.
const fn is_ancillary(insn: mag_insn) -> bool {
    insn.code & CLASS_AND_MODE == ABSOLUTE_LOAD && insn.k >= ANCILLARY
}

/// libpcap's message, with a note where it is about a link layer.
fn explained(message: &str) -> String {
    let of_link_layer = ["rejects all packets", "link", "ethernet", "Raw IP", "'gateway'"];
    if of_link_layer.iter().any(|words| message.contains(words)) {
        format!("{message} ({NO_LINK_LAYER})")
    } else {
        message.to_owned()
    }
}

const _: () = assert!(size_of::<mag_insn>() == 8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_beyond_every_packet_is_ancillary() {
        let insn = |code, k| mag_insn { code, k, ..mag_insn::default() };
        for load in [0x20, 0x28, 0x30] {
            assert!(is_ancillary(insn(load, 0xffff_f004)) && !is_ancillary(insn(load, 12)), "{load:#x}");
        }
        // A comparison with such a number, and a load of a length.
        assert!(!is_ancillary(insn(0x15, 0xffff_f004)) && !is_ancillary(insn(0x80, 0xffff_f004)));
    }

    #[test]
    fn expressions_are_compiled_and_mistakes_have_libpcaps_words() {
        match compile("tcp port 443 and net 10.0.0.0/8") {
            Err(error @ (PcapError::NoLibrary(_) | PcapError::Static)) => println!("skipped, because {error}"),
            Err(error) => panic!("{error}"),
            Ok(insns) => {
                assert!(
                    insns.len() > 8 && insns.iter().any(|insn| insn.k == 443),
                    "{} instructions",
                    insns.len()
                );
                let message = compile("tcp prot 443").expect_err("a mistake").to_string();
                assert!(
                    message.contains("`tcp prot 443`: libpcap says: ") && message.contains("syntax error"),
                    "{message}"
                );
                assert!(!message.contains(NO_LINK_LAYER), "{message}");
                for text in ["arp", "ether host 1:2:3:4:5:6", "vlan 5", "broadcast"] {
                    let message = compile(text).expect_err("there is no link layer").to_string();
                    assert!(message.contains(NO_LINK_LAYER), "{message}");
                }
                for text in ["inbound", "tcp port 80 and outbound"] {
                    assert_eq!(compile(text).err(), Some(PcapError::Ancillary(text.to_owned())));
                }
                let long = (1..300).map(|port| format!("port {}", port * 7)).collect::<Vec<_>>().join(" or ");
                assert!(matches!(compile(&long), Err(PcapError::TooLong(_))));
                assert!(compile("tcp\0").is_err());
            }
        }
    }
}
