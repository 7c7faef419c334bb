//! scratch
use magscope_core::hop::HopSet; use magscope_core::source::Source; use magscope_core::Batch; use magscope_probe::*; use std::time::Duration;
fn main() {
    let t = std::time::Instant::now();
    let facts = HostFacts::read().unwrap(); println!("facts {:?}", t.elapsed());
    println!("{facts:?}");
    let mut c = match Capture::start(CaptureOptions { hops: plan::full_hops(), ..Default::default() }) { Ok(c) => c, Err(e) => { println!("{e}"); return; } };
    println!("start {:?}", t.elapsed());
    let _ = HopSet::EMPTY;
    let mut b = Batch::default();
    let child = std::process::Command::new("sh").arg("-c").arg("python3 - <<'E'\nimport socket,threading,time\ns=socket.socket();s.bind(('127.0.0.1',0));s.listen()\ndef srv():\n  c,_=s.accept()\n  n=0\n  while True:\n    d=c.recv(65536)\n    if not d: break\n    n+=len(d)\nt=threading.Thread(target=srv);t.start()\nc=socket.create_connection(s.getsockname())\nfor i in range(3):\n  c.sendall(b'x'*100000); time.sleep(0.05)\nc.close();t.join()\nu=socket.socket(socket.AF_INET6,socket.SOCK_DGRAM);u.bind(('::1',0));v=socket.socket(socket.AF_INET6,socket.SOCK_DGRAM)\nfor i in range(3): v.sendto(b'y'*333,u.getsockname()); u.recv(1000)\nE").spawn().unwrap();
    let mut n = 0; let mut child = child; let mut evs = vec![];
    for i in 0..60 { c.next(&mut b, Duration::from_millis(20)).unwrap(); n += b.events.len(); for f in &b.flows { println!("{f}  {:x} ns {}", f.id.0, f.netns); } for t in &b.tasks { println!("{t:?}"); } for l in &b.losses { println!("{l:?}"); }  for l in b.tcp.iter().take(2) { println!("{l:?}"); } evs.extend_from_slice(&b.events);
      if i == 50 { c.stop(); child.wait().unwrap(); } }
    for e in &evs { println!("{:>12} cpu{} {:<12} {} flow {:x} sk {:x} [{}+{}) skb {:x} if {} id {} segs {} fl {:x} tf {:x} who {}/{} d {}", (e.time_ns - evs[0].time_ns)/1000, e.cpu, e.hop.name(), e.proto, e.flow.0 & 0xffff, e.socket, e.seq, e.len, e.skb, e.ifindex, e.ip_id, e.segs, e.flags.0, e.tcp_flags, e.tgid, e.tid, e.detail); }
    let k = c.counters().unwrap();
    println!("{n} {:?} hits {}", k, k.total_hits());
}
