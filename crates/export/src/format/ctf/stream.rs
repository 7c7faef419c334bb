//! A stream of CTF packets.

use crate::error::ExportError;
use crate::output::Output;
use std::io::Write;

const MAGIC: u32 = 0xC1FC_1FC1;
/// Approximate size of a packet, bytes.
const PACKET: usize = 64 << 10;
/// Bytes of packet header and context: magic, uuid, stream; begin, end, content, size, discarded.
const HEAD: usize = 4 + 16 + 4 + 5 * 8;

/// A file of packets with non-decreasing times.
pub struct Stream {
    file: Box<dyn Output>,
    uuid: [u8; 16],
    events: Vec<u8>,
    begin_ns: u64,
    end_ns: u64,
    /// Records lost so far.
    discarded: u64,
}

impl Stream {
    /// Into this file.
    pub fn new(file: Box<dyn Output>, uuid: [u8; 16]) -> Self {
        Stream { file, uuid, events: Vec::with_capacity(PACKET), begin_ns: 0, end_ns: 0, discarded: 0 }
    }

    /// True if an event of this time can follow.
    pub const fn takes(&self, ns: u64) -> bool {
        ns >= self.end_ns
    }

    /// Adds an event.
    pub fn event(&mut self, ns: u64, id: u16, fields: &[u8], discarded: u64) -> Result<(), ExportError> {
        if self.events.is_empty() {
            self.begin_ns = ns;
        }
        self.end_ns = ns;
        self.discarded = self.discarded.saturating_add(discarded);
        self.events.extend(id.to_le_bytes());
        self.events.extend(ns.to_le_bytes());
        self.events.extend(fields);
        if self.events.len() >= PACKET { self.packet() } else { Ok(()) }
    }

    fn packet(&mut self) -> Result<(), ExportError> {
        if self.events.is_empty() {
            return Ok(());
        }
        let bits = ((HEAD + self.events.len()) * 8) as u64;
        let mut head = Vec::with_capacity(HEAD);
        head.extend(MAGIC.to_le_bytes());
        head.extend(self.uuid);
        head.extend(0_u32.to_le_bytes());
        for number in [self.begin_ns, self.end_ns, bits, bits, self.discarded] {
            head.extend(number.to_le_bytes());
        }
        self.file.write_all(&head)?;
        self.file.write_all(&self.events)?;
        self.events.clear();
        Ok(())
    }

    /// Writes what is left and ends the file.
    pub fn close(mut self) -> Result<(), ExportError> {
        self.packet()?;
        Ok(self.file.close()?)
    }
}
