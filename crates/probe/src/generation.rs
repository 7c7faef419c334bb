//! Continuations of this virtual machine from a saved state, clones and migrations, as its hypervisor reports them.
//!
//! No clock of the machine counts the pause, so its own clocks do not show it. Two devices do:
//!
//! * `vmgenid`: an identity that changes when a saved state is continued or cloned. The kernel (Linux 6.8) reports the
//!   change as an event of the device, some milliseconds after the machine runs again. A live migration changes nothing.
//! * `vmclock` (Linux 6.13): a page with a marker that changes with every disruption of the counter, live migrations
//!   included, and with a number of generations.

use crate::netlink::notified;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::net::{RecvFlags, recvfrom};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Places of the driver with its devices, since Linux 6.10 and before.
const VMGENID: [&str; 2] = ["/sys/bus/platform/drivers/vmgenid", "/sys/bus/acpi/drivers/vmgenid"];
const VMCLOCK: &str = "/dev/vmclock0";
/// The kernel's own messages, not those of a device manager.
const KERNEL_GROUP: u32 = 1;
/// Some thousand messages: about ten times a second the socket is read.
const BUFFER: usize = 4 << 20;
/// Maximum number of messages per reading.
const MOST_MESSAGES: usize = 10_000;
/// The kernel's messages are at most 2048 bytes of variables and a path.
const MESSAGE: usize = 8192;

/// Counts continuations from its opening on.
#[derive(Debug)]
pub struct GenerationWatch {
    events: Option<OwnedFd>,
    clock: Option<(File, Option<Marker>)>,
    count: u32,
}

impl GenerationWatch {
    /// Opens the devices that this machine has. A physical machine has none.
    pub fn open() -> Self {
        let has_device = VMGENID.iter().any(|driver| {
            let mut entries = fs::read_dir(driver).into_iter().flatten().flatten();
            // Devices are links; the files of the driver are not.
            entries.any(|entry| {
                entry.file_type().is_ok_and(|kind| kind.is_symlink()) && entry.file_name() != "module"
            })
        });
        let events = has_device.then(|| listen().ok()).flatten();
        let clock = File::open(VMCLOCK).ok().map(|file| {
            let marker = read(&file);
            (file, marker)
        });
        GenerationWatch { events, clock, count: 0 }
    }

    /// Number of continuations at the last update.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Number of continuations so far.
    pub fn update(&mut self) -> u32 {
        if let Some(events) = &self.events {
            self.count = self.count.saturating_add(new_generations(events));
        }
        if let Some((file, last)) = &mut self.clock {
            // A page that is being written is read the next time.
            if let Some(marker) = read(file) {
                let has_changed = last.is_some_and(|last| last != marker);
                self.count = self.count.saturating_add(u32::from(has_changed));
                *last = Some(marker);
            }
        }
        self.count
    }
}

/// A socket for the kernel's events of devices.
fn listen() -> rustix::io::Result<OwnedFd> {
    let socket = notified(Some(netlink::KOBJECT_UEVENT), KERNEL_GROUP)?;
    // With the default size, more events may be lost, which count as continuations.
    let _ = set_socket_recv_buffer_size_force(&socket, BUFFER);
    Ok(socket)
}

