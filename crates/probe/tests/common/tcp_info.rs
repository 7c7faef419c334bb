//! Counters of a TCP socket: `TCP_INFO`.

use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// `struct tcp_info` of `include/uapi/linux/tcp.h`, as far as Linux 4.19.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpInfo {
    /// State, `ca_state`, retransmits, probes, backoff, options, window scales, flags.
    pub small: [u8; 8],
    pub rto: u32,
    pub ato: u32,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub fackets: u32,
    pub last_data_sent: u32,
    pub last_ack_sent: u32,
    pub last_data_recv: u32,
    pub last_ack_recv: u32,
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt: u32,
    pub rttvar: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt: u32,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt: u32,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    pub delivery_rate: u64,
    pub busy_time: u64,
    pub rwnd_limited: u64,
    pub sndbuf_limited: u64,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,
}

impl TcpInfo {
    pub fn of(stream: &TcpStream) -> Self {
        let mut info = TcpInfo::default();
        let mut size = size_of::<TcpInfo>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `size` bytes, every bit pattern of which is a TcpInfo.
        #[allow(unsafe_code)]
        let failed = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut size,
            )
        };
        assert_eq!(failed, 0, "TCP_INFO: {}", std::io::Error::last_os_error());
        assert_eq!(size as usize, size_of::<TcpInfo>(), "TCP_INFO of Linux 4.19 or later");
        info
    }

    /// Waits until all written data is acknowledged and returns the counters.
    pub fn once_acknowledged(stream: &TcpStream) -> Self {
        let end = Instant::now() + Duration::from_mins(1);
        loop {
            let info = Self::of(stream);
            if info.unacked == 0 && info.notsent_bytes == 0 {
                return info;
            }
            assert!(Instant::now() < end, "not acknowledged: {info:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
