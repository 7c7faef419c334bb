//! How much an LZ4 frame can decompress to, told from its block headers alone.
//!
//! The decoder reads a frame to its end before anyone compares lengths, and a byte of LZ4 can become 255. So the
//! blocks are counted first: what the recorder writes has no more of them than the length it states needs.
//! Source: the LZ4 frame format, version 1.6.

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// Whether `frame` is one LZ4 frame that decompresses to about `length` bytes at most.
pub(super) fn fits(frame: &[u8], length: u64) -> Result<(), &'static str> {
    walk(frame, length).ok_or("an LZ4 frame does not fit the length it states")
}

fn walk(frame: &[u8], length: u64) -> Option<()> {
    let (magic, rest) = frame.split_first_chunk::<4>()?;
    let (&[flags, block_descriptor], mut rest) = rest.split_first_chunk::<2>()?;
    // Version 01, and no dictionary.
    if *magic != MAGIC || flags >> 6 != 1 || flags & 1 != 0 {
        return None;
    }
    let block_sum = if flags & 0x10 != 0 { 4 } else { 0 };
    let has_size = flags & 0x08 != 0;
    let largest_block: u64 = match block_descriptor >> 4 & 7 {
        4 => 64 << 10,
        5 => 256 << 10,
        6 => 1 << 20,
        7 => 4 << 20,
        _ => return None,
    };
    rest = rest.get(if has_size { 8 + 1 } else { 1 }..)?;
    let mut could_become = 0;
    loop {
        let (word, after) = rest.split_first_chunk::<4>()?;
        let word = u32::from_le_bytes(*word);
        if word == 0 {
            // Only the checksum of the content may follow, and the padding of the buffer.
            return (after.len() < 4 + 64).then_some(());
        }
        let stored = u64::from(word & 0x7fff_ffff);
        let uncompressed = word >> 31 != 0;
        could_become += if uncompressed { stored } else { largest_block.min(stored.saturating_mul(255)) };
        if could_become > length.saturating_add(largest_block) {
            return None;
        }
        rest = after.get(usize::try_from(stored).ok()?.checked_add(block_sum)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    /// A frame of blocks that store `stored` bytes each and claim to be compressed; what is in them does not matter.
    fn frame(blocks: usize, stored: u32) -> Vec<u8> {
        let mut bytes = vec![0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
        for _ in 0..blocks {
            bytes.extend(stored.to_le_bytes());
            bytes.extend(vec![0; stored as usize]);
        }
        bytes.extend([0; 4]);
        bytes
    }

    #[test]
    fn a_frame_that_could_become_more_than_it_states_is_refused() {
        assert!(fits(&frame(1, 300), 60_000).is_ok());
        assert!(fits(&frame(4, 300), 4 << 16).is_ok());
        assert!(fits(&frame(1_000, 300), 4 << 16).is_err(), "64 MiB from 300 kB");
        assert!(fits(&frame(1, 300)[..100], 60_000).is_err(), "cut off");
        assert!(fits(b"", 1).is_err());
        let mut two = frame(1, 300);
        two.extend(frame(1, 300));
        assert!(fits(&two, 60_000).is_err(), "a second frame");
    }
}