/// Number of new identities since the last call. Lost messages count as one: a break too many only widens bounds.
fn new_generations(socket: &OwnedFd) -> u32 {
    let (mut count, mut buffer) = (0_u32, [0_u8; MESSAGE]);
    for _ in 0..MOST_MESSAGES {
        match recvfrom(socket, buffer.as_mut_slice(), RecvFlags::DONTWAIT) {
            Ok((_, length, from)) => {
                let sender = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
                let is_kernel = sender.is_some_and(|sender| sender.pid() == 0);
                let message = buffer.get(..length).unwrap_or_default();
                count = count.saturating_add(u32::from(is_kernel && is_new_generation(message)));
            }
            Err(Errno::NOBUFS) => count = count.saturating_add(1),
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    count
}

/// True for the event of a new identity: `ACTION@PATH`, and variables, each with a zero byte at its end.
pub fn is_new_generation(message: &[u8]) -> bool {
    message.split(|byte| *byte == 0).skip(1).any(|variable| variable == b"NEW_VMGENID=1")
}

/// Values of the page of `vmclock` that change with a continuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Changes with every disruption of the processor's counter.
    pub disruption: u64,
    /// Changes when a saved state is continued; 0 if the hypervisor does not count it.
    pub generation: u64,
}

/// Length of the page's fields.
const PAGE: usize = 112;
const MAGIC: u32 = 0x4b4c_4356;
const HAS_GENERATION: u64 = 1 << 8;

fn read(file: &File) -> Option<Marker> {
    let mut page = [0; PAGE];
    let length = file.read_at(&mut page, 0).ok()?;
    marker(page.get(..length)?).ok()
}

/// Parses the page of `vmclock` (`linux/vmclock-abi.h`, little-endian):
///
/// | offset | what |
/// |---|---|
/// | 0, 4 | magic, size of the page |
/// | 8 | version |
/// | 12 | sequence number, odd while the page is being written |
/// | 16, 24 | disruption marker, flags |
/// | 104 | number of generations, if bit 8 of the flags is set |
///
/// # Errors
/// The reason why the page has no marker.
pub fn marker(page: &[u8]) -> Result<Marker, &'static str> {
    let short = "the page of vmclock is too short";
    let word = |at: usize| Some(u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(page.get(at..at + 8)?.try_into().ok()?));
    if word(0).ok_or(short)? != MAGIC {
        return Err("this is no page of vmclock");
    }
    if word(8).ok_or(short)? & 0xffff != 1 {
        return Err("the page of vmclock has another layout");
    }
    if word(12).ok_or(short)? % 2 == 1 {
        return Err("the page of vmclock is being written");
    }
    let (disruption, flags) = (long(16).ok_or(short)?, long(24).ok_or(short)?);
    let has_generation = flags & HAS_GENERATION != 0 && word(4).ok_or(short)? as usize >= PAGE;
    let generation = if has_generation { long(104).ok_or(short)? } else { 0 };
    Ok(Marker { disruption, generation })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page(disruption: u64, flags: u64, generation: u64) -> Vec<u8> {
        let mut page = vec![0; PAGE];
        page[..4].copy_from_slice(&MAGIC.to_le_bytes());
        page[4..8].copy_from_slice(&4096_u32.to_le_bytes());
        page[8] = 1;
        page[16..24].copy_from_slice(&disruption.to_le_bytes());
        page[24..32].copy_from_slice(&flags.to_le_bytes());
        page[104..].copy_from_slice(&generation.to_le_bytes());
        page
    }

    #[test]
    fn the_event_of_a_new_identity_differs_from_others() {
        let event =
            b"change@/devices/platform/VMGENCTR:00\0ACTION=change\0DEVPATH=/devices/platform/VMGENCTR:00\0\
            SUBSYSTEM=platform\0NEW_VMGENID=1\0DRIVER=vmgenid\0MODALIAS=acpi:VMGENCTR:\0SEQNUM=1024\0";
        assert!(is_new_generation(event));
        for other in [
            &b"change@/devices/platform/VMGENCTR:00\0ACTION=change\0SEQNUM=7\0"[..],
            b"add@/NEW_VMGENID=1\0",
            b"NEW_VMGENID=1\0",
            b"change@/x\0NEW_VMGENID=11\0",
            b"",
        ] {
            assert!(!is_new_generation(other), "{other:?}");
        }
    }

    #[test]
    fn a_marker_is_read_from_a_whole_page() {
        assert_eq!(marker(&page(7, 0, 9)), Ok(Marker { disruption: 7, generation: 0 }));
        assert_eq!(marker(&page(7, 1 << 8, 9)), Ok(Marker { disruption: 7, generation: 9 }));
        // A hypervisor of before the counter has a shorter page.
        assert_eq!(marker(&page(7, 0, 9)[..104]), Ok(Marker { disruption: 7, generation: 0 }));
        assert!(marker(&page(7, 1 << 8, 9)[..104]).is_err());
        let mut written = page(7, 0, 0);
        written[12] = 3;
        assert_eq!(marker(&written), Err("the page of vmclock is being written"));
        assert!(marker(&[0; PAGE]).is_err() && marker(&[]).is_err());
    }

    #[test]
    fn a_machine_that_runs_on_has_no_new_generation() {
        let mut watch = GenerationWatch::open();
        println!("vmgenid: {}, vmclock: {}", watch.events.is_some(), watch.clock.is_some());
        assert_eq!((watch.update(), watch.update(), watch.count()), (0, 0, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_read(mut bytes in prop::collection::vec(any::<u8>(), 0..200), is_headed in any::<bool>()) {
            if is_headed && bytes.len() > 9 {
                bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
                bytes[8..10].copy_from_slice(&1_u16.to_le_bytes());
            }
            let _no_panic = (marker(&bytes), is_new_generation(&bytes));
        }
    }
}
