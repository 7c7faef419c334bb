// The table of all hops: one row a hop, in the order of a packet's path, then the hops off the path.
//
// `id` is the number of the hop in records and sessions. It never changes its meaning and says nothing of order: a
// hop between two others is a row between their rows, with a free number below 47. The columns are documented in
// `spec.rs`. Two macros `hops!` read this file: that of `hop.rs`, and that of the build script of magscope-probe,
// which reads the columns up to `side` for the C header. A test writes the tables of `docs/hops.md` from it.

hops! {
    /// A process passed bytes to a socket (`inet_sendmsg`).
    AppSend {
        id: 1, name: "app.send", direction: Tx, side: Tx, layer: Socket, protocols: All, role: Send, detail: DetailKind::None,
        default: true, full: true, agent: true, needs: &[], frequency: PerCall,
        has_process: true, has_packet: false, has_interface: false, has_length: true, has_socket: true,
        part: SenderStack, step: "", border: "from the sender", screen_priority: 1,
        without: "which process sent what, and how many bytes its calls took",
        place: "`sock_send_length`, when `send` returns",
        content: "bytes taken: `[write_seq − ret, write_seq)`",
        user: "process",
    }

    /// TCP added bytes to its send queue (`tcp_sendmsg_locked`).
    TcpSend {
        id: 2, name: "tcp.send", direction: Tx, side: Tx, layer: Transport, protocols: Tcp, role: Send, detail: DetailKind::None,
        default: true, full: true, agent: true, needs: &[], frequency: PerCall,
        has_process: true, has_packet: false, has_interface: false, has_length: true, has_socket: true,
        part: SenderStack, step: "entering the send call", border: "into TCP", screen_priority: 7,
        without: "how long bytes wait in TCP's send queue",
        place: "`tcp_sendmsg_locked`, first pass of a call",
        content: "bytes offered: `[write_seq, write_seq + left)`",
        user: "process",
    }

    /// UDP built a datagram (`udp_sendmsg`).
    UdpSend {
        id: 3, name: "udp.send", direction: Tx, side: Tx, layer: Transport, protocols: Udp, role: Send, detail: DetailKind::None,
        default: false, full: false, agent: false, needs: &[], frequency: PerCall,
        has_process: true, has_packet: false, has_interface: false, has_length: true, has_socket: true,
        part: SenderStack, step: "entering the send call", border: "into UDP", screen_priority: 8,
        without: "time inside UDP before the packet is made",
        place: "`sys_enter_sendto`, `sys_enter_sendmsg`; only if asked for by name",
        content: "bytes offered (`sendto`)",
        user: "process",
    }

    /// TCP passed a segment down (`__tcp_transmit_skb`).
    TcpXmit {
        id: 4, name: "tcp.xmit", direction: Tx, side: Tx, layer: Transport, protocols: Tcp, role: Packet, detail: DetailKind::None,
        default: false, full: true, agent: false, needs: &[], frequency: PerPacket,
        has_process: false, has_packet: true, has_interface: false, has_length: true, has_socket: true,
        part: SendQueue, step: "held in TCP's send queue", border: "out of TCP", screen_priority: 14,
        without: "whether TCP held a segment back or IP did; ip.out stands one call below it",
        place: "`__tcp_transmit_skb` (no tracepoint)",
        content: "payload as TCP segmented it",
        user: "",
    }

    /// IP made a packet (`ip_local_out`, netfilter `LOCAL_OUT`).
    IpOut {
        id: 5, name: "ip.out", direction: Tx, side: Tx, layer: Ip, protocols: All, role: Packet, detail: DetailKind::Ack,
        default: true, full: true, agent: false, needs: &[], frequency: PerPacket,
        has_process: false, has_packet: true, has_interface: true, has_length: true, has_socket: true,
        part: SenderStack, step: "{proto} output", border: "into IP", screen_priority: 6,
        without: "time between TCP or UDP and the device; the start of a UDP journey",
        place: "netfilter `LOCAL_OUT`, before all rules",
        content: "payload of the packet",
        user: "UDP: process",
    }

    /// IP has routed the packet and passes it to the device (netfilter `POST_ROUTING`).
    IpPost {
        id: 6, name: "ip.post", direction: Tx, side: Tx, layer: Ip, protocols: All, role: Packet, detail: DetailKind::Ack,
        default: false, full: true, agent: false, needs: &[], frequency: PerPacket,
        has_process: false, has_packet: true, has_interface: true, has_length: true, has_socket: true,
        part: SenderStack, step: "IP output and netfilter", border: "out of IP", screen_priority: 16,
        without: "time in routing and packet filters on the way out",
        place: "netfilter `POST_ROUTING`, after all rules",
        content: "payload",
        user: "",
    }

    /// The packet reached the device's queue (`dev_queue_xmit`).
    DevQueue {
        id: 7, name: "dev.queue", direction: Tx, side: Tx, layer: Device, protocols: All, role: Packet, detail: DetailKind::Ack,
        default: false, full: true, agent: false, needs: &[], frequency: PerPacket,
        has_process: false, has_packet: true, has_interface: true, has_length: true, has_socket: true,
        part: SenderStack, step: "routing to the device", border: "into the queue", screen_priority: 12,
        without: "time in the queueing discipline",
        place: "`net_dev_queue`",
        content: "payload",
        user: "",
    }

    /// The packet is given to the driver (`net_dev_start_xmit`).
    DevXmit {
        id: 8, name: "dev.xmit", direction: Tx, side: Tx, layer: Device, protocols: All, role: Packet, detail: DetailKind::Ack,
        default: true, full: true, agent: true, needs: &[], frequency: PerPacket,
        has_process: false, has_packet: true, has_interface: true, has_length: true, has_socket: true,
        part: SenderStack, step: "queueing discipline", border: "into the driver", screen_priority: 3,
        without: "when a packet left; nothing can be said about the wire",
        place: "`net_dev_start_xmit`",
        content: "payload",
        user: "",
    }

    /// The driver returned (`net_dev_xmit`).
    DevDone {
        id: 9, name: "dev.done", direction: Tx, side: Tx, layer: Device, protocols: All, role: Packet, detail: DetailKind::DriverCode,
        default: false, full: true, agent: false, needs: &[Hop::DevXmit], frequency: PerPacket,
        has_process: false, has_packet: false, has_interface: true, has_length: true, has_socket: true,
        part: SenderStack, step: "the driver", border: "", screen_priority: 18,
        without: "time inside the driver's transmit call",
        place: "`net_dev_xmit`, when the driver returns",
        content: "as at `dev.xmit`",
        user: "",
    }

    /// The driver's poll took the packet from its ring, before GRO merges packets (`napi_gro_receive`).
    NapiPoll {
        id: 20, name: "napi.poll", direction: Rx, side: Rx, layer: Device, protocols: All, role: Packet, detail: DetailKind::Ack,
        default: false, full: false, agent: false, needs: &[], frequency: PerPacket,
        has_process: false, has_packet: true, has_interface: true, has_length: true, has_socket: false,
        part: Wire, step: "the wire", border: "into GRO", screen_priority: 18,
        without: "how long a packet waits in GRO for others, and its size on the wire",
        place: "`napi_gro_receive`, before GRO; only if asked for by name",
        content: "payload, as on the wire",
        user: "",
    }

    /// The driver delivered the packet (`netif_receive_skb`).
    DevRecv {
        id: 10, name: "dev.recv", direction: Rx, side: Rx, layer: Device, protocols: All, role: Packet, detail: DetailKind::Ack,
        default: true, full: true, agent: true, needs: &[], frequency: PerPacket,
        has_process: false, has_packet: true, has_interface: true, has_length: true, has_socket: false,
        part: Wire, step: "merging packets (GRO)", border: "out of driver", screen_priority: 2,
        without: "when a packet arrived; nothing can be said about the wire",
        place: "`netif_receive_skb`, after GRO",
        content: "payload",
        user: "",
    }

    /// Entry into IP (netfilter `PRE_ROUTING`).
    IpPre {
        id: 11, name: "ip.pre", direction: Rx, side: Rx, layer: Ip, protocols: All, role: Packet, detail: DetailKind::Ack,
        default: false, full: true, agent: false, needs: &[], frequency: PerPacket,
        has_process: false, has_packet: true, has_interface: true, has_length: true, has_socket: false,
        part: ReceiverStack, step: "receive softirq", border: "into IP", screen_priority: 17,
        without: "time from the driver to IP",
        place: "netfilter `PRE_ROUTING`, before all rules",
        content: "payload",
        user: "",
    }

    /// IP found this node to be the destination (netfilter `LOCAL_IN`).
    IpIn {
        id: 12, name: "ip.in", direction: Rx, side: Rx, layer: Ip, protocols: All, role: Packet, detail: DetailKind::Ack,
        default: false, full: true, agent: false, needs: &[], frequency: PerPacket,
        has_process: false, has_packet: true, has_interface: true, has_length: true, has_socket: false,
        part: ReceiverStack, step: "IP input and netfilter", border: "out of IP", screen_priority: 13,
        without: "time in packet filters and routing on the way in",
        place: "netfilter `LOCAL_IN`, after all rules",
        content: "payload",
        user: "",
    }

    /// TCP found the socket (`tcp_rcv_established`).
    TcpRecv {
        id: 13, name: "tcp.recv", direction: Rx, side: Rx, layer: Transport, protocols: Tcp, role: Packet, detail: DetailKind::None,
        default: true, full: true, agent: false, needs: &[], frequency: PerPacket,
        has_process: false, has_packet: true, has_interface: false, has_length: true, has_socket: true,
        part: ReceiverStack, step: "finding the {proto} socket", border: "into TCP", screen_priority: 9,
        without: "time from IP to TCP, and the ranges as TCP saw them",
        place: "`tcp_probe`, established connections",
        content: "payload as TCP sees it",
        user: "",
    }

    /// UDP found the socket (`udp_queue_rcv_skb`).
    UdpRecv {
        id: 14, name: "udp.recv", direction: Rx, side: Rx, layer: Transport, protocols: Udp, role: Packet, detail: DetailKind::None,
        default: true, full: true, agent: true, needs: &[], frequency: PerPacket,
        has_process: false, has_packet: true, has_interface: true, has_length: true, has_socket: true,
        part: ReceiverStack, step: "finding the {proto} socket", border: "into UDP", screen_priority: 10,
        without: "which socket got a datagram; the end of UDP journeys is then matched by order alone",
        place: "cgroup ingress, when the socket is known",
        content: "payload",
        user: "socket",
    }

    /// The socket notified its readers of data (`sk_data_ready`).
    SockReady {
        id: 15, name: "sock.ready", direction: Rx, side: Rx, layer: Socket, protocols: All, role: Ready, detail: DetailKind::Poller,
        default: true, full: true, agent: true, needs: &[], frequency: PerPacket,
        has_process: false, has_packet: false, has_interface: false, has_length: false, has_socket: true,
        part: ReceiverStack, step: "{proto} input", border: "", screen_priority: 5,
        without: "when data was there to be read: the time of the stack and that of the reader cannot be separated",
        place: "`sk_data_ready`",
        content: "all below `rcv_nxt`",
        user: "socket",
    }

    /// The reader was made runnable (`sched_wakeup`).
    TaskWake {
        id: 16, name: "task.wake", direction: Rx, side: Rx, layer: Sched, protocols: All, role: Reader, detail: DetailKind::OtherThread,
        default: true, full: true, agent: false, needs: &[Hop::SockReady], frequency: PerWakeUp,
        has_process: true, has_packet: false, has_interface: false, has_length: false, has_socket: true,
        part: ReceiverStack, step: "waking the reader", border: "", screen_priority: 11,
        without: "whether a late reader waited for a CPU or was busy elsewhere",
        place: "`sched_waking` of a reader",
        content: "",
        user: "thread",
    }

    /// The reader got a CPU (`sched_switch`).
    TaskRun {
        id: 17, name: "task.run", direction: Rx, side: Rx, layer: Sched, protocols: All, role: Reader, detail: DetailKind::OtherThread,
        default: true, full: true, agent: false, needs: &[Hop::SockReady, Hop::TaskWake], frequency: PerWakeUp,
        has_process: true, has_packet: false, has_interface: false, has_length: false, has_socket: true,
        part: Scheduler, step: "waiting for a CPU", border: "", screen_priority: 4,
        without: "whether a late reader waited for a CPU or was busy elsewhere",
        place: "`sched_switch`, first after the wake-up",
        content: "",
        user: "thread",
    }

    /// Bytes were copied to the reader's memory (`skb_copy_datagram_iter`).
    AppCopy {
        id: 18, name: "app.copy", direction: Rx, side: Rx, layer: Socket, protocols: All, role: Read, detail: DetailKind::None,
        default: false, full: true, agent: false, needs: &[], frequency: PerCall,
        has_process: true, has_packet: false, has_interface: false, has_length: true, has_socket: true,
        part: Reading, step: "waiting for the reader", border: "to the reader", screen_priority: 15,
        without: "time between the copy and the return of recv",
        place: "`skb_copy_datagram_iovec`",
        content: "bytes copied",
        user: "process",
    }

    /// `recv` returned to the process (`inet_recvmsg`).
    AppRecv {
        id: 19, name: "app.recv", direction: Rx, side: Rx, layer: Socket, protocols: All, role: Read, detail: DetailKind::EmptyRead,
        default: true, full: true, agent: true, needs: &[], frequency: PerCall,
        has_process: true, has_packet: false, has_interface: false, has_length: true, has_socket: true,
        part: Reading, step: "waiting for the reader", border: "to the reader", screen_priority: 0,
        without: "when the application had its bytes: journeys end at the socket",
        place: "`sock_recv_length`, when `recv` returns",
        content: "`[copied_seq − ret, copied_seq)`",
        user: "process",
    }

    /// TCP sent a byte range again (`tcp_retransmit_skb`).
    TcpRetransmit {
        id: 32, name: "tcp.retransmit", direction: Off, side: Tx, layer: Transport, protocols: All, role: Resend, detail: DetailKind::ResendReason,
        default: true, full: true, agent: true, needs: &[], frequency: Rare,
        has_process: false, has_packet: false, has_interface: false, has_length: true, has_socket: true,
        part: Unknown, step: "", border: "", screen_priority: 18,
        without: "retransmissions as TCP names them; they still show as repeated ranges",
        place: "`tcp_retransmit_skb`, where it succeeded",
        content: "the retransmitted range; fires after the device hops of that packet, and has the reason: fast, timeout or tail loss probe",
        user: "",
    }

    /// A sample of a TCP connection's state (`tcp_probe`).
    TcpState {
        id: 33, name: "tcp.state", direction: Off, side: Off, layer: Transport, protocols: All, role: Sample, detail: DetailKind::None,
        default: true, full: true, agent: true, needs: &[], frequency: Timed,
        has_process: false, has_packet: false, has_interface: false, has_length: false, has_socket: true,
        part: Unknown, step: "", border: "", screen_priority: 18,
        without: "congestion window, round-trip time and queues",
        place: "`tcp_probe`",
        content: "cwnd, ssthresh, srtt, rto, in flight, retransmitted, both windows, both ends of both queues, flags of the received segment; at most one sample in 4 ms a socket",
        user: "",
    }

    /// The kernel dropped a packet for a reason (`kfree_skb`).
    SkbDrop {
        id: 34, name: "skb.drop", direction: Off, side: Off, layer: Device, protocols: All, role: Drop, detail: DetailKind::DropReason,
        default: true, full: true, agent: true, needs: &[], frequency: Rare,
        has_process: false, has_packet: true, has_interface: true, has_length: true, has_socket: false,
        part: Unknown, step: "", border: "", screen_priority: 18,
        without: "why packets were dropped; losses show only as ranges that never arrive",
        place: "`kfree_skb`",
        content: "a packet ends here, with the kernel's reason; at a drop by a filter, the filter of the socket",
        user: "",
    }

    /// A UDP socket's receive buffer was full (`udp_fail_queue_rcv_skb`).
    SockFull {
        id: 35, name: "sock.full", direction: Off, side: Rx, layer: Socket, protocols: All, role: Overflow, detail: DetailKind::None,
        default: true, full: true, agent: true, needs: &[], frequency: Rare,
        has_process: false, has_packet: false, has_interface: false, has_length: false, has_socket: true,
        part: Unknown, step: "", border: "", screen_priority: 18,
        without: "whether drops came from a full receive buffer",
        place: "`udp_fail_queue_rcv_skb`",
        content: "a UDP socket's receive buffer was full",
        user: "",
    }

    /// A CPU switches from one task to another (`sched_switch`).
    SchedSwitch {
        id: 36, name: "sched.switch", direction: Off, side: Off, layer: Sched, protocols: All, role: Task, detail: DetailKind::OtherThread,
        default: false, full: false, agent: false, needs: &[], frequency: PerTask,
        has_process: true, has_packet: false, has_interface: false, has_length: false, has_socket: false,
        part: Unknown, step: "", border: "", screen_priority: 18,
        without: "what other tasks did meanwhile",
        place: "`sched_switch`",
        content: "all tasks; off by default",
        user: "",
    }

    /// A task was made runnable (`sched_wakeup`).
    SchedWakeup {
        id: 37, name: "sched.wakeup", direction: Off, side: Off, layer: Sched, protocols: All, role: Task, detail: DetailKind::OtherThread,
        default: false, full: false, agent: false, needs: &[], frequency: PerTask,
        has_process: true, has_packet: false, has_interface: false, has_length: false, has_socket: false,
        part: Unknown, step: "", border: "", screen_priority: 18,
        without: "what other tasks did meanwhile",
        place: "`sched_wakeup`",
        content: "all tasks; off by default",
        user: "",
    }

    /// A task was created (`sched_process_fork`).
    SchedFork {
        id: 38, name: "sched.fork", direction: Off, side: Off, layer: Sched, protocols: All, role: Task, detail: DetailKind::OtherThread,
        default: false, full: false, agent: false, needs: &[], frequency: PerTask,
        has_process: true, has_packet: false, has_interface: false, has_length: false, has_socket: false,
        part: Unknown, step: "", border: "", screen_priority: 18,
        without: "what other tasks did meanwhile",
        place: "`sched_process_fork`",
        content: "all tasks; off by default",
        user: "",
    }

    /// A task ended (`sched_process_exit`).
    SchedExit {
        id: 39, name: "sched.exit", direction: Off, side: Off, layer: Sched, protocols: All, role: Task, detail: DetailKind::OtherThread,
        default: false, full: false, agent: false, needs: &[], frequency: PerTask,
        has_process: true, has_packet: false, has_interface: false, has_length: false, has_socket: false,
        part: Unknown, step: "", border: "", screen_priority: 18,
        without: "what other tasks did meanwhile",
        place: "`sched_process_exit`",
        content: "all tasks; off by default",
        user: "",
    }

    /// A CPU has switched to another task, which runs from here on (`finish_task_switch`); with the duration of
    /// the switch.
    SchedSwitched {
        id: 40, name: "sched.switched", direction: Off, side: Off, layer: Sched, protocols: All, role: Task, detail: DetailKind::OtherThread,
        default: false, full: false, agent: false, needs: &[], frequency: PerTask,
        has_process: true, has_packet: false, has_interface: false, has_length: false, has_socket: false,
        part: Unknown, step: "", border: "", screen_priority: 18,
        without: "how long a switch from one task to another takes",
        place: "`sched_exit_tp`, or `finish_task_switch`",
        content: "the next task runs, and the duration of the switch ([scheduler.md](scheduler.md)); off by default",
        user: "",
    }

    /// TCP sends a reset (`tcp_send_reset`).
    TcpSendReset {
        id: 41, name: "tcp.send_reset", direction: Off, side: Tx, layer: Transport, protocols: All, role: Point, detail: DetailKind::ResetReason,
        default: true, full: true, agent: true, needs: &[], frequency: Rare,
        has_process: false, has_packet: false, has_interface: false, has_length: false, has_socket: true,
        part: Unknown, step: "", border: "", screen_priority: 18,
        without: "which host refused or ended a connection",
        place: "`tcp_send_reset`",
        content: "a reset; since Linux 6.10 with the kernel's reason, and also one without a socket, such as for a closed port",
        user: "",
    }

    /// TCP received a reset (`tcp_receive_reset`).
    TcpRecvReset {
        id: 42, name: "tcp.recv_reset", direction: Off, side: Rx, layer: Transport, protocols: All, role: Point, detail: DetailKind::None,
        default: true, full: true, agent: true, needs: &[], frequency: Rare,
        has_process: false, has_packet: false, has_interface: false, has_length: false, has_socket: true,
        part: Unknown, step: "", border: "", screen_priority: 18,
        without: "that the peer ended a connection",
        place: "`tcp_receive_reset`",
        content: "a reset that TCP accepted",
        user: "",
    }

    /// A TCP socket is destroyed (`tcp_v4_destroy_sock`): no read follows.
    SockDestroy {
        id: 43, name: "sock.destroy", direction: Off, side: Off, layer: Socket, protocols: Tcp, role: End, detail: DetailKind::WriteSeq,
        default: true, full: true, agent: true, needs: &[], frequency: Rare,
        has_process: false, has_packet: false, has_interface: false, has_length: true, has_socket: true,
        part: Unknown, step: "", border: "", screen_priority: 18,
        without: "whether bytes without a read were discarded, read by `splice`, or still wait",
        place: "`tcp_destroy_sock`, once per connection",
        content: "received bytes that nobody has read: `[copied_seq, rcv_nxt)`; the end of those accepted for sending, `write_seq`",
        user: "socket",
    }

    /// An attempt to connect ended (`inet_sock_set_state`).
    TcpOpen {
        id: 44, name: "tcp.open", direction: Off, side: Off, layer: Transport, protocols: All, role: Point, detail: DetailKind::ConnectionState,
        default: true, full: true, agent: true, needs: &[], frequency: PerConnection,
        has_process: false, has_packet: false, has_interface: false, has_length: false, has_socket: true,
        part: Unknown, step: "", border: "", screen_priority: 18,
        without: "when a connection was established, and why an attempt failed",
        place: "`inet_sock_set_state`, from SYN_SENT or SYN_RECV",
        content: "the new state: established or closed, with the socket's error number",
        user: "",
    }

    /// TCP sent a SYN-ACK again (`tcp_retransmit_synack`).
    TcpSynack {
        id: 45, name: "tcp.synack", direction: Off, side: Tx, layer: Transport, protocols: All, role: Point, detail: DetailKind::Synacks,
        default: true, full: true, agent: true, needs: &[], frequency: Rare,
        has_process: false, has_packet: false, has_interface: false, has_length: false, has_socket: false,
        part: Unknown, step: "", border: "", screen_priority: 18,
        without: "connections that stay half open",
        place: "`tcp_retransmit_synack`",
        content: "a SYN-ACK that was sent again, and how many times; the connection is half open",
        user: "",
    }
    /// TCP answers a segment with a challenge acknowledgement (`tcp_send_challenge_ack`).
    TcpChallengeAck {
        id: 46, name: "tcp.challenge_ack", direction: Off, side: Tx, layer: Transport, protocols: All, role: Point, detail: DetailKind::None,
        default: false, full: true, agent: false, needs: &[], frequency: Rare,
        has_process: false, has_packet: false, has_interface: false, has_length: false, has_socket: true,
        part: Unknown, step: "", border: "", screen_priority: 18,
        without: "that a reset or SYN came that TCP did not accept, such as a forged one",
        place: "`tcp_send_challenge_ack` (no tracepoint)",
        content: "a reset or a SYN arrived that may be forged or old (RFC 5961); the kernel's limit may suppress the answer",
        user: "",
    }
}
